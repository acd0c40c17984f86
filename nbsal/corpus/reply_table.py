"""Explained replies as a Parquet table, with one row for each reply, and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nbsal.corpus.folder.manifest import RunSettings
from nbsal.corpus.parquet import Columns, shared_columns, to_bytes
from nbsal.explain.answer import Answer
from nbsal.support.lazy import pyarrow as pa

ASKED = "asked"
Answers = Mapping[str, Answer] | str  # the answers of a row by method, or the text of its error
UNIT, SOURCE = ("unit", "text"), ("unit", "text", "share", "score")  # fields of a unit, and of a source


def to_table(plan: RunSettings, first: int, asked: Sequence[Any], results: Sequence[Answers]) -> bytes:
    """A shard as the bytes of a Parquet file; `first` is the index of its first row in the source."""
    columns = {ASKED: pa.array([_as_text(each) for each in asked], pa.large_string())}
    columns |= shared_columns(_columns(), results)
    for name in plan.methods:
        each = [None if isinstance(result, str) else result[name] for result in results]
        columns |= _method_columns(name, each)
    metadata = {"schema": plan.schema, "model": plan.model, "methods": dict(plan.methods), "replies": plan.replies}
    return to_bytes(first, columns, metadata)


def _columns() -> Columns:
    texts, numbers, whole = (
        pa.list_(pa.large_string()),
        pa.list_(pa.float32()),
        pa.list_(pa.int32()),
    )
    return {
        "prompt": (pa.large_string(), lambda answer: answer.reading.prompt.text),
        "reply": (pa.large_string(), lambda answer: answer.text),
        "origin": (pa.string(), lambda answer: answer.provenance["reply"]),
        "seed": (pa.int64(), lambda answer: answer.provenance.get("seed")),
        "units": (_structs(UNIT), lambda answer: [{"unit": unit.name, "text": unit.text} for unit in answer.units]),
        "token_ids": (whole, lambda answer: answer.ids),
        "tokens": (texts, lambda answer: answer.reading.reply_tokens),
        "starts": (whole, lambda answer: [start for start, _ in answer.reading.reply_spans]),
        "ends": (whole, lambda answer: [end for _, end in answer.reading.reply_spans]),
        "special": (pa.list_(pa.bool_()), lambda answer: answer.reading.reply_special),
        "logprob": (numbers, lambda answer: answer.statistics.logprob),
        "rank": (whole, lambda answer: answer.statistics.rank),
        "entropy": (numbers, lambda answer: answer.statistics.entropy),
        "drawn": (numbers, lambda answer: answer.statistics.drawn),
    }


def _method_columns(name: str, answers: Sequence[Answer | None]) -> dict[str, Any]:
    """The sources of each reply by one method, and its scores, one list of units for each token."""
    sources = [None if answer is None else _sources(answer) for answer in answers]
    scores = [None if answer is None else list(answer.unit_scores().astype(np.float32)) for answer in answers]
    return {
        name: pa.array(sources, _structs(SOURCE)),
        f"{name}_scores": pa.array(scores, pa.list_(pa.list_(pa.float32()))),
    }


def _sources(answer: Answer) -> list[dict[str, Any]]:
    """All units, the ones with the largest scores for the whole reply first."""
    if not answer.units:
        return []
    frame = answer.sources(len(answer.units), "reply")
    return [dict(zip(SOURCE, row, strict=True)) for row in frame[list(SOURCE)].itertuples(index=False)]


def _structs(names: Sequence[str]) -> Any:
    kinds = {
        "unit": pa.string(),
        "text": pa.large_string(),
        "share": pa.float64(),
        "score": pa.float64(),
    }
    return pa.list_(pa.struct([(name, kinds[name]) for name in names]))


def _as_text(asked: Any) -> str | None:
    """What was asked as a text, messages as JSON; None for what is neither."""
    try:
        text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError):
        return None
    return text
