"""Colours of scores, with a hue for the sign and an opacity for the size.

Orange supports the target and blue opposes it: a pair that every kind of colour vision can tell apart.
"""

from dataclasses import dataclass
from typing import Any

Hue = str | int  # what a bar or a cell means: SIGNED, GREY, GOOD, BAD, IDLE, or a class by its number
SIGNED, GREY, GOOD, BAD, IDLE = "signed", "grey", "good", "bad", "idle"
FOR = (230, 126, 16)
CLASSES = ("#00706b", "#7c3fa8", "#8a5a00", "#a8326e")  # of classes, on paper: neither orange nor blue
CLASSES_ANYWHERE = ("#00847d", "#9a5cc8", "#a07014", "#cc4888")  # the same on light and on dark pages
INK = "#1c1e22"
AGAINST = (40, 118, 200)
WHITE = (255, 255, 255)
NEUTRAL = (112, 112, 112)  # amounts that are neither for nor against the target, such as attention
BETTER, WORSE = (0, 132, 125), (201, 64, 56)  # of decisions that are corrected or broken, on light and on dark pages
STRONGEST = 0.72  # opacity at the largest score: text on it stays readable in light and dark themes
TINT = 0.22  # opacity of tiles
BARE = 0.02  # strength below which a score has no colour
HUES = {GREY: NEUTRAL, GOOD: BETTER, BAD: WORSE, IDLE: (165, 168, 175)}
FAINT = 0.1 * STRONGEST  # opacity below which evidence against the target is not underlined


@dataclass(frozen=True)
class Scale:
    """How strongly scores are coloured: the display settings of a view, which change no number."""

    signed: bool = True
    gamma: float = 1.0
    clip: float = 1.0


LINEAR = Scale()


def colour(score: float, largest: float, scale: Scale = LINEAR) -> tuple[tuple[int, int, int], float]:
    """Hue and opacity of a score, relative to the largest score on display."""
    shown = largest > 0 and (score >= 0 or scale.signed)
    strength = min(1.0, abs(score) / (largest * scale.clip)) ** scale.gamma if shown else 0.0
    return (FOR if score >= 0 else AGAINST), STRONGEST * strength * (strength >= BARE)


def class_colour(hue: int | None, anywhere: bool = False) -> str:
    """The colour of a class by its number; classes beyond the first four, and None, are black.

    `anywhere` is for pages whose background is not known; there the text keeps the colour of the page.

    >>> class_colour(1), class_colour(7), class_colour(None, anywhere=True)
    ('#7c3fa8', '#1c1e22', 'inherit')
    """
    colours = CLASSES_ANYWHERE if anywhere else CLASSES
    return colours[hue] if hue is not None and hue < len(colours) else ("inherit" if anywhere else INK)


def bar_colour(hue: Hue, share: float, anywhere: bool = False) -> str:
    """The colour of a bar; `anywhere` as in `class_colour`.

    >>> bar_colour(SIGNED, -0.5), bar_colour(GREY, 0.5), bar_colour(1, 0.5)
    ('#2876c8', '#707070', '#7c3fa8')
    """
    if isinstance(hue, int):
        return class_colour(hue, anywhere)
    return hex_colour(HUES.get(hue, FOR if share >= 0 else AGAINST))


def rgb(hue: Hue | None) -> tuple[int, int, int]:
    """The channels of a hue: of a class, or else grey."""
    code = CLASSES[hue] if isinstance(hue, int) and hue < len(CLASSES) else hex_colour(NEUTRAL)
    return (int(code[1:3], 16), int(code[3:5], 16), int(code[5:], 16))


def colour_map(*hues: tuple[int, int, int]) -> Any:
    """A colour map of matplotlib that leads through some hues."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("hues", list(map(hex_colour, hues)))


def hex_colour(hue: tuple[int, int, int]) -> str:
    """A hue in the notation of CSS and matplotlib.

    >>> hex_colour(FOR)
    '#e67e10'
    """
    return "#{:02x}{:02x}{:02x}".format(*hue)
