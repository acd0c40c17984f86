"""Vocabulary: how the tokens of a model are called, kept beside a corpus so that it can be read without the model."""

import json
from typing import Any

from nbsal.corpus.manifest import VOCABULARY
from nbsal.corpus.storage import Storage
from nbsal.errors import InputError
from nbsal.subject import Subject


def spelling(subject: Subject) -> bytes:
    """Names of all tokens, in the order of their ids."""
    size = subject.model.config.vocab_size
    names = [] if subject.tokenizer is None else subject.tokenizer.convert_ids_to_tokens(list(range(size)))
    return json.dumps([name or f"#{i}" for i, name in enumerate(names)], ensure_ascii=False).encode()


def spelt(storage: Storage) -> list[str]:
    """The names that were kept."""
    data = storage.read(VOCABULARY)
    try:
        found: Any = json.loads(data or b"")
    except ValueError:
        raise InputError(
            f"{storage.place}/{VOCABULARY} is missing or damaged: tokens have no names without it."
        ) from None
    return list(found)
