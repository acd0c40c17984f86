"""The manifest of a corpus: the plan of the run, and the finished shards with their checksums."""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Self

from nbsal.corpus.folder.storage import Storage, digest
from nbsal.corpus.sources.open import Columns, UnreadableRow
from nbsal.explain.lazy import Explainer
from nbsal.methods.lazy import Decoded, Subject, identity
from nbsal.model.head_mask import HeadMask
from nbsal.support.errors import InputError
from nbsal.support.validation import loading

SCHEMA = 2
NAME = "_manifest.json"
VOCABULARY = "_vocabulary.json"  # the names of tokens, so that a corpus can be read without the model
SHARD_NAME = re.compile(r"part-\d{6,}\.parquet")
UNNAMED = " in memory"  # ends the name of a model that has none, which is that of its class: nothing to load it by
LIBRARIES = ("nbsal", "torch", "transformers")
# Tokens per batch, padding included: on a CPU enough to fill its vector units and few enough to stay in its caches; on
# a GPU enough to fill it.
TOKENS = {"cpu": 1024, "cuda": 16384}


@dataclass(frozen=True)
class RunSettings:
    """Everything that determines the scores of a corpus. A run can only be resumed under the same plan.

    The names of its fields are keys of the stored manifest. Where several differ, the first is named in the error.
    """

    shard_rows: int
    tokens: int  # per batch
    text: Columns
    target: str
    dtype: str
    model: str
    task: str
    labels: tuple[str, ...]
    methods: Mapping[str, Mapping[str, Any]]  # name -> provenance
    masks: Mapping[str, str]  # checksums of the head masks of the methods
    config: Mapping[str, Any]  # this and the next four: see model_identity
    tokenizer: Mapping[str, Any]
    modules: str
    buffers: str
    weights: str
    lm_head: str | None  # its checksum, if a method decodes with it
    vocabulary: str  # checksum of the file of the names of tokens
    versions: Mapping[str, str]  # of the libraries
    schema: int = SCHEMA
    replies: Mapping[str, Any] | None = None  # how replies are read, written and explained; None: texts are explained

    @classmethod
    def create(
        cls,
        explainers: Mapping[str, Explainer],
        shard_rows: int,
        text: Columns,
        target: Any = None,
        dtype: str = "float32",
        replies: Mapping[str, Any] | None = None,
    ) -> Self:
        """Create the plan of a new run; the size of its batches suits the model's device."""
        from nbsal.model.loading.composite import transformer_of  # imports torch

        subject = next(iter(explainers.values())).subject
        unnamed = subject.name == type(transformer_of(subject.model)).__name__
        decodes = any(isinstance(explainer.method, Decoded) for explainer in explainers.values())
        masks = {name: getattr(explainer.method, "mask", None) for name, explainer in explainers.items()}
        plan = cls(
            shard_rows=shard_rows,
            tokens=TOKENS.get(subject.device.type, TOKENS["cpu"]),
            text=text,
            target=repr(target),
            dtype=dtype,
            model=subject.name + (UNNAMED if unnamed else ""),
            task=subject.task,
            labels=tuple(subject.labels),
            methods={name: explainer.provenance for name, explainer in explainers.items()},
            masks={name: _mask_checksum(mask) for name, mask in masks.items() if isinstance(mask, HeadMask)},
            lm_head=identity.lm_head_checksum(subject.lm_head) if decodes else None,
            vocabulary=digest(vocabulary_json(subject)),
            versions={name: version(name) for name in LIBRARIES},
            replies=replies,
            **identity.model_identity(subject),
        )
        return cls.from_json(json.loads(json.dumps(asdict(plan))))

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        text, labels = stored["text"], tuple(stored["labels"])
        return cls(**stored | {"text": tuple(text) if isinstance(text, list) else text, "labels": labels})

    def check_same(self, other: Self) -> None:
        """Refuse to resume with another plan; minor versions of nbsal and its dependencies may differ."""
        for name in self.__dataclass_fields__:
            stored, new = _comparable(name, getattr(self, name)), _comparable(name, getattr(other, name))
            if stored != new:
                difference, value = _first_difference(name, stored, new)
                raise InputError(
                    f"This corpus was started with {difference}. Use the same settings to resume, choose another "
                    "folder, or pass overwrite=True to replace it.",
                    argument=name,
                    value=value,
                )

    def check_loadable(self) -> None:
        """Refuse to load a model that had no name when it was explained."""
        if self.model.endswith(UNNAMED):
            message = f"The corpus explains a {self.model}, which has no name to load it by. Pass the model as subject."
            raise InputError(message, argument="subject", value=None)

    def check_model(self, subject: Subject) -> None:
        """Refuse a model other than the one that was explained."""
        for name, new in identity.model_identity(subject).items():
            stored = getattr(self, name)
            if stored != new:
                raise InputError(
                    f"{self.model} was explained with {_first_difference(name, stored, new)[0]}. Pass the explained "
                    "model as subject.",
                    argument="subject",
                    value=subject,
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
        return self.rows - self.failed

    def check(self) -> None:
        """Raise ValueError for values that no run has written."""
        counts = (self.first, self.rows, self.failed, self.cut, self.tokens, self.size)
        if not all(type(count) is int and 0 <= count <= sys.maxsize for count in counts) or self.failed > self.rows:
            raise ValueError(f"the counts {counts!r:.80} are not those of a shard")
        if not SHARD_NAME.fullmatch(self.name):  # it may be a path to a file elsewhere
            raise ValueError(f"{self.name!r} is not the name of a shard")


@dataclass
class Manifest:
    """The plan of a run and its finished shards by number."""

    plan: RunSettings
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
                    f"{storage.location} holds a corpus in format {schema}, but this version of nbsal reads and writes "
                    f"format {SCHEMA}. Open it with the version that wrote it, or choose another folder.",
                    argument="location",
                    value=storage.location,
                )
            if stored.pop("checksum") != digest(_to_json(stored)):
                raise ValueError("its checksum does not match")
            shards = {int(number): Shard(**shard) for number, shard in stored["shards"].items()}
            for shard in shards.values():
                shard.check()
            return cls(RunSettings.from_json(stored["plan"]), shards, stored["complete"])

    def write(self, storage: Storage) -> None:
        content = {
            "plan": asdict(self.plan),
            "complete": self.complete,
            "shards": {str(number): asdict(self.shards[number]) for number in sorted(self.shards)},
        }
        storage.write(NAME, _to_json(content | {"checksum": digest(_to_json(content))}))


