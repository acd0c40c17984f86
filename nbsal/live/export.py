"""Write a small copy of a model for pages that answer without Python, and give the same copy as a subject."""

import copy
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch

from nbsal.live.parts import StoredTensor, parts_of, sizes_of
from nbsal.live.tokenizer import tokenizer_tables
from nbsal.model.subject import Subject
from nbsal.support.errors import file_error
from nbsal.support.rounding import FULL
from nbsal.support.validation import checked

FORMAT = 1  # of the files; pages refuse others
ALIGNMENT = 16  # bytes, so that a page can read numbers where they are
DIGITS = 12  # of the digest in a folder's name


def copy_name(subject: Subject) -> str:
    """What a page calls the copy that it runs."""
    return f"a small 8-bit copy of {subject.name}"


@checked
def rounded(subject: Subject) -> Subject:
    """The copy of a model that a live page runs, as a subject: weights rounded to 8 bits, embeddings to 4.

    It is a model of its own, which the page explains exactly: compare its scores with those of the page, and its
    predictions with those of the original.

    >>> import nbsal
    >>> rounded(nbsal.load("demo/reviews-small")).name
    'a small 8-bit copy of demo/reviews-small'
    """
    parts_of(subject)  # raises an error for a kind of model that is not supported
    result = copy.deepcopy(subject)
    result.name = copy_name(subject)
    with torch.no_grad():
        for part in parts_of(result).values():
            if part.bits != FULL:
                part.tensor.copy_(torch.from_numpy(part.rounded().values()))
    vars(result).pop("text_encoder", None)
    return result


@checked
def export(subject: Subject, folder: str | Path) -> Path:
    """Write the files of a live page into a folder of their own in `folder`, and return that.

    Its name has a digest of its content, so that browsers may keep the files, and pages of several models can share
    `folder`. Supported are BERT models that classify texts; others raise ModelError.

    >>> import nbsal, tempfile
    >>> written = export(nbsal.load("demo/reviews-small"), tempfile.mkdtemp())
    >>> sorted(path.name for path in written.iterdir())
    ['manifest.json', 'model.bin', 'vocabulary.json']
    """
    weights, tensors = _packed(parts_of(subject))
    vocabulary = json.dumps(tokenizer_tables(subject.tokenizer), ensure_ascii=False, separators=(",", ":"))
    files = {"model.bin": weights, "vocabulary.json": vocabulary.encode()}
    manifest = {
        "format": FORMAT,
        "subject": subject.name,
        "name": copy_name(subject),
        "labels": list(subject.labels),
        "sizes": sizes_of(subject),
        "tensors": tensors,
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
    }
    files["manifest.json"] = json.dumps(manifest, ensure_ascii=False).encode()
    path = Path(folder) / folder_name(subject.name, files["manifest.json"])
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (path / name).write_bytes(content)
    except OSError as error:
        raise file_error("folder", folder, error) from error
    return path


def folder_name(name: str, manifest: bytes) -> str:
    """The name of the folder of a copy: that of its subject without other characters than letters, and a digest."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "model"
    return f"{plain[-40:]}-{hashlib.sha256(manifest).hexdigest()[:DIGITS]}"


def _packed(parts: dict[str, StoredTensor]) -> tuple[bytes, dict[str, Any]]:
    """All tensors one after the other, and for each its place, its shape and its bits; equal ones share a place."""
    content, tensors = bytearray(), dict[str, Any]()
    for name, part in parts.items():
        same = next((other for other in tensors if _is_same(part, parts[other])), None)
        if same is None:
            content += bytes(-len(content) % ALIGNMENT)
        at = len(content) if same is None else tensors[same]["at"]
        tensors[name] = {"at": at, "shape": list(part.tensor.shape), "bits": part.bits}
        if same is None:
            content += part.packed()
    return bytes(content), tensors


def _is_same(first: StoredTensor, second: StoredTensor) -> bool:
    return first.bits == second.bits and torch.equal(first.tensor, second.tensor)
