"""The smallest set of words whose hiding changes a decision: tried in order of size, or chosen by score."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from threading import Event
from typing import Any

from nbsal.ablation.decision import DecisionText, filler_id
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.evaluation._hiding import check_classifier
from nbsal.evaluation.audit.words import score_of, units_of
from nbsal.explain.explainer import as_explainer
from nbsal.explain.saliency import Saliency
from nbsal.model.targets import label_index
from nbsal.render.headline import percent
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, check_texts, checked, positive_number

EXACT = 12  # words up to which all sets are tried
SINGLES = 50  # words up to which each is hidden alone
MOST = 6  # words of a set
COMPLETE = 3  # words of a set up to which all are run for each mistake of an audit


@checked
@dataclass(frozen=True)
class Flip:
    """Words whose hiding changes a decision `before` to `after`; without such words, both are the same.

    `exact` says whether every smaller set was tried (without words: every set of up to `most` words); else words were
    added by score until the decision changed, and those not needed were taken out again. `to` is the class that was
    asked for, None for any other than `before`. `passes` is the number of forward passes.
    """

    text: Text
    words: tuple[str, ...]
    places: tuple[int, ...]  # numbers of the words in the text
    before: str
    after: str
    confidence: float  # of the decision without the words
    exact: bool
    passes: int
    to: str | None = None

    @property
    def changes(self) -> bool:
        """Whether hiding the words changes the decision."""
        return bool(self.words)

    @property
    def tried(self) -> int:
        """The number of different sets of words that were hidden."""
        return self.passes - 1  # the first pass hides nothing

    @property
    def sentence(self) -> str:
        """What hiding the words does, or how many sets of words were hidden without a change, in a sentence."""
        if not self.changes:
            return f"Still {self.before}: {self._without_change}."
        names = ", ".join(f"“{word}”" for word in self.words)
        rule = "no fewer words do" if self.exact else "chosen by score, fewer may do"
        rule = f"; {rule}" if len(self.words) > 1 else ""
        return f"Without {names}: {self.after} ({percent(self.confidence)}) instead of {self.before}{rule}."

    @property
    def _without_change(self) -> str:
        """How many sets were hidden without a change."""
        goal = "" if self.to is None else f" to {self.to}"
        search = "" if self.exact else " (not an exhaustive search)"
        if self.tried > 1:
            return f"none of the {self.tried:,} sets tried turned it{goal}{search}"
        return f"the only set tried did not turn it{goal}{search}" if self.tried else "it has no words to hide"

    def __repr__(self) -> str:
        return f"Flip({self.sentence})"


@checked
def flip(
    explainer: Any,
    text: Text,
    to: Any = None,
    *,
    way: str | int = "remove",
    most: int = MOST,
    progress: Progress = False,
    cancel: Event | None = None,
) -> Flip:
    """Find a small set of words whose hiding changes the decision about a text.

    Of texts with at most 12 words, all sets of up to `most` words are tried in order of size, so that the result is the
    smallest. Of longer texts, each word is tried alone (up to 50 words); then words are added by score until the
    decision changes, and those not needed are taken out again: fewer words may do (`exact` is False), and a text whose
    decision no tried set changes may have one that does.

    Args:
        explainer: An `Explainer`, or a model as `nbsal.load` takes it, which the default method explains.
        text: A text, or a pair of texts.
        to: The class that the decision must change to. By default any other.
        way: How words are hidden: "remove", "mask", "pad", or the id of a token in their place.
        most: How many words a set has at most.
        progress: Whether to show a progress bar, or a function that is called with what is done, and of how much.
        cancel: An event that stops the call.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "occlusion")
    >>> flip(explain, "A dull film.").words
    ('dull',)
    """
    explainer = as_explainer(explainer)
    subject = explainer.subject
    check_classifier(subject)
    filler_id(subject, way)  # raises an error if the way is not available
    (checked_text,) = check_texts(text)
    wanted = None if to is None else label_index(to, subject.labels, "to")
    saliency = explainer(checked_text)
    if wanted is not None and subject.labels[wanted] == saliency.prediction:
        message = f"to={to!r}, but the decision is {saliency.prediction} already. Name another class."
        raise InputError(message, argument="to", value=to)
    if saliency.provenance.get("windows", 1) > 1:
        message = "The text is longer than the model reads at once; hiding words needs a shorter one."
        raise InputError(message, argument="text", value=text)
    with Meter(None, progress, cancel) as meter:
        most = positive_number(most, "most")
        search = FlipSearch(DecisionText(subject, saliency.row, way=way), Ablation(subject), wanted, meter)
        return find_flip(search, saliency, most, most)


def find_flip(search: "FlipSearch", saliency: Saliency, most: int = MOST, complete: int = COMPLETE) -> Flip:
    """The flip of one text, by sets of up to `most` words.

    Of a short text all sets of up to `complete` words are run, before larger ones are chosen by score.
    """
    count = len(search.units)
    most = min(most, count)
    complete = min(most, _complete(count, complete))
    sets = search.by_size(complete)
    if sets is None and complete < most:
        sets = search.by_score([score_of(saliency, unit) for unit in search.units], most)
    exact = complete >= (most if sets is None else len(sets) - 1)
    labels = search.experiment.ablation.subject.labels
    before, to, passes = (
        labels[search.decision],
        None if search.wanted is None else labels[search.wanted],
        len(search.logits),
    )
    if sets is None:
        return Flip(saliency.text, (), (), before, before, search.confidence(()), exact, passes, to)
    places = tuple(sorted(place for number in sets for place in search.units[number].places))
    words = tuple(search.units[number].text for number in sorted(sets))
    after = labels[search.outcome(sets)]
    return Flip(saliency.text, words, places, before, after, search.confidence(sets), exact, passes, to)


def most_passes(count: int) -> int:
    """The most forward passes for a mistake of an audit, in a text of that many words."""
    most = min(MOST, count)
    complete = min(most, _complete(count, COMPLETE))
    return sum(comb(count, size) for size in range(complete + 1)) + (2 * most - 1 if complete < most else 0)


def _complete(count: int, complete: int) -> int:
    """The size up to which all sets of words are run, of a text with that many words."""
    return complete if count <= EXACT else 1 if count <= SINGLES else 0


class FlipSearch:
    """Sets of a text's words, by number, and what the model decides without them.

    `wanted` is the class to reach, None any other.
    """

    def __init__(self, text: DecisionText, ablation: Ablation, wanted: int | None, meter: Meter) -> None:
        self.units, self.wanted, self.meter = units_of(text.row), wanted, meter
        self.experiment = Experiment(ablation, text, [unit.tokens for unit in self.units])
        self.logits: dict[tuple[int, ...], Any] = {}
        self._run([()])
        self.decision = self.outcome(())

    def outcome(self, hidden: Sequence[int]) -> int:
        """The class that is decided without those words."""
        return int(self.logits[tuple(hidden)].argmax())

    def confidence(self, hidden: Sequence[int]) -> float:
        """The probability of that class."""
        return float(self.logits[tuple(hidden)].double().softmax(-1).max())

    def flips(self, hidden: Sequence[int]) -> bool:
        """Whether the decision without those words is the one to reach."""
        outcome = self.outcome(hidden)
        return outcome != self.decision if self.wanted is None else outcome == self.wanted

    def by_size(self, most: int) -> tuple[int, ...] | None:
        """The set that changes the decision and is smallest; among several, the one that leaves it surest."""
        for size in range(1, most + 1):
            sets = list(combinations(range(len(self.units)), size))
            self._run(sets)
            changing = [hidden for hidden in sets if self.flips(hidden)]
            if changing:
                return max(changing, key=self.confidence)
        return None

    def by_score(self, scores: Sequence[float], most: int) -> tuple[int, ...] | None:
        """The first words by score that change the decision together, without those that are not needed."""
        order = sorted(range(len(scores)), key=lambda number: -scores[number])[:most]
        sets = [tuple(sorted(order[:size])) for size in range(1, len(order) + 1)]
        self._run(sets)
        hidden = next((hidden for hidden in sets if self.flips(hidden)), None)
        if hidden is None:
            return None
        for number in reversed(order):
            fewer = tuple(each for each in hidden if each != number)
            if number in hidden and fewer:
                self._run([fewer])
                hidden = fewer if self.flips(fewer) else hidden
        return hidden

    def _run(self, sets: Sequence[tuple[int, ...]]) -> None:
        self.logits |= dict(zip(sets, self.experiment.without(*sets, meter=self.meter), strict=True))
