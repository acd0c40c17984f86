"""Random numbers that depend only on a seed and a text, not on the batch."""

import hashlib

import numpy as np

from nbsal.model.tokens import Row
from nbsal.validation import whole_number


def text_rng(seed: int, row: Row) -> np.random.Generator:
    """Create the random generator of a text; no global random state is read or changed.

    >>> import nbsal
    >>> row = nbsal.load("demo/reviews").encode("A joy.")[0]
    >>> text_rng(0, row).random() == text_rng(0, row).random()
    True
    """
    key = repr((whole_number(seed, "seed"), row.ids, row.types, row.mask)).encode()
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(key, digest_size=16).digest()))
