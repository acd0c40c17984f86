"""Table: explanations as columns, one row a text, and back.

Scores are kept divided by a power of two of their text, so that float16 has room for the largest and the smallest
methods. Rounding makes scores equal that were not: `NAME_ties` says in which order tokens of equal stored score stood,
so that ranks come back as they were.
"""

import io
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.corpus.manifest import Plan
from nbsal.errors import InputError
from nbsal.model.tokens import Row
from nbsal.saliency import Saliency

RowResult = Mapping[str, Saliency] | str  # what methods say of a text, or why there is nothing
TEXT, PAIR, ERROR = "text", "pair", "error"
ABOUT = ("text_id", TEXT, PAIR, ERROR, "prediction", "target", "probabilities", "dropped")
PER_TOKEN = {
    "token_ids": "int32",
    "starts": "int32",
    "lengths": "int32",
    "special": "bool_",
    "segments": "int8",
    "types": "int8",
}
PER_METHOD = ("", "_scale", "_ties", "_notes")
KEY = b"nbsal"
LEVEL = 12  # of zstd: beyond it packing takes longer than a GPU takes to explain
ORDINARY = {"target", "dropped"}  # parts of a provenance that have columns of their own


def to_table(plan: Plan, first: int, values: Sequence[Any], found: Sequence[RowResult]) -> bytes:
    """A shard as a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    readings = [None if isinstance(one, str) else next(iter(one.values())) for one in found]
    columns = _about(plan, first, values, found, readings) | _tokens(readings)
    for name in plan.methods:
        columns |= _scores(plan, name, [None if isinstance(one, str) else one[name] for one in found])
    about = json.dumps({"schema": plan.schema, "model": plan.model, "task": plan.task, "methods": dict(plan.methods)})
    table = pyarrow.table(columns).replace_schema_metadata({KEY: about.encode()})
    buffer = io.BytesIO()
    # Numbers that hardly repeat are packed best byte by byte, though not half precision; other columns have few values.
    apart = ["token_ids", "starts", *(f"{name}_ties" for name in plan.methods)]
    lists = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in apart}
    others = [name for name in table.column_names if name not in (*apart, *plan.methods, TEXT, PAIR)]
    few = [f"{name}.list.element" if name in PER_TOKEN else name for name in others]
    parquet.write_table(
        table, buffer, compression="zstd", compression_level=LEVEL, use_dictionary=few, column_encoding=lists
    )
    return buffer.getvalue()


def from_table(table: Any, at: int, name: str, plan: Plan, vocabulary: Sequence[str]) -> Saliency:
    """The explanation that a row of a shard holds."""
    wanted = (*ABOUT, *PER_TOKEN, *(name + part for part in PER_METHOD))
    stored = {column: table[column][at].as_py() for column in wanted}
    if stored[ERROR] is not None:
        raise InputError(f"Row {stored['text_id']} was not explained: {stored[ERROR]}")
    about = json.loads(table.schema.metadata[KEY])["methods"][name]
    row, scores = _row(stored, vocabulary), np.array(stored[name], np.float32)
    places = stored[f"{name}_ties"]
    exact = scores * np.float32(stored[f"{name}_scale"])
    probabilities = np.array(stored["probabilities"], np.float32)
    return Saliency(
        row=row,
        target=stored["target"],
        prediction=stored["prediction"],
        probabilities=probabilities.reshape(-1, 2) if plan.task == "span" else probabilities,
        method=about["method"],
        provenance=about
        | {"target": stored["target"], "dropped": stored["dropped"]}
        | json.loads(stored[f"{name}_notes"] or "{}"),
        scores=exact,
        tie_breaker=exact if places is None else untied(scores, row.content, places),
    )


def ties(stored: NDArray[Any], order: Sequence[int]) -> list[int] | None:
    """Places of tokens within those of equal stored score, for such tokens alone, in the order of reading.

    `order` is that of content tokens; None where tokens of equal score stand in the order of reading.
    """
    groups = [list(group) for _, group in groupby(order, lambda token: stored[token])]
    if all(group == sorted(group) for group in groups):
        return None
    places = {token: place for group in groups if len(group) > 1 for place, token in enumerate(group)}
    return [places[token] for token in sorted(places)]


def untied(stored: NDArray[Any], content: Sequence[int], places: Sequence[int]) -> NDArray[np.float32]:
    """What orders tokens of equal stored score, from what `ties` made of it."""
    _, group, sizes = np.unique(stored[list(content)], return_inverse=True, return_counts=True)
    signed = np.zeros(len(stored), np.float32)
    signed[np.array(content)[sizes[group] > 1]] = -np.array(places, np.float32)
    return signed


def scale_scores(scores: NDArray[Any], dtype: str) -> tuple[NDArray[Any], float]:
    """Scores in a precision that may be too narrow for them, and the power of two that they were divided by."""
    largest = float(np.abs(scores).max(initial=0.0))
    scale = 2.0 ** int(np.frexp(largest)[1]) if dtype == "float16" and largest else 1.0
    return (scores / scores.dtype.type(scale)).astype(dtype), scale


def _about(
    plan: Plan, first: int, values: Sequence[Any], found: Sequence[RowResult], readings: Sequence[Saliency | None]
) -> dict[str, Any]:
    import pyarrow as pa

    texts = [_members(value) for value in values]
    chances = [None if s is None else s.probabilities.ravel() for s in readings]
    if plan.task == "next-token":  # one a token of the vocabulary would be most of the corpus
        chances = [None if one is None else one.max(keepdims=True) for one in chances]
    return {
        "text_id": pa.array(range(first, first + len(values)), pa.int64()),
        TEXT: pa.array([text for text, _ in texts], pa.large_string()),
        PAIR: pa.array([pair for _, pair in texts], pa.large_string()),
        ERROR: pa.array([one if isinstance(one, str) else None for one in found], pa.string()),
        "prediction": pa.array([s and s.prediction for s in readings], pa.string()),
        "target": pa.array([s and s.target for s in readings], pa.string()),
        "probabilities": pa.array(chances, pa.list_(pa.float32())),
        "dropped": pa.array([s and s.row.dropped for s in readings], pa.int32()),
    }


def _tokens(readings: Sequence[Saliency | None]) -> dict[str, Any]:
    import pyarrow as pa

    rows = [None if s is None else s.row for s in readings]
    parts = {
        "token_ids": [row and row.ids for row in rows],
        "starts": [row and [start for start, _ in row.offsets] for row in rows],
        "lengths": [row and [end - start for start, end in row.offsets] for row in rows],
        "special": [row and row.special for row in rows],
        "segments": [row and row.segments for row in rows],
        "types": [row and row.types for row in rows],
    }
    return {name: pa.array(part, pa.list_(getattr(pa, PER_TOKEN[name])())) for name, part in parts.items()}


def _scores(plan: Plan, name: str, saliencies: Sequence[Saliency | None]) -> dict[str, Any]:
    import pyarrow as pa

    scores = pa.float16() if plan.dtype == "float16" else pa.float32()
    kinds = (pa.list_(scores), pa.float64(), pa.list_(pa.int32()), pa.string())
    rows = [(None,) * len(kinds) if s is None else _kept(plan, name, s) for s in saliencies]
    columns = zip(PER_METHOD, zip(*rows, strict=True), kinds, strict=True)
    return {name + part: pa.array(list(column), kind) for part, column, kind in columns}


def _kept(plan: Plan, name: str, saliency: Saliency) -> tuple[Any, ...]:
    """Scores, their scale, ties, and what the provenance says of this text alone."""
    stored, scale = scale_scores(saliency.scores, plan.dtype)
    known = set(plan.methods[name]) | ORDINARY
    notes = {key: value for key, value in saliency.provenance.items() if key not in known}
    return stored, scale, ties(stored, saliency.order), json.dumps(notes) if notes else None


def _members(value: Any) -> tuple[str | None, str | None]:
    """A text, or a pair, as far as it can be written down."""
    parts = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    kept = [part if isinstance(part, str) and _writable(part) else None for part in parts]
    return kept[0], kept[1]


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _row(stored: Mapping[str, Any], vocabulary: Sequence[str]) -> Row:
    ids = stored["token_ids"]
    return Row(
        text=stored[TEXT] if stored[PAIR] is None else (stored[TEXT], stored[PAIR]),
        ids=tuple(ids),
        tokens=tuple(vocabulary[i] for i in ids),
        offsets=tuple((at, at + size) for at, size in zip(stored["starts"], stored["lengths"], strict=True)),
        segments=tuple(stored["segments"]),
        special=tuple(stored["special"]),
        types=tuple(stored["types"]),
        mask=(1,) * len(ids),
        dropped=stored["dropped"],
    )
