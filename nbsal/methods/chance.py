"""Chance: random draws that depend on a seed and a text alone, whoever else is explained beside it."""

import hashlib

import numpy as np

from nbsal.encoding import Row
from nbsal.methods.base import whole


def drawing(seed: int, row: Row) -> np.random.Generator:
    """A generator of a text's own; no global random state is read or changed.

    >>> import nbsal
    >>> row = nbsal.load("demo/reviews").encode("A joy.")[0]
    >>> drawing(0, row).random() == drawing(0, row).random()
    True
    """
    read = repr((whole(seed, "seed"), row.ids, row.types, row.mask)).encode()
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(read, digest_size=16).digest()))
