"""Random numbers that depend only on a seed and a text, not on the batch."""

import hashlib

import numpy as np

from nbsal.model import encoder_decoder
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.support.validation import seed_number


def text_rng(seed: int, row: Row) -> np.random.Generator:
    """Create the random generator of a text; no global random state is read or changed."""
    key = repr((seed_number(seed), row.ids, row.types, row.mask)).encode()
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(key, digest_size=16).digest()))


def fixed_part(subject: Subject, row: Row) -> Row:
    """The part of a row that random numbers are drawn for: of a reply, which may go on, its source; else all of it.

    The tokens of a reply then share what is drawn.
    """
    if subject.task not in ("next-token", encoder_decoder.REPLY) or 1 not in row.segments:
        return row
    return row.pick(range(row.segments.index(1)))
