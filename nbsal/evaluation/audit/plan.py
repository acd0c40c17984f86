"""What an audit will cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbsal.evaluation.audit.measure import CANDIDATES, LEAST, RANDOM
from nbsal.evaluation.audit.words import units_of
from nbsal.evaluation.cache import encode_texts
from nbsal.explain.explainer import as_explainer
from nbsal.support.validation import Text, check_texts, checked, plural, text_list


@dataclass(frozen=True)
class AuditEstimate:
    """What an audit will run at most: texts that are explained, and forward passes with words hidden."""

    texts: int
    passes: int

    def __str__(self) -> str:
        passes = f"at most {self.passes:,} masked forward passes, and those for mistakes"
        return f"{plural(self.texts, 'text')} to explain, then {passes}"


@checked
def plan_audit(
    explainer: Any, texts: Iterable[Text], *, least: int = LEAST, candidates: int = CANDIDATES
) -> AuditEstimate:
    """What an audit of those texts will run at most, without running the model.

    The words that will be candidates are not known yet, so the most frequent words are counted. A mistake takes a
    dozen passes more than its text has words, and up to 310 in a text of at most twelve words.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact")
    >>> print(plan_audit(explain, ["A dull film.", "A dull joy."], least=1))
    2 texts to explain, then at most 14 masked forward passes, and those for mistakes
    """
    explainer = as_explainer(explainer)
    rows = encode_texts([explainer], check_texts(list(text_list(texts))))[explainer.subject]
    counts: dict[str, int] = {}
    for row in rows:
        for unit in units_of(row):
            counts[unit.text.casefold()] = counts.get(unit.text.casefold(), 0) + 1
    most = sorted((count for count in counts.values() if count >= least), reverse=True)[:candidates]
    return AuditEstimate(len(rows), (1 + RANDOM) * len(rows) + sum(most))
