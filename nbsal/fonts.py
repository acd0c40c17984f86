"""Fonts: which of the installed ones draw the characters that matplotlib's usual one lacks."""

import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

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

    found = [_family(character) for character in dict.fromkeys(text) if not _usual(character)]
    return [*rcParams["font.family"], *dict.fromkeys(family for family in found if family)]


def whole(texts: Iterable[str]) -> str:
    """The file of the one font that draws most of the characters of some texts: the usual one, unless others draw more.

    >>> whole(["plain"]).endswith("DejaVuSans.ttf")
    True
    """
    import matplotlib
    from matplotlib.ft2font import FT2Font

    usual = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    written = {*"".join(texts)}
    if all(map(_usual, written)):
        return usual
    wanted = {ord(c) for c in written if unicodedata.category(c) not in (*NOT_DRAWN, PRIVATE)}
    maps = dict(_charmaps().values()) | {usual: FT2Font(usual).get_charmap()}
    return max(maps, key=lambda file: (len(wanted & maps[file].keys()), file == usual, file))


def warn_of(texts: Iterable[str]) -> None:
    """Warn once of all characters in those texts that no installed font has."""
    lacking = sorted(c for c in set("".join(texts)) if not _usual(c) and _family(c) is None)
    if lacking:
        named = ", ".join(f"{character} (U+{ord(character):04X})" for character in lacking[:NAMED])
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        said = f"No installed font has {named}{more}: boxes stand for them in the picture."
        warnings.warn(f"{said} Noto Sans CJK and Noto Emoji are fonts that have most.", stacklevel=2)


@cache
def _usual(character: str) -> bool:
    """Whether the usual font has a character, or needs not."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    drawn = unicodedata.category(character) not in NOT_DRAWN
    return not drawn or bool(get_font(findfont(FontProperties())).get_char_index(ord(character)))


def _family(character: str) -> str | None:
    """The installed family that draws a character."""
    return None if unicodedata.category(character) == PRIVATE else _owners().get(ord(character))


@cache
def _owners() -> dict[int, str]:
    """The family for every character: a sans-serif one before others, and of those the one that has most."""
    codes = {name: found for name, (_, found) in _charmaps().items()}
    order = sorted(codes, key=lambda name: ("Sans" not in name, -len(codes[name]), name))
    return {code: name for name in reversed(order) for code in codes[name]}


@cache
def _charmaps() -> dict[str, tuple[str, Mapping[int, Any]]]:
    """The upright file of every installed family, and the characters it has."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    upright = {entry.name: entry.fname for entry in fontManager.ttflist if entry.style == "normal"}
    return {name: (file, FT2Font(file).get_charmap()) for name, file in upright.items() if not name.startswith(NO_FONT)}
