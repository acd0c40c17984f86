"""How labels of targets read: with the words at a place, and without the numbers of tokens."""

import re
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

from nbsal.render.html import label

_PLACE = re.compile(r"(?P<what>.*?)(?: (?P<way>at|after) (?P<where>.*))? \[\d+(?::\d+)?\]", re.DOTALL)
_TOKEN_NUMBER = re.compile(r" #\d+$")


def display_name(label: str, is_token: bool = False) -> str:
    """A label as people read it; with `is_token` it names a token of the vocabulary, in quotation marks.

    >>> display_name("PER at Mara [3]"), display_name("in 1889 [5:6]"), display_name("positive")
    ('PER at “Mara”', 'in 1889', 'positive')
    >>> display_name("in #17 after lives [2] - of after lives [2]", is_token=True)
    '“in” after “lives” - “of” after “lives”'
    """
    return " - ".join(_part_name(part, is_token) for part in label.split(" - "))


def model_name(model: str) -> str:
    """A model as notes name it: of the full path of a folder, the last part.

    >>> model_name("demo/reviews"), model_name("/home/mara/runs/best"), model_name("C:\\\\runs\\\\best")
    ('demo/reviews', 'best', 'best')
    """
    for path in (PurePosixPath(model), PureWindowsPath(model)):
        if path.is_absolute() and path.name:
            return path.name
    return model


def _part_name(label: str, is_token: bool) -> str:
    place = _PLACE.fullmatch(label)
    name = place["what"] if place else label
    name = f"“{_TOKEN_NUMBER.sub('', name)}”" if is_token else name
    if place is None or place["where"] is None:
        return name
    where = place["where"] if place["where"].startswith(("[", "<")) else f"“{place['where']}”"  # or a mask
    return f"{name} {place['way']} {where}"


def word_name(text: str) -> str:
    """A word as a table names it: punctuation has quotation marks, and a single sign its name.

    >>> word_name("warm"), word_name(","), word_name("!!")
    ('warm', '“,” comma', '“!!”')
    """
    return text if any(map(str.isalnum, text)) else f"“{text}” {_sign_name(text)}".rstrip()


def quoted_word(text: str) -> str:
    """A word as a sentence names it: in quotation marks, a single sign with its name.

    >>> quoted_word("warm"), quoted_word("*")
    ('“warm”', '“*” (asterisk)')
    """
    sign = _sign_name(text)
    return f"“{label(text)}”{f' ({sign})' if sign else ''}"


def _sign_name(text: str) -> str:
    return "" if len(text) != 1 or text.isalnum() else unicodedata.name(text, "").lower()
