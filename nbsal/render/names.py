"""How labels of targets read: with the words at a place, and without the numbers of tokens."""

import re

_PLACE = re.compile(r"(?P<what>.*?)(?: (?P<way>at|after) (?P<where>.*))? \[\d+(?::\d+)?\]", re.DOTALL)
_TOKEN_NUMBER = re.compile(r" #\d+$")


def shown_label(label: str, is_token: bool = False) -> str:
    """A label as people read it; with `is_token` it names a token of the vocabulary, in quotation marks.

    >>> shown_label("PER at Mara [3]"), shown_label("in 1889 [5:6]"), shown_label("positive")
    ('PER at “Mara”', 'in 1889', 'positive')
    >>> shown_label("in #17 after lives [2] - of after lives [2]", is_token=True)
    '“in” after “lives” - “of” after “lives”'
    """
    return " - ".join(_shown(part, is_token) for part in label.split(" - "))


def _shown(label: str, is_token: bool) -> str:
    place = _PLACE.fullmatch(label)
    name = place["what"] if place else label
    name = f"“{_TOKEN_NUMBER.sub('', name)}”" if is_token else name
    if place is None or place["where"] is None:
        return name
    where = place["where"] if place["where"].startswith(("[", "<")) else f"“{place['where']}”"  # or a mask
    return f"{name} {place['way']} {where}"
