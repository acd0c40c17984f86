"""Conversion of results to Parquet tables, with one row for each row of the source, and back.

Scores of texts are divided by a power of two for each text, so that float16 can hold scores of any magnitude. Rounding
can make different scores equal; the column `NAME_ties` stores the order of tokens with equal stored scores, so that
rankings are restored exactly.
"""

import io
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.corpus.folder.manifest import RunSettings
from nbsal.explain.answer import Answer
from nbsal.explain.citations.cited import COLUMNS as CITATION
from nbsal.explain.citations.subsets import citable
from nbsal.explain.reply_settings import ASKED as ASKED_NAMES
from nbsal.explain.saliency import Saliency
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.lazy import parquet
from nbsal.support.lazy import pyarrow as pa

Result = Mapping[str, Any] | str  # the explanations of a row by method, or the text of its error
Cells = dict[str, Any]  # the values of a row, or the types of all columns
ROW, TEXT, PAIR, ASKED, ERROR = "text_id", "text", "pair", "asked", "error"
ROW_COLUMNS = (ROW, TEXT, PAIR, ERROR, "prediction", "target", "probabilities", "dropped")
TOKEN_COLUMNS = ("token_ids", "starts", "lengths", "special", "segments", "types")
METHOD_SUFFIXES = ("", "_scale", "_ties", "_notes")
SOURCE = ["unit", "text", "share", "score"]  # of a source of a reply; a unit has the first two
KEY = b"nbsal"
LEVEL = 12  # of zstd: at higher levels compression takes longer than a GPU takes to explain
STORED_PROVENANCE = {"target", "dropped"}  # entries of a provenance that have columns of their own


def to_cells(plan: RunSettings, first: int, rows: Sequence[Any], results: Sequence[Result]) -> list[Cells]:
    """The rows of a shard's table; `first` is the index of its first row in the source."""
    source, result_cells = (_text_source, _text_cells) if plan.replies is None else (_asked_source, _reply_cells)
    return [
        {ROW: number, **source(row)} | ({ERROR: result} if isinstance(result, str) else result_cells(plan, result))
        for number, (row, result) in enumerate(zip(rows, results, strict=True), first)
    ]


def to_bytes(plan: RunSettings, cells: Sequence[Cells]) -> bytes:
    """Rows as the bytes of a Parquet file."""
    metadata = {"schema": plan.schema, "model": plan.model}
    if plan.replies is None:
        types, options = _text_types(plan), _text_options(plan)
        metadata |= {"task": plan.task, "methods": dict(plan.methods)}
    else:
        types, options = _reply_types(plan), {}
        metadata |= {"methods": dict(plan.methods), "replies": plan.replies}
    schema = pa.schema(list(types.items()), {KEY: json.dumps(metadata).encode()})
    buffer = io.BytesIO()
    parquet.write_table(
        pa.Table.from_pylist(cells, schema),
        buffer,
        compression="zstd",
        compression_level=LEVEL,
        write_page_checksum=True,  # for other readers; this package checks whole files
        **options,
    )
    return buffer.getvalue()


def _text_types(plan: RunSettings) -> Cells:
    """The types of all columns of explained texts."""
    text, whole, short = pa.large_string(), pa.list_(pa.int32()), pa.list_(pa.int8())
    types = {ROW: pa.int64(), TEXT: text, PAIR: text, ERROR: pa.string()}
    types |= {"prediction": pa.string(), "target": pa.string(), "probabilities": pa.list_(pa.float32())}
    types |= {"dropped": pa.int32(), "token_ids": whole, "starts": whole, "lengths": whole}
    types |= {"special": pa.list_(pa.bool_()), "segments": short, "types": short}
    of_method = (pa.list_(getattr(pa, plan.dtype)()), pa.float64(), whole, pa.string())
    for name in plan.methods:
        types |= {name + suffix: type_ for suffix, type_ in zip(METHOD_SUFFIXES, of_method, strict=True)}
    return types


def _text_options(plan: RunSettings) -> dict[str, Any]:
    """How columns of explained texts are encoded."""
    # Numbers that rarely repeat compress best byte by byte, except half-precision scores. The other columns have few
    # distinct values, which suits a dictionary.
    split = ["token_ids", "starts", *(f"{name}_ties" for name in plan.methods)]
    others = [name for name in _text_types(plan) if name not in (*split, *plan.methods, TEXT, PAIR)]
    return {
        "use_dictionary": [f"{name}.list.element" if name in TOKEN_COLUMNS else name for name in others],
        "column_encoding": {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in split},
    }


def _text_source(value: Any) -> Cells:
    """The text of a row, or the two texts of a pair, as far as they can be stored."""
    parts = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return {
        name: part
        for name, part in zip((TEXT, PAIR), parts, strict=True)
        if isinstance(part, str) and _is_encodable(part)
    }


