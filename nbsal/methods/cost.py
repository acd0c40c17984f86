"""The number of passes through the model that an explanation takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Count:
    """A number of passes, as a formula of a method's settings and of the size of a text.

    >>> formula = 2 + SAMPLES * (UNITS - 1)
    >>> str(formula), formula.value({"samples": 25, "units": 4})
    ('2 + samples x (units - 1)', 77)
    """

    text: str
    value: Callable[[Mapping[str, int]], int]

    def __add__(self, other: "Count | int") -> "Count":
        return Count(f"{self} + {other}", lambda sizes: self.value(sizes) + evaluate(other, sizes))

    def __radd__(self, other: int) -> "Count":
        return Count(f"{other} + {self}", lambda sizes: other + self.value(sizes))

    def __sub__(self, other: int) -> "Count":
        return Count(f"{self} - {other}", lambda sizes: self.value(sizes) - other)

    def __mul__(self, other: "Count") -> "Count":
        return Count(f"{self} x ({other})", lambda sizes: self.value(sizes) * other.value(sizes))

    def __rmul__(self, other: int) -> "Count":
        return Count(f"{other} x {self}", lambda sizes: other * self.value(sizes))

    def __str__(self) -> str:
        return self.text


def evaluate(count: Count | int, sizes: Mapping[str, int]) -> int:
    """The count as a number; a formula is evaluated for `sizes`."""
    return count if isinstance(count, int) else count.value(sizes)


def _named(name: str) -> Count:
    return Count(name, lambda sizes: sizes[name])


SAMPLES, STEPS = _named("samples"), _named("steps")  # settings
BASELINES, TOKEN_BASELINES = _named("baselines"), _named("token baselines")  # the latter: all but "zero"
TOKENS, CONTENT_TOKENS, UNITS = _named("tokens"), _named("content tokens"), _named("units")  # of the text


@dataclass(frozen=True)
class Cost:
    """How many passes through the model it takes to explain one text, each text of a batch counted.

    Both ends of a span are two decisions: methods with `per_end` then run further passes for each end.
    `relevance` counts passes of relevance back through the model: they run in float64, and take three to five times
    as long as a gradient. With `at_most`, `forwards` is the most that are run: a repeated one is not run again.
    `lm_head` adds one LM-head projection, onto the whole vocabulary, for each scored position.

    >>> str(Cost(1, backwards=1))
    '1 forward and 1 backward pass'
    >>> str(Cost(1 + SAMPLES, backwards=SAMPLES))
    '1 + samples forward and samples backward passes'
    >>> Cost(1 + SAMPLES, backwards=SAMPLES).passes({"samples": 10})
    (11, 10, 0)
    """

    forwards: Count | int
    backwards: Count | int = 0
    relevance: int = 0
    at_most: bool = False
    lm_head: bool = False

    def passes(self, sizes: Mapping[str, int]) -> tuple[int, int, int]:
        """The numbers of forward, backward and relevance passes (`Method.sizes` gives the `sizes` of a text)."""
        return evaluate(self.forwards, sizes), evaluate(self.backwards, sizes), self.relevance

    def __str__(self) -> str:
        kinds = {"forward": self.forwards, "backward": self.backwards, "relevance": self.relevance}
        passes = [(kind, count) for kind, count in kinds.items() if count != 0 or kind == "forward"]
        *others, (kind, count) = passes
        counts = ", ".join(f"{other_count} {other}" for other, other_count in others)
        last = f"{count} {kind} {'pass' if count == 1 else 'passes'}"
        text = f"{counts} and {last}" if counts else last
        projections = "; 1 LM-head projection per scored position" if self.lm_head else ""
        return f"{'at most ' if self.at_most else ''}{text}{projections}"
