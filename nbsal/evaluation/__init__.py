"""Evaluation of explanations: games, faithfulness, agreement, answers and overlap, with confidence intervals."""

from typing import TYPE_CHECKING

from nbsal.evaluation.rankings import kendall as kendall
from nbsal.evaluation.results import Results as Results
from nbsal.support.lazy import exports as _exports

if TYPE_CHECKING:
    from nbsal.evaluation._agreement import rank_agreement as rank_agreement
    from nbsal.evaluation._agreement import rationale_agreement as rationale_agreement
    from nbsal.evaluation._agreement import token_f1_at as token_f1_at
    from nbsal.evaluation._answers import answer_recall_at as answer_recall_at
    from nbsal.evaluation._answers import precision_at as precision_at
    from nbsal.evaluation._arena import arena as arena
    from nbsal.evaluation._faithfulness import faithfulness as faithfulness
    from nbsal.evaluation._games import at_layers as at_layers
    from nbsal.evaluation._games import best_layer as best_layer
    from nbsal.evaluation._games import games as games
    from nbsal.evaluation._overlap import overlap as overlap
    from nbsal.evaluation._planted import planted as planted
    from nbsal.evaluation._replies import answers as answers
    from nbsal.evaluation.audit.plan import plan_audit as plan_audit
    from nbsal.evaluation.cache import Cache as Cache

__getattr__, __dir__ = _exports(
    globals(),
    {
        "rank_agreement": "_agreement",
        "rationale_agreement": "_agreement",
        "token_f1_at": "_agreement",
        "answer_recall_at": "_answers",
        "precision_at": "_answers",
        "arena": "_arena",
        "faithfulness": "_faithfulness",
        "at_layers": "_games",
        "best_layer": "_games",
        "games": "_games",
        "overlap": "_overlap",
        "planted": "_planted",
        "answers": "_replies",
        "plan_audit": "audit.plan",
        "Cache": "cache",
    },
)
