"""Inverse document frequency of tokens in everyday text, counted on the paragraphs of WikiText-2."""

import json
import math
from pathlib import Path

TABLE = Path(__file__).parent / "idf.json"


def load() -> dict[str, float]:
    """Load log((1 + documents) / (1 + documents with the token)) for every token that occurs.

    >>> table = load()
    >>> table["the"] < table["film"] < table["lobster"]
    True
    """
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    return {token: math.log((1 + stored["documents"]) / (1 + n)) for token, n in stored["counts"].items()}