def _text_cells(plan: RunSettings, saliencies: Mapping[str, Saliency]) -> Cells:
    """What is stored of the explanations of a text: what they share, and the columns of each method."""
    saliency = next(iter(saliencies.values()))
    row, probabilities = saliency.row, saliency.probabilities.ravel()
    if plan.task in PREDICTS_TOKENS:  # probabilities of the whole vocabulary would be most of the corpus
        probabilities = probabilities.max(keepdims=True)
    cells = {
        "prediction": saliency.prediction,
        "target": saliency.target,
        "probabilities": probabilities,
        "dropped": row.dropped,
        "token_ids": row.ids,
        "starts": [start for start, _ in row.offsets],
        "lengths": [end - start for start, end in row.offsets],
        "special": row.special,
        "segments": row.segments,
        "types": row.types,
    }
    for name in plan.methods:
        saliency = saliencies[name]
        stored, scale = scale_scores(saliency.scores, plan.dtype)
        shared = set(plan.methods[name]) | STORED_PROVENANCE
        notes = {key: value for key, value in saliency.provenance.items() if key not in shared}
        values = (stored, scale, tie_ranks(stored, saliency.order), json.dumps(notes) if notes else None)
        cells |= {name + suffix: value for suffix, value in zip(METHOD_SUFFIXES, values, strict=True)}
    return cells


def _reply_types(plan: RunSettings) -> Cells:
    """The types of all columns of explained replies."""
    text, number, whole = pa.large_string(), pa.list_(pa.float32()), pa.list_(pa.int32())
    fields = list(zip(SOURCE, (pa.string(), text, pa.float64(), pa.float64()), strict=True))
    units, sources = (pa.list_(pa.struct(some)) for some in (fields[:2], fields))
    types = {ROW: pa.int64(), ASKED: text, ERROR: pa.string(), "prompt": text, "reply": text, "origin": pa.string()}
    types |= {"seed": pa.int64(), "units": units, "token_ids": whole, "tokens": pa.list_(text)}
    types |= {"starts": whole, "ends": whole, "special": pa.list_(pa.bool_()), "logprob": number, "rank": whole}
    types |= {"entropy": number, "drawn": number}
    kinds = (text, pa.list_(pa.int32()), pa.bool_(), pa.float64(), pa.float64(), pa.int32(), pa.bool_(), pa.string())
    citations = pa.list_(pa.struct(list(zip(CITATION, kinds, strict=True))))
    types |= {"documents": pa.int32(), "citations": citations}
    for name in plan.methods:
        types |= {name: sources, f"{name}_scores": pa.list_(number)}
    return types


def _asked_source(row: Any) -> Cells:
    """What is asked as a text, messages as JSON, if it can be stored."""
    names = ASKED_NAMES if isinstance(row, Mapping) else ()
    asked = next((row[name] for name in names if row.get(name) is not None), None)
    try:
        text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError):
        return {}
    return {ASKED: text}


def _reply_cells(plan: RunSettings, answers: Mapping[str, Answer]) -> Cells:
    """What is stored of the answers of a row: what they share, and the sources and scores by each method."""
    answer = next(iter(answers.values()))
    reading, statistics = answer.reading, answer.statistics
    cells = {
        "prompt": reading.prompt.text,
        "reply": answer.text,
        "origin": answer.provenance["reply"],
        "seed": answer.provenance.get("seed"),
        "units": [{"unit": unit.name, "text": unit.text} for unit in answer.units],
        "token_ids": answer.ids,
        "tokens": reading.reply_tokens,
        "starts": [start for start, _ in reading.reply_spans],
        "ends": [end for _, end in reading.reply_spans],
        "special": reading.reply_special,
        "logprob": statistics.logprob,
        "rank": statistics.rank,
        "entropy": statistics.entropy,
        "drawn": statistics.drawn,
        "documents": len(citable(reading.prompt)),
        "citations": _citations(answer) if plan.replies and plan.replies.get("citations") else None,
    }
    for name in plan.methods:
        answer = answers[name]
        # All units, the ones with the largest scores for the whole reply first.
        sources = answer.sources(len(answer.units), "reply")[SOURCE] if answer.units else None
        cells[name] = [] if sources is None else sources.to_dict("records")
        cells[f"{name}_scores"] = list(answer.unit_scores().astype(np.float32))
    return cells


def _citations(answer: Answer) -> list[dict[str, Any]]:
    """The citations of a reply with their verdicts; none without documents."""
    if answer.subsets is None:
        return []
    frame = answer.citations()
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[return-value]


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
