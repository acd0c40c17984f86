"""Decoding of what `wire.py` packs, in Python: a slow replica of `frontend/src/page/decode.ts`."""

import struct
from typing import Any


def tokens(wired: dict[str, Any]) -> list[dict[str, Any]]:
    """The tokens as a page decodes them; text is sliced in UTF-16, as a page does."""
    starts = struct.unpack(f"<{wired['count']}i", wired["starts"])
    ends = struct.unpack(f"<{wired['count']}i", wired["ends"])
    flags = struct.unpack(f"<{wired['count']}H", wired["flags"])
    decoded = []
    for i, (start, end, bits) in enumerate(zip(starts, ends, flags, strict=True)):
        part = bits >> 2
        units = wired["parts"][part].encode("utf-16-le")
        text = units[2 * start : 2 * end].decode("utf-16-le")
        name = wired["names"].get(i, text)
        decoded.append({"part": part, "special": bool(bits & 2), "first": bool(bits & 1), "text": text, "name": name})
    return decoded
