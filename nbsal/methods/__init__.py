"""Methods: each is a small frozen dataclass that turns a Trace into scores."""

from nbsal.methods import catalogue as catalogue
from nbsal.methods import decoding as decoding
from nbsal.methods import gradient as gradient
