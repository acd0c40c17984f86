"""What an audit measures of a word, and of a mistake."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effect:
    """What hiding a word does in every text that has it; all sequences are in the order of `texts`, their numbers."""

    word: str
    speaks_for: int  # the class whose decisions scores explain by it
    named: int  # texts in which scores name it
    texts: tuple[int, ...]
    scores: tuple[float, ...]
    pulls: tuple[float, ...]  # change of the log-odds of the class that the word makes
    without: tuple[int, ...]  # the class that is decided without it


@dataclass(frozen=True)
class Correction:
    """A mistake, and the smallest set of words whose hiding corrects it; no words if none does."""

    text: int
    words: tuple[str, ...]
    places: tuple[int, ...]
    exact: bool