def _to_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _mask_checksum(mask: HeadMask) -> str:
    named = {"positional": mask.positional, "unnamed": mask.unnamed}
    named |= {f"relation {name}": part for name, part in sorted(mask.relations.items())}
    return identity.checksum(
        part for name, heads in named.items() for part in (f"{name} {heads.shape}".encode(), heads.tobytes())
    )


def vocabulary_json(subject: Subject) -> bytes:
    """The names of all tokens in the order of their ids, as JSON."""
    size, tokenizer = subject.model.config.vocab_size, subject.tokenizer
    names = (
        tokenizer.convert_ids_to_tokens(list(range(size))) if tokenizer is not None and tokenizer.get_vocab() else []
    )
    return json.dumps([name or f"#{i}" for i, name in enumerate(names)], ensure_ascii=False).encode()


def source_digest(values: Iterable[Any]) -> str:
    checksum = hashlib.blake2b(digest_size=16)
    for value in values:
        text = value.reason if isinstance(value, UnreadableRow) else value if isinstance(value, str) else repr(value)
        data = text.encode("utf-8", "surrogatepass")
        checksum.update(f"{type(value).__name__} {len(data)} ".encode() + data)
    return checksum.hexdigest()


def _first_difference(name: str, stored: Any, new: Any) -> tuple[str, Any]:
    """What differs first between two values, in words, and the new value of it."""
    if str(stored).startswith(identity.CHECKSUM):
        return f"a different {name}", new
    if not isinstance(stored, Mapping) or not isinstance(new, Mapping):
        return f"{name}={stored!r:.200}, not {new!r:.200}", new
    if stored.keys() != new.keys():
        return f"the {name} {', '.join(stored)}, not {', '.join(new)}", list(new)
    key = next(key for key in stored if stored[key] != new[key])
    return _first_difference(f"{name}.{key}", stored[key], new[key])


def _comparable(name: str, value: Any) -> Any:
    """The value of a field of a plan without what may differ when a run is resumed."""
    if name == "versions":  # of 0.1.2 the first two numbers count, of 2.13.0 the first
        return {library: re.match(r"0\.\d+|\d*", number)[0] for library, number in value.items()}  # type: ignore[index]
    return {method: _method_settings(entries) for method, entries in value.items()} if name == "methods" else value


def _method_settings(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A provenance without what other fields hold (versions, head mask), and without what older manifests lack."""
    parameters = {name: value for name, value in provenance["parameters"].items() if name != "mask"}
    return {name: value for name, value in provenance.items() if name not in ("versions", "label", "promise")} | {
        "parameters": parameters
    }
