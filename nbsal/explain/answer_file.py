"""Whether the fields of a saved answer fit each other, and files of an earlier format."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nbsal.explain.citations.fields import FieldSource
from nbsal.explain.citations.subsets import document_units
from nbsal.explain.prompt.reading import PromptWithReply, TokenStatistics, Unit, without_tokens
from nbsal.explain.scoring.hops import Hops
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.explain.sentences.evidence import Evidence, hides
from nbsal.explain.sentences.outcomes import NAMES
from nbsal.model.loading.plain_values import from_plain, numbers
from nbsal.model.loading.saved_files import check_format, read_json

FORMAT = 1  # of JSON, which 0.2.0 wrote during its development
_STATISTICS = ("logprob", "rank", "entropy", "drawn")
_PLAIN = {"method": str, "number": str, "linear": bool, "provenance": dict}
_RIVALS = tuple[tuple[tuple[str, float], ...], ...]


def fields_from_json(path: str | Path) -> dict[str, Any]:
    """The fields of an answer that 0.2.0 wrote during its development."""
    content = read_json(path)
    check_format(path, content["nbsal"], FORMAT)
    prompt = content["prompt"] | {"sources": content["sources"]}
    reading = from_plain(PromptWithReply, content["reply"] | {"prompt": prompt})
    # Early files of 0.2.0 have special tokens in the text of the reply.
    reply, spans = without_tokens(reading.reply, reading.reply_spans, reading.reply_special)
    statistics = {name: _statistic(name, content["statistics"][name]) for name in _STATISTICS}
    return {
        "reading": replace(reading, reply=reply, reply_spans=spans),
        "score_matrix": ScoreMatrix(numbers(content["scores"], np.float64)),
        "statistics": TokenStatistics(**statistics, rivals=from_plain(_RIVALS, content["rivals"])),
        "units": from_plain(tuple[Unit, ...], content["units"]),
        "evidence": from_plain(Evidence | None, content["evidence"]),
        "followed": from_plain(Hops | None, content["followed"]),
        **{name: from_plain(kind, content[name]) for name, kind in _PLAIN.items()},
    }


def _statistic(name: str, values: Any) -> Any:
    """The numbers of all tokens of a reply, which may be infinite; a given reply was not `drawn`."""
    if values is None and name == "drawn":
        return None
    return np.array(from_plain(tuple[float, ...], values), np.int64 if name == "rank" else np.float64)


def check_fields(answer: Any) -> None:
    """Raise ValueError or another error of damage if the parts do not fit each other."""
    reading, statistics, matrix = answer.reading, answer.statistics, answer.score_matrix
    size = len(reading.reply_ids)
    _check_reading(reading, answer.units)
    measured = [getattr(statistics, name) for name in _STATISTICS if name != "drawn" or statistics.drawn is not None]
    if not all(values.shape == (size,) for values in measured) or len(statistics.rivals) != size:
        raise ValueError("the numbers of statistics and tokens differ")
    fits = matrix.columns.ndim == 2 and matrix.shape == (size, len(reading.row))
    if fits and matrix.places is not None:
        fits = matrix.places.ndim == 1 and 0 <= matrix.places.min() <= matrix.places.max() < matrix.columns.shape[1]
    if not fits or not np.isfinite(matrix.columns).all():
        raise ValueError("the numbers of scores and tokens differ")
    if answer.evidence is not None:
        _check_evidence(answer.evidence, reading)
    if answer.followed is not None:
        _check_followed(answer.followed, matrix.shape, size)
    if answer.field_sources is not None:
        _check_field_sources(answer.field_sources, reading)
    answer.notes(), answer.explained  # fail now, not later, on provenance with wrong values


def _check_evidence(evidence: Evidence, reading: PromptWithReply) -> None:
    units, count, size = reading.units(evidence.level), len(evidence.places), len(reading.reply_ids)
    measured = (evidence.logprob, evidence.nothing, evidence.without)
    ways = [way.logprob for way in evidence.ways]
    named = all(hides(units, place).any() for place in evidence.places)
    fits = {len(row) for row in evidence.instead} == {size} and len(evidence.instead) == count
    named &= all(0 <= row < count for row in evidence.documents)
    fits &= all(np.isfinite(array).all() for array in (*measured, *ways))
    fits &= all(way.shape == (count, size) for way in ways)
    fits &= all(way.name in NAMES and (way.likelihood is None or len(way.likelihood) == count) for way in evidence.ways)
    if [array.shape for array in measured] != [(size,), (size,), (count, size)] or not fits or not named:
        raise ValueError("the evidence and the reply do not match")


def _check_field_sources(sources: Sequence[FieldSource], reading: PromptWithReply) -> None:
    documents = [reading.prompt.sources[unit.source].text for unit in document_units(reading.prompt)]
    places = [each.place for each in sources if each.place is not None]
    listed = {document for document, _ in places} <= {*range(1, len(documents) + 1)}
    inside = [(each.leaf.span, reading.reply) for each in sources]
    inside += [(span, documents[document - 1]) for document, span in places if listed]
    if not listed or not all(0 <= start <= end <= len(text) for (start, end), text in inside):
        raise ValueError("the fields and the documents do not match")


def _check_followed(followed: Hops, shape: tuple[int, ...], size: int) -> None:
    times, parts = len(followed.arrived), (followed.scores, followed.arrived, followed.carried)
    shapes, finite = [array.shape for array in parts], all(np.isfinite(array).all() for array in parts)
    if (without := followed.without) is not None:
        finite &= without.ndim == 2 and without.shape[1:] == (size,) and bool(np.isfinite(without).all())
    if shapes != [shape, (times, size), (times, size, size)] or not finite or not times or followed.hops in (0, -1):
        raise ValueError("the followed scores and the reply do not match")


def _check_reading(reading: PromptWithReply, units: Sequence[Unit]) -> None:
    """Refuse indices of tokens, sources and characters that are not there."""
    prompt, row = reading.prompt, reading.row
    row.check_fields()
    numbered = range(len(prompt.sources))
    texts = {number: source.text for number, source in enumerate(prompt.sources)} | {-1: ""}
    valid = len(prompt.owners) == len(prompt.places) == len(prompt.ids) >= prompt.source_size >= 0
    valid &= all(owner in texts for owner in prompt.owners) and bool(reading.content)
    valid &= all(source.message is None or source.message in numbered for source in prompt.sources)
    valid &= all(unit.source in numbered and all(0 <= i < len(prompt.ids) for i in unit.tokens) for unit in units)
    located = zip(prompt.owners, prompt.places, strict=False)
    if not valid or not all(0 <= place[0] <= place[1] <= len(texts[owner]) for owner, place in located if place):
        raise ValueError("tokens, units and sources do not match")
