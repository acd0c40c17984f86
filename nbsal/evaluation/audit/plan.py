"""What an audit will cost."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbsal.evaluation.audit.flips import most_passes
from nbsal.evaluation.audit.measure import CANDIDATES, LEAST, RANDOM
from nbsal.evaluation.audit.words import units_of
from nbsal.evaluation.cache import encode_texts
from nbsal.explain.explainer import as_explainer
from nbsal.support.validation import Text, check_texts, checked, plural, text_list


@dataclass(frozen=True)
class AuditEstimate:
    """What an audit will run at most: texts that are explained, forward passes with words hidden, and those a mistake.

    How many mistakes there are is not known before the texts are explained.
    """

    texts: int
    passes: int
    passes_per_mistake: int

    def __str__(self) -> str:
        passes = f"at most {self.passes:,} forward passes with words hidden"
        more = f"at most {self.passes_per_mistake} more for each mistake"
        return f"{plural(self.texts, 'text')} to explain, then {passes}, and {more}"


@checked
def plan_audit(
    explainer: Any, texts: Iterable[Text], *, least: int = LEAST, candidates: int = CANDIDATES
) -> AuditEstimate:
    """What an audit of those texts will run at most, without running the model.

    The words that will be candidates are not known yet, so the most frequent words are counted. A mistake takes a
    dozen passes more than its text has words, and up to 310 in a text of at most twelve words: then all sets of up to
    three words are hidden.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact")
    >>> print(plan_audit(explain, ["A dull film.", "A dull joy."], least=1))
    2 texts to explain, then at most 14 forward passes with words hidden, and at most 22 more for each mistake
    """
    explainer = as_explainer(explainer)
    rows = encode_texts([explainer], check_texts(list(text_list(texts))))[explainer.subject]
    units = [units_of(row) for row in rows]
    counts = Counter(unit.text.casefold() for row in units for unit in row)
    most = sorted((count for count in counts.values() if count >= least), reverse=True)[:candidates]
    passes = (1 + RANDOM) * len(rows) + sum(most)
    return AuditEstimate(len(rows), passes, max((most_passes(len(row)) for row in units), default=0))
