"""Conversion of explanations to Parquet tables, with one row per text, and back.

Scores are divided by a power of two for each text, so that float16 can hold scores of any magnitude. Rounding can make
different scores equal; the column `NAME_ties` stores the order of tokens with equal stored scores, so that rankings are
restored exactly.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.corpus.folder.manifest import RunSettings
from nbsal.explain.saliency import Saliency
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.lazy import parquet
from nbsal.support.lazy import pyarrow as pa

RowResult = Mapping[str, Saliency] | str  # the explanations of a text by method, or the text of its error
Columns = Mapping[str, tuple[Any, Callable[[Any], Any]]]  # the type of each column, and how its values are read
TEXT, PAIR, ERROR = "text", "pair", "error"
ROW_COLUMNS = ("text_id", TEXT, PAIR, ERROR, "prediction", "target", "probabilities", "dropped")
TOKEN_COLUMNS = ("token_ids", "starts", "lengths", "special", "segments", "types")
METHOD_SUFFIXES = ("", "_scale", "_ties", "_notes")
KEY = b"nbsal"
LEVEL = 12  # of zstd: at higher levels compression takes longer than a GPU takes to explain
STORED_PROVENANCE = {"target", "dropped"}  # entries of a provenance that have columns of their own


def to_table(plan: RunSettings, first: int, values: Sequence[Any], results: Sequence[RowResult]) -> bytes:
    """A shard as the bytes of a Parquet file; `first` is the index of its first row in the source."""
    texts = [_text_and_pair(value) for value in values]
    columns = {
        TEXT: pa.array([text for text, _ in texts], pa.large_string()),
        PAIR: pa.array([pair for _, pair in texts], pa.large_string()),
    } | shared_columns(_columns(plan), results)
    for name in plan.methods:
        columns |= _method_columns(
            plan, name, [None if isinstance(result, str) else result[name] for result in results]
        )
    # Numbers that rarely repeat compress best byte by byte, except half-precision scores. The other columns have few
    # distinct values, which suits a dictionary.
    split = ["token_ids", "starts", *(f"{name}_ties" for name in plan.methods)]
    others = ["text_id", *(name for name in columns if name not in (*split, *plan.methods, TEXT, PAIR))]
    return to_bytes(
        first,
        columns,
        {"schema": plan.schema, "model": plan.model, "task": plan.task, "methods": dict(plan.methods)},
        use_dictionary=[f"{name}.list.element" if name in TOKEN_COLUMNS else name for name in others],
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in split},
    )


def shared_columns(columns: Columns, results: Sequence[Mapping[str, Any] | str]) -> dict[str, Any]:
    """The column of errors, and those that do not depend on the method."""
    firsts = [None if isinstance(result, str) else next(iter(result.values())) for result in results]
    errors = [result if isinstance(result, str) else None for result in results]
    return {ERROR: pa.array(errors, pa.string())} | {
        name: pa.array([each and read(each) for each in firsts], kind) for name, (kind, read) in columns.items()
    }


def to_bytes(first: int, columns: Mapping[str, Any], metadata: Mapping[str, Any], **options: Any) -> bytes:
    """Columns as the bytes of a Parquet file, whose rows are numbered from `first`."""
    numbers = pa.array(range(first, first + len(columns[ERROR])), pa.int64())
    table = pa.table({"text_id": numbers, **columns}).replace_schema_metadata({KEY: json.dumps(metadata).encode()})
    buffer = io.BytesIO()
    parquet.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=LEVEL,
        write_page_checksum=True,  # for other readers; this package checks whole files
        **options,
    )
    return buffer.getvalue()


def from_table(table: Any, at: int, name: str, plan: RunSettings, vocabulary: Sequence[str]) -> Saliency:
    """The explanation by one method in row `at` of a shard's table."""
    columns = (*ROW_COLUMNS, *TOKEN_COLUMNS, *(name + suffix for suffix in METHOD_SUFFIXES))
    stored = {column: table[column][at].as_py() for column in columns}
    if stored[ERROR] is not None:
        message = f"Text {stored['text_id']} was not explained: {stored[ERROR]}"
        raise InputError(message, argument="i", value=stored["text_id"])
    provenance = json.loads(table.schema.metadata[KEY])["methods"][name]
    row, scores = _restore_row(stored, vocabulary), np.array(stored[name], np.float32)
    ranks = stored[f"{name}_ties"]
    scaled = scores * np.float32(stored[f"{name}_scale"])
    probabilities = np.array(stored["probabilities"], np.float32)
    return Saliency(
        row=row,
        target=stored["target"],
        prediction=stored["prediction"],
        probabilities=probabilities.reshape(-1, 2) if plan.task == "span" else probabilities,
        method=provenance["method"],
        provenance=provenance
        | {"target": stored["target"], "dropped": stored["dropped"]}
        | json.loads(stored[f"{name}_notes"] or "{}"),
        scores=scaled,
        tie_breaker=scaled if ranks is None else tie_breaker(scores, row.content, ranks),
    )


