"""What a model does without some words, in whatever way they are hidden, and the table of such effects."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbsal.support.lazy import pandas

WAYS = "ways"  # the `check` that hides in several ways
NAMES = REMOVED, REPLACED, MASKED, ONLY = "removed", "replaced", "masked", "only"
MOST_WAYS = 0.75  # share of the ways in which hiding must count


@dataclass(frozen=True)
class Outcome:
    """What the model does without some words: its prediction ("" where nothing is decided), the value of the target."""

    prediction: str
    value: float


@dataclass(frozen=True)
class HidingWay:
    """The outcome without the words that a sentence names, hidden in one way, and those without random words.

    They are "removed" (the text is written without them), "replaced" (by neutral words), "masked" (nothing attends to
    them), or they are the "only" words that are left.
    """

    name: str
    outcome: Outcome
    random: tuple[Outcome, ...]

    def hidden(self, words: Sequence[str]) -> tuple[str, ...]:
        """What is hidden for the sake of those words.

        >>> HidingWay("only", Outcome("positive", 0.9), ()).hidden(["warm", "funny"])
        ('all but warm, funny',)
        """
        return (f"all but {', '.join(words)}",) if self.name == ONLY else tuple(words)


Effect = tuple[tuple[str, ...], str, Outcome]  # what was hidden, the kind of set, and what the model then does


def effects_frame(effects: Sequence[Effect]) -> "pandas.DataFrame":
    """What hiding does: a row for each set, and first the whole text, from which `change` is measured."""
    rows = [(hidden, kind, outcome.value, outcome.prediction) for hidden, kind, outcome in effects]
    frame = pandas.DataFrame(rows, columns=["hidden", "kind", "value", "outcome"])
    frame.insert(3, "change", frame["value"] - frame["value"].iloc[0])
    return frame
