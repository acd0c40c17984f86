"""The names of a model's tokens, stored with a corpus so that it can be read without the model."""

import json

from nbsal.corpus.storage import Storage
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError

NAME = "_vocabulary.json"


def save_vocabulary(subject: Subject) -> bytes:
    """The names of all tokens in the order of their ids, as JSON."""
    size = subject.model.config.vocab_size
    names = [] if subject.tokenizer is None else subject.tokenizer.convert_ids_to_tokens(list(range(size)))
    return json.dumps([name or f"#{i}" for i, name in enumerate(names)], ensure_ascii=False).encode()


def read_vocabulary(storage: Storage, checksum: str) -> list[str]:
    """The stored names of all tokens."""
    data = storage.read_verified(NAME, checksum)
    if data is None:
        raise InputError(
            f"{storage.location}/{NAME} is missing or damaged; without it tokens have no names. Run "
            "nbsal.corpus.explain again to restore it.",
            argument="location",
            value=storage.location,
        )
    names: list[str] = json.loads(data)
    return names