def tie_ranks(stored: NDArray[Any], order: Sequence[int]) -> list[int] | None:
    """For each token whose stored score equals another's, its rank among them; tokens are in text order.

    `order` is the exact order of the content tokens. None if tokens of equal score are in text order.
    """
    groups = [list(group) for _, group in groupby(order, lambda token: stored[token])]
    if all(group == sorted(group) for group in groups):
        return None
    ranks = {token: rank for group in groups if len(group) > 1 for rank, token in enumerate(group)}
    return [ranks[token] for token in sorted(ranks)]


def tie_breaker(stored: NDArray[Any], content: Sequence[int], ranks: Sequence[int]) -> NDArray[np.float32]:
    """The tie-breaker that restores the order from `tie_ranks`."""
    _, group, sizes = np.unique(stored[list(content)], return_inverse=True, return_counts=True)
    values = np.zeros(len(stored), np.float32)
    values[np.array(content)[sizes[group] > 1]] = -np.array(ranks, np.float32)
    return values


def scale_scores(scores: NDArray[Any], dtype: str) -> tuple[NDArray[Any], float]:
    """Scores converted to `dtype`, which may be too narrow for them, and the power of two they were divided by."""
    largest = float(np.abs(scores).max(initial=0.0))
    scale = 2.0 ** int(np.frexp(largest)[1]) if dtype == "float16" and largest else 1.0
    return (scores / scores.dtype.type(scale)).astype(dtype), scale


def _columns(plan: RunSettings) -> Columns:
    def probabilities(saliency: Saliency) -> NDArray[Any]:
        values = saliency.probabilities.ravel()
        # Probabilities of the whole vocabulary would be most of the corpus.
        return values.max(keepdims=True) if plan.task in PREDICTS_TOKENS else values

    whole, short = pa.list_(pa.int32()), pa.list_(pa.int8())
    return {
        "prediction": (pa.string(), lambda saliency: saliency.prediction),
        "target": (pa.string(), lambda saliency: saliency.target),
        "probabilities": (pa.list_(pa.float32()), probabilities),
        "dropped": (pa.int32(), lambda saliency: saliency.row.dropped),
        "token_ids": (whole, lambda saliency: saliency.row.ids),
        "starts": (whole, lambda saliency: [start for start, _ in saliency.row.offsets]),
        "lengths": (whole, lambda saliency: [end - start for start, end in saliency.row.offsets]),
        "special": (pa.list_(pa.bool_()), lambda saliency: saliency.row.special),
        "segments": (short, lambda saliency: saliency.row.segments),
        "types": (short, lambda saliency: saliency.row.types),
    }


def _method_columns(plan: RunSettings, name: str, saliencies: Sequence[Saliency | None]) -> dict[str, Any]:
    scores = pa.float16() if plan.dtype == "float16" else pa.float32()
    types = (pa.list_(scores), pa.float64(), pa.list_(pa.int32()), pa.string())
    rows = [(None,) * len(types) if s is None else _method_values(plan, name, s) for s in saliencies]
    columns = zip(METHOD_SUFFIXES, zip(*rows, strict=True), types, strict=True)
    return {name + suffix: pa.array(list(column), type_) for suffix, column, type_ in columns}


def _method_values(plan: RunSettings, name: str, saliency: Saliency) -> tuple[Any, ...]:
    """The scores, their scale, the order of ties, and the provenance entries that are specific to this text."""
    stored, scale = scale_scores(saliency.scores, plan.dtype)
    shared = set(plan.methods[name]) | STORED_PROVENANCE
    notes = {key: value for key, value in saliency.provenance.items() if key not in shared}
    return stored, scale, tie_ranks(stored, saliency.order), json.dumps(notes) if notes else None


def _text_and_pair(value: Any) -> tuple[str | None, str | None]:
    """The text of a row, or the two texts of a pair; None for parts that cannot be stored."""
    parts = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    first, second = (part if isinstance(part, str) and _is_encodable(part) else None for part in parts)
    return first, second


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _restore_row(stored: Mapping[str, Any], vocabulary: Sequence[str]) -> Row:
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
