"""Installed fonts that have the characters which matplotlib's default font lacks."""

import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

INVISIBLE = ("Cc", "Cf", "Zl", "Zp", "Zs")  # categories of characters that need no glyph
PRIVATE = "Co"  # the category of characters that mean something else in every font
PLACEHOLDER = "Last Resort"  # a font with a box for every character
INTERFACE = (
    "Segoe UI",
    "SF Pro Text",
    "Helvetica Neue",
    "Cantarell",
    "Ubuntu",
    "Noto Sans",
    "Roboto",
    "Liberation Sans",
)
REGULAR = 400  # the weight of a face that is neither light nor bold
WARNED_CHARACTERS = 10  # the most characters that one warning lists


def interface() -> list[str]:
    """The font of the interface, as pages prefer it, or the default of matplotlib's settings if those were changed."""
    from matplotlib import rcParams, rcParamsDefault

    own = list(rcParams["font.family"])
    if own != rcParamsDefault["font.family"] or rcParams["font.sans-serif"] != rcParamsDefault["font.sans-serif"]:
        return own
    return next(([name] for name in INTERFACE if name in _installed_names()), own)


@contextmanager
def of_interface() -> Iterator[None]:
    """Draw the labels of axes in the font of the interface."""
    from matplotlib import rc_context

    with rc_context({"font.family": interface()}):
        yield


def families(text: str, first: Iterable[str] = ()) -> list[str]:
    """Font families that together have all characters of a text, `first` or else the default family first."""
    from matplotlib import rcParams

    first = [*first] or list(rcParams["font.family"])
    fallbacks = [_family(character) for character in _missing_glyphs(text, first)]
    return [*first, *dict.fromkeys(family for family in fallbacks if family)]


def best_font(texts: Iterable[str]) -> str:
    """The path of the font that has most characters of the texts: DejaVu Sans, unless another font has more."""
    import matplotlib

    default = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    codes = [ord(c) for c in {*"".join(texts)} if unicodedata.category(c) not in (*INVISIBLE, PRIVATE)]
    counts = {default: np.isin(codes, _codes(default)).sum()}
    if counts[default] < len(codes):
        counts |= {path: np.isin(codes, font_codes).sum() for path, font_codes in _installed().values()}
    return max(counts, key=lambda path: (counts[path], path == default, path))


def warn_missing_glyphs(texts: Iterable[str]) -> None:
    """Warn once of all characters in the texts that no installed font has."""
    missing = sorted(character for character in _missing_glyphs("".join(texts)) if _family(character) is None)
    if missing:
        names = ", ".join(f"{character} (U+{ord(character):04X})" for character in missing[:WARNED_CHARACTERS])
        more = f" and {len(missing) - WARNED_CHARACTERS} more" if len(missing) > WARNED_CHARACTERS else ""
        message = f"No installed font has {names}{more}. They are drawn as boxes."
        warnings.warn(f"{message} Install Noto Sans CJK or Noto Emoji, which have most characters.", stacklevel=2)


def _missing_glyphs(text: str, first: Sequence[str] = ()) -> list[str]:
    """Characters of a text that a family, or else the default font of matplotlib's settings, lacks."""
    from matplotlib import rcParams

    families = rcParams["font.family"], rcParams["font.sans-serif"], rcParams["font.serif"], rcParams["font.monospace"]
    path = _font_path(tuple(first), str(families), str(rcParams["font.weight"]), str(rcParams["font.style"]))
    return [character for character in dict.fromkeys(text) if not _has_glyph(path, character)]


@cache
def _font_path(family: tuple[str, ...], *settings: str) -> str:
    """The path of a font under those settings of matplotlib, which looks it up anew for every text."""
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family=family or None)))


@cache
def _installed_names() -> frozenset[str]:
    from matplotlib.font_manager import fontManager

    return frozenset(face.name for face in fontManager.ttflist)


@cache
def _has_glyph(path: str, character: str) -> bool:
    """True if a font has a character, or the character needs no glyph."""
    from matplotlib.font_manager import get_font

    return unicodedata.category(character) in INVISIBLE or bool(get_font(path).get_char_index(ord(character)))


@cache
def _family(character: str) -> str | None:
    """The installed family to use for a character: sans-serif families first, then those with most characters."""
    if unicodedata.category(character) == PRIVATE:
        return None
    code = ord(character)
    return next(
        (name for name, (_, codes) in _installed().items() if code in codes[codes.searchsorted(code) :][:1]), None
    )


@cache
def _installed() -> dict[str, tuple[str, NDArray[np.uint32]]]:
    """The path of each installed family's upright font and its characters, in order of preference."""
    from matplotlib.font_manager import fontManager, weight_dict

    def distance(face: Any) -> int:
        return abs(int(weight_dict.get(face.weight, face.weight)) - REGULAR)

    # Of several faces the regular one, which is drawn; a bold one can have more characters.
    faces = sorted(fontManager.ttflist, key=distance, reverse=True)
    upright = {face.name: face.fname for face in faces if face.style == "normal"}
    fonts = {}
    for name, path in upright.items():
        try:
            fonts[name] = (path, _codes(path))
        except (OSError, RuntimeError):  # removed or damaged since matplotlib listed it
            continue
    names = [name for name in fonts if not name.startswith(PLACEHOLDER)]
    names.sort(key=lambda name: ("Sans" not in name, -len(fonts[name][1]), name))
    return {name: fonts[name] for name in names}


def _codes(path: str) -> NDArray[np.uint32]:
    """The code points that a font has, sorted; an array takes a twentieth of the memory of a charmap."""
    from matplotlib.ft2font import FT2Font

    return np.array(sorted(FT2Font(path).get_charmap()), np.uint32)
