"""Scores as people read them: signed, with three digits, and with one power of ten for a list."""

import math
from collections.abc import Sequence

WRITTEN_OUT = range(-3, 4)  # exponents of numbers that need no power of ten
LEAST = -300  # exponent of the smallest number that is scaled
SMALLEST_P = 0.001  # that is written out
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def exponent(largest: float) -> int:
    """The exponent of ten that scores share, given the largest absolute one; 0 if they can be written out."""
    power = _order(largest)
    return 0 if power in WRITTEN_OUT else power


def power_text(power: int) -> str:
    """A power of ten, or "" for 1.

    >>> power_text(-6)
    '× 10⁻⁶'
    """
    return f"× 10{str(power).translate(_SUPERSCRIPTS)}" if power else ""


def score_texts(scores: Sequence[float]) -> tuple[list[str], str]:
    """A list of scores as signed numbers, to the third digit of the largest, and the power of ten that they share.

    >>> score_texts([9.7e-6, -3e-7, 0.0])
    (['+9.70', '−0.30', '0'], '× 10⁻⁶')
    >>> score_texts([0.321, -0.0004])
    (['+0.321', '0'], '')
    """
    largest = max(map(abs, scores), default=0.0)
    power = exponent(largest)
    digits = max(0, 2 - _order(largest) + power)
    return [_signed(score / 10.0**power, digits) for score in scores], power_text(power)


def score_text(score: float) -> str:
    """A single score with three digits.

    >>> score_text(-9.7e-6), score_text(3.0)
    ('−9.70 × 10⁻⁶', '+3.00')
    """
    (text,), power = score_texts([score])
    return f"{text} {power}".rstrip()


def p_text(value: float) -> str:
    """A p-value with three decimals.

    >>> p_text(3e-7), p_text(0.04)
    ('< 0.001', '0.040')
    """
    return f"{value:.3f}" if value >= SMALLEST_P else f"< {SMALLEST_P}"


def value_text(value: float) -> str:
    """An output of a model that is no probability.

    >>> value_text(-0.71239)
    '−0.7124'
    """
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _order(size: float) -> int:
    return max(math.floor(math.log10(size)), LEAST) if 0 < size < math.inf else 0


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return text if text.strip("+\N{MINUS SIGN}0.") else "0"
