"""The other end of `wire.py` in Python: a slow replica of `frontend/src/decode.js`."""

from typing import Any


def tokens(wired: dict[str, Any]) -> list[dict[str, Any]]:
    """The tokens as a page has them; pieces of text are cut in UTF-16, as a page cuts them."""
    numbers = _varints(wired["spans"])
    found, part, at = [], 0, 0
    for i in range(wired["count"]):
        head, length = next(numbers), next(numbers)
        gap, flags = head >> 3, head & 7
        if flags & 4:
            part, at = part + 1, 0
        start = at + (-(gap + 1) // 2 if gap % 2 else gap // 2)
        units = wired["parts"][part].encode("utf-16-le")
        text = units[2 * start : 2 * (start + length)].decode("utf-16-le")
        name = wired["names"].get(i, text)
        found.append({"part": part, "special": bool(flags & 2), "first": bool(flags & 1), "text": text, "name": name})
        at = max(at, start + length)
    return found


def _varints(packed: bytes):
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
