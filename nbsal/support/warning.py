"""Warnings that point to the user's own line."""

import contextlib
import sys
import warnings
from pathlib import Path


def warn(message: str) -> None:
    """Warn at the line outside this package that called it."""
    inner = (str(Path(__file__).parents[1]), contextlib.__file__)
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(inner):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
