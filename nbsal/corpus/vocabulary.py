"""Vocabulary: how the tokens of a model are called, kept beside a corpus so that it can be read without the model."""

import json

from nbsal.corpus.storage import Storage
from nbsal.errors import InputError
from nbsal.model.subject import Subject

NAME = "_vocabulary.json"


def save_vocabulary(subject: Subject) -> bytes:
    """Names of all tokens, in the order of their ids."""
    size = subject.model.config.vocab_size
    names = [] if subject.tokenizer is None else subject.tokenizer.convert_ids_to_tokens(list(range(size)))
    return json.dumps([name or f"#{i}" for i, name in enumerate(names)], ensure_ascii=False).encode()


def read_vocabulary(storage: Storage, checksum: str) -> list[str]:
    """The names that were kept."""
    data = storage.sound(NAME, checksum)
    if data is None:
        raise InputError(
            f"{storage.place}/{NAME} is missing or damaged, and tokens have no names without it: explain the corpus "
            "again, which redoes it alone."
        )
    found: list[str] = json.loads(data)
    return found
