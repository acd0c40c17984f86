"""Explanation methods, each a small frozen dataclass that turns a trace into scores."""

from nbsal.methods import catalogue as catalogue
from nbsal.methods import decoding as decoding
from nbsal.methods import gradient as gradient
