"""Fonts: which of the installed ones draw the characters that matplotlib's usual one lacks."""

import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NOT_DRAWN = ("Cc", "Cf", "Zl", "Zp", "Zs")  # categories of characters that nobody misses
PRIVATE = "Co"  # the category of those that mean something else in every font
NO_FONT = "Last Resort"  # draws a box for any character
NAMED = 10  # characters that a warning names


def families(text: str) -> list[str]:
    """Font families that together draw a text, the usual one first.

    >>> families("plain")
    ['sans-serif']
    """
    from matplotlib import rcParams

    found = [_family(character) for character in _lacking(text)]
    return [*rcParams["font.family"], *dict.fromkeys(family for family in found if family)]


def best_families(texts: Iterable[str]) -> str:
    """The file of the one font that draws most of the characters of some texts: DejaVu Sans, unless others draw more.

    >>> best_families(["plain"]).endswith("DejaVuSans.ttf")
    True
    """
    import matplotlib

    usual = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    wanted = [ord(c) for c in {*"".join(texts)} if unicodedata.category(c) not in (*NOT_DRAWN, PRIVATE)]
    drawn = {usual: np.isin(wanted, _codes(usual)).sum()}
    if drawn[usual] < len(wanted):
        drawn |= {file: np.isin(wanted, codes).sum() for file, codes in _installed().values()}
    return max(drawn, key=lambda file: (drawn[file], file == usual, file))


def warn_missing_glyphs(texts: Iterable[str]) -> None:
    """Warn once of all characters in those texts that no installed font has."""
    lacking = sorted(character for character in _lacking("".join(texts)) if _family(character) is None)
    if lacking:
        named = ", ".join(f"{character} (U+{ord(character):04X})" for character in lacking[:NAMED])
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        said = f"No installed font has {named}{more}: boxes stand for them in the picture."
        warnings.warn(f"{said} Noto Sans CJK and Noto Emoji are fonts that have most.", stacklevel=2)


def _lacking(text: str) -> list[str]:
    """Characters of a text that the usual font, which settings of matplotlib name, lacks."""
    from matplotlib.font_manager import FontProperties, findfont

    usual = findfont(FontProperties())
    return [character for character in dict.fromkeys(text) if not _drawn(usual, character)]


@cache
def _drawn(file: str, character: str) -> bool:
    """Whether a font has a character, or needs not."""
    from matplotlib.font_manager import get_font

    return unicodedata.category(character) in NOT_DRAWN or bool(get_font(file).get_char_index(ord(character)))


@cache
def _family(character: str) -> str | None:
    """The installed family that draws a character: a sans-serif one before others, then the one that has most."""
    if unicodedata.category(character) == PRIVATE:
        return None
    code = ord(character)
    return next(
        (name for name, (_, codes) in _installed().items() if code in codes[codes.searchsorted(code) :][:1]), None
    )


@cache
def _installed() -> dict[str, tuple[str, NDArray[np.uint32]]]:
    """The upright file of every installed family, and the characters it has; those first that are taken first."""
    from matplotlib.font_manager import fontManager

    upright = {entry.name: entry.fname for entry in fontManager.ttflist if entry.style == "normal"}
    found = {}
    for name, file in upright.items():
        try:
            found[name] = (file, _codes(file))
        except (OSError, RuntimeError):  # matplotlib keeps its list while fonts are removed
            continue
    drawing = [name for name in found if not name.startswith(NO_FONT)]
    return {name: found[name] for name in sorted(drawing, key=lambda n: ("Sans" not in n, -len(found[n][1]), n))}


def _codes(file: str) -> NDArray[np.uint32]:
    """The characters that a font has, in order: as arrays they take a twentieth of the room of charmaps."""
    from matplotlib.ft2font import FT2Font

    return np.array(sorted(FT2Font(file).get_charmap()), np.uint32)
