"""Manifest: what a run was asked for, and the shards that are done, each with its checksum; replaced whole."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import torch

from nbsal.corpus.sources import Columns, UnreadableRow
from nbsal.corpus.storage import Storage, digest
from nbsal.corpus.vocabulary import save_vocabulary
from nbsal.errors import InputError
from nbsal.explainer import Explainer
from nbsal.heads import HeadMask
from nbsal.model.subject import Subject
from nbsal.validation import loading

SCHEMA = 1
NAME = "_manifest.json"
# Tokens of a batch, padding included: on a processor enough to fill its vector units and little enough to stay in its
# caches, on a GPU enough to fill it.
TOKENS = {"cpu": 1024, "cuda": 16384}


@dataclass(frozen=True)
class Plan:
    """What decides every number of a corpus; a run is only gone on with under the same one."""

    shard_rows: int
    tokens: int  # of a batch
    text: Columns
    target: str
    dtype: str
    model: str
    task: str
    labels: tuple[str, ...]
    weights: str  # checksum of the model's
    vocabulary: str  # checksum of the names of its tokens
    masks: str  # checksum of the head masks that methods use
    methods: Mapping[str, Mapping[str, Any]]  # name -> provenance
    schema: int = SCHEMA

    @classmethod
    def of(
        cls,
        explainers: Mapping[str, Explainer],
        shard_rows: int,
        text: Columns,
        target: Any,
        dtype: str,
        tokens: int | None,
    ) -> Self:
        """The plan of a new run."""
        subject = next(iter(explainers.values())).subject
        made = cls(
            shard_rows=shard_rows,
            tokens=tokens or TOKENS.get(subject.device.type, TOKENS["cpu"]),
            text=text,
            target=repr(target),
            dtype=dtype,
            model=subject.name,
            task=subject.task,
            labels=tuple(subject.labels),
            weights=weights_digest(subject),
            vocabulary=digest(save_vocabulary(subject)),
            masks=_masks_digest(explainers.values()),
            methods={name: explainer.provenance for name, explainer in explainers.items()},
        )
        return cls.parsed(json.loads(json.dumps(asdict(made))))

    @classmethod
    def parsed(cls, stored: dict[str, Any]) -> Self:
        """The plan that was written as JSON."""
        text, labels = stored["text"], tuple(stored["labels"])
        return cls(**stored | {"text": tuple(text) if isinstance(text, list) else text, "labels": labels})

    def check(self, other: Self) -> None:
        """Refuse to go on with another plan; newer versions of what runs it are no other plan."""
        for name in self.__dataclass_fields__:
            begun, asked = _plain(getattr(self, name)), _plain(getattr(other, name))
            if begun != asked:
                raise InputError(
                    f"This corpus was begun with {name}={begun!r:.200}, not {asked!r:.200}: ask for the same again, or "
                    "choose another folder."
                )


@dataclass(frozen=True)
class Shard:
    """A file of the dataset as it was written, and the rows of the source that it holds."""

    name: str
    first: int
    rows: int
    failed: int
    cut: int  # rows of which the model read only a part
    tokens: int
    size: int
    checksum: str
    source: str  # checksum of the texts it explains

    @property
    def explained(self) -> int:
        """How many of its rows have scores."""
        return self.rows - self.failed


@dataclass
class Manifest:
    """The plan and the shards that are done, by number."""

    plan: Plan
    shards: dict[int, Shard] = field(default_factory=dict)
    complete: bool = False

    @classmethod
    def read(cls, storage: Storage) -> Self | None:
        """The manifest of a folder; None where nothing was begun."""
        data = storage.read(NAME)
        if data is None:
            return None
        with loading(f"{storage.place}/{NAME}", "manifest of a corpus"):
            stored = json.loads(data)
            schema = stored["plan"]["schema"]
            if schema != SCHEMA:
                raise InputError(f"{storage.place} was written in schema {schema}; this nbsal reads schema {SCHEMA}.")
            if stored.pop("checksum") != digest(_written(stored)):
                raise ValueError("its checksum is another")
            shards = {int(number): Shard(**shard) for number, shard in stored["shards"].items()}
            return cls(Plan.parsed(stored["plan"]), shards, stored["complete"])

    def write(self, storage: Storage) -> None:
        """Replace the one in the folder."""
        content = {
            "plan": asdict(self.plan),
            "complete": self.complete,
            "shards": {str(number): asdict(self.shards[number]) for number in sorted(self.shards)},
        }
        storage.write(NAME, _written(content | {"checksum": digest(_written(content))}))


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def weights_digest(subject: Subject) -> str:
    """A checksum of a model's weights."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(subject.model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


def _masks_digest(explainers: Iterable[Explainer]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for explainer in explainers:
        mask = getattr(explainer.method, "mask", None)
        if isinstance(mask, HeadMask):
            for part in mask.parts(weighted=True):
                found.update(part.tobytes())
    return found.hexdigest()


def source_digest(values: Iterable[Any]) -> str:
    """A checksum of what a source gave."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        shown = value.reason if isinstance(value, UnreadableRow) else value if isinstance(value, str) else repr(value)
        data = shown.encode("utf-8", "surrogatepass")
        found.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return found.hexdigest()


def _plain(value: Any) -> Any:
    """Without the versions of what runs it."""
    if not isinstance(value, Mapping):
        return value
    return {name: _plain(part) for name, part in value.items() if name != "versions"}
