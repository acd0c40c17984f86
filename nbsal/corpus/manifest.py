"""The manifest of a corpus: the plan of the run, and the finished shards with their checksums."""

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
# Tokens per batch, padding included: on a CPU enough to fill its vector units and few enough to stay in its caches; on
# a GPU enough to fill it.
TOKENS = {"cpu": 1024, "cuda": 16384}


@dataclass(frozen=True)
class Plan:
    """Everything that determines the scores of a corpus. A run can only be resumed under the same plan.

    The names of its fields are keys of the stored manifest.
    """

    shard_rows: int
    tokens: int  # per batch
    text: Columns
    target: str
    dtype: str
    model: str
    task: str
    labels: tuple[str, ...]
    weights: str  # checksum of the model's weights
    vocabulary: str  # checksum of the names of its tokens
    masks: str  # checksum of the head masks of the methods
    methods: Mapping[str, Mapping[str, Any]]  # name -> provenance
    schema: int = SCHEMA

    @classmethod
    def create(
        cls,
        explainers: Mapping[str, Explainer],
        shard_rows: int,
        text: Columns,
        target: Any,
        dtype: str,
        tokens: int | None,
    ) -> Self:
        """The plan of a new run; `tokens` None chooses the size of batches for the model's device."""
        subject = next(iter(explainers.values())).subject
        plan = cls(
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
        return cls.from_json(json.loads(json.dumps(asdict(plan))))

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The plan that was stored as JSON."""
        text, labels = stored["text"], tuple(stored["labels"])
        return cls(**stored | {"text": tuple(text) if isinstance(text, list) else text, "labels": labels})

    def check_same(self, other: Self) -> None:
        """Refuse to resume with another plan; versions of nbsal and its dependencies may differ."""
        for name in self.__dataclass_fields__:
            stored, new = _without_versions(getattr(self, name)), _without_versions(getattr(other, name))
            if stored != new:
                difference, value = _first_difference(name, stored, new)
                raise InputError(
                    f"This corpus was started with {difference}. Use the same settings to resume, or choose another "
                    "folder.",
                    argument=name,
                    value=value,
                )


@dataclass(frozen=True)
class Shard:
    """One file of the dataset, and the rows of the source that it holds.

    The names of its fields are keys of the stored manifest.
    """

    name: str
    first: int  # index of its first row in the source
    rows: int
    failed: int  # rows that could not be explained
    cut: int  # rows whose texts were truncated
    tokens: int
    size: int  # in bytes
    checksum: str
    source: str  # checksum of its texts

    @property
    def explained(self) -> int:
        """The number of rows that have scores."""
        return self.rows - self.failed


@dataclass
class Manifest:
    """The plan of a run and its finished shards by number."""

    plan: Plan
    shards: dict[int, Shard] = field(default_factory=dict)
    complete: bool = False

    @classmethod
    def read(cls, storage: Storage) -> Self | None:
        """The manifest of a folder; None if there is none."""
        data = storage.read(NAME)
        if data is None:
            return None
        with loading(f"{storage.location}/{NAME}", "corpus manifest"):
            stored = json.loads(data)
            schema = stored["plan"]["schema"]
            if schema != SCHEMA:
                raise InputError(
                    f"{storage.location} has schema {schema}, but this version of nbsal reads schema {SCHEMA}.",
                    argument="location",
                    value=storage.location,
                )
            if stored.pop("checksum") != digest(_to_json(stored)):
                raise ValueError("its checksum does not match")
            shards = {int(number): Shard(**shard) for number, shard in stored["shards"].items()}
            return cls(Plan.from_json(stored["plan"]), shards, stored["complete"])

    def write(self, storage: Storage) -> None:
        """Replace the manifest of a folder."""
        content = {
            "plan": asdict(self.plan),
            "complete": self.complete,
            "shards": {str(number): asdict(self.shards[number]) for number in sorted(self.shards)},
        }
        storage.write(NAME, _to_json(content | {"checksum": digest(_to_json(content))}))


def _to_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def weights_digest(subject: Subject) -> str:
    """A checksum of a model's weights."""
    checksum = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(subject.model.state_dict().items()):
        checksum.update(name.encode())
        checksum.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return checksum.hexdigest()


def _masks_digest(explainers: Iterable[Explainer]) -> str:
    checksum = hashlib.blake2b(digest_size=16)
    for explainer in explainers:
        mask = getattr(explainer.method, "mask", None)
        if isinstance(mask, HeadMask):
            for part in mask.parts(weighted=True):
                checksum.update(part.tobytes())
    return checksum.hexdigest()


def source_digest(values: Iterable[Any]) -> str:
    """A checksum of rows of a source."""
    checksum = hashlib.blake2b(digest_size=16)
    for value in values:
        text = value.reason if isinstance(value, UnreadableRow) else value if isinstance(value, str) else repr(value)
        data = text.encode("utf-8", "surrogatepass")
        checksum.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return checksum.hexdigest()


def _first_difference(name: str, stored: Any, new: Any) -> tuple[str, Any]:
    """What differs first between two values, in words, and the new value of it.

    >>> _first_difference("methods", {"gradcam": {"layer": 0}}, {"gradcam": {"layer": 1}})
    ('methods.gradcam.layer=0, not 1', 1)
    >>> _first_difference("methods", {"gradcam": {}}, {"gae": {}})
    ('the methods gradcam, not gae', ['gae'])
    """
    if not isinstance(stored, Mapping) or not isinstance(new, Mapping):
        return f"{name}={stored!r:.200}, not {new!r:.200}", new
    if stored.keys() != new.keys():
        return f"the {name} {', '.join(stored)}, not {', '.join(new)}", list(new)
    key = next(key for key in stored if stored[key] != new[key])
    return _first_difference(f"{name}.{key}", stored[key], new[key])


def _without_versions(value: Any) -> Any:
    """The value without the versions of nbsal and its dependencies."""
    if not isinstance(value, Mapping):
        return value
    return {name: _without_versions(part) for name, part in value.items() if name != "versions"}
