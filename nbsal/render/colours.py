"""Colours of scores, with a hue for the sign and an opacity for the size.

Orange supports the target and blue opposes it: a pair that every kind of colour vision can tell apart.
"""

from typing import Any

FOR = (230, 126, 16)
CLASSES = ("#00706b", "#7c3fa8", "#8a5a00", "#a8326e")  # of classes, on paper: neither orange nor blue
CLASSES_ANYWHERE = ("#00847d", "#9a5cc8", "#a07014", "#cc4888")  # the same on light and on dark pages
INK = "#1c1e22"
AGAINST = (40, 118, 200)
WHITE = (255, 255, 255)
NEUTRAL = (112, 112, 112)  # amounts that are neither for nor against the target, such as attention
STRONGEST = 0.72  # opacity at the largest score: text on it stays readable in light and dark themes
FAINT = 0.1 * STRONGEST  # opacity below which evidence against the target is not underlined


def colour(score: float, largest: float) -> tuple[tuple[int, int, int], float]:
    """Hue and opacity of a score, relative to the largest score on display."""
    strength = min(1.0, abs(score) / largest) if largest > 0 else 0.0
    return (FOR if score >= 0 else AGAINST), STRONGEST * strength


def class_colour(hue: int | None, anywhere: bool = False) -> str:
    """The colour of a class by its number; classes beyond the first four, and None, are black.

    `anywhere` is for pages whose background is not known; there the text keeps the colour of the page.

    >>> class_colour(1), class_colour(7), class_colour(None, anywhere=True)
    ('#7c3fa8', '#1c1e22', 'inherit')
    """
    colours = CLASSES_ANYWHERE if anywhere else CLASSES
    return colours[hue] if hue is not None and hue < len(colours) else ("inherit" if anywhere else INK)


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
