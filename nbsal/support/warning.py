"""Warnings that point to the user's own line."""

import contextlib
import sys
import warnings
from pathlib import Path
from weakref import WeakKeyDictionary

_TOPICS: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()  # that warnings about an object had


def warn(message: str) -> None:
    """Warn at the line outside this package that called it."""
    inner = (str(Path(__file__).parents[1]), contextlib.__file__)
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(inner):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def warn_once(about: object, topic: str, message: str) -> None:
    """Warn of a topic once for each object, such as a model."""
    topics = _TOPICS.setdefault(about, set())
    if topic not in topics:
        topics.add(topic)
        warn(message)
