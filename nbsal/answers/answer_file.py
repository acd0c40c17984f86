"""What the file of a saved answer holds: everything but the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.answers.evidence import Evidence, hides
from nbsal.answers.hops import Followed, check_hops
from nbsal.answers.reading import Prompt, Reading, TokenStatistics, Unit
from nbsal.answers.sources import Source
from nbsal.model.loading.saved_files import numbers, of_type, part_of
from nbsal.model.text.tokens import Row

FORMAT = 1
_PROMPT = ("text", "ids", "tokens", "spans", "owners", "places", "special", "placement", "source_size")
_REPLY = ("reply_ids", "reply", "reply_spans", "reply_tokens", "reply_special")
_STATISTICS = ("logprob", "rank", "entropy", "drawn")
_PLAIN = {"method": str, "number": str, "linear": bool, "provenance": dict}
_RIVALS = tuple[tuple[tuple[str, float], ...], ...]


def plain(answer: Any) -> dict[str, Any]:
    """What a file holds."""
    prompt, statistics = answer.reading.prompt, answer.statistics
    arrays = {name: getattr(statistics, name) for name in _STATISTICS}
    return {
        "prompt": {name: getattr(prompt, name) for name in _PROMPT},
        "sources": [vars(source) for source in prompt.sources],
        "reply": {name: getattr(answer.reading, name) for name in _REPLY},
        "scores": answer.scores.tolist(),
        "statistics": {name: None if array is None else array.tolist() for name, array in arrays.items()},
        "rivals": statistics.rivals,
        "units": [vars(unit) for unit in answer.units],
        "evidence": _plain_arrays(answer.evidence),
        "followed": _plain_arrays(answer.followed),
        "method": answer.method,
        "number": answer.number,
        "linear": answer.linear,
        "provenance": answer.provenance,
    }


def restored(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer from a file; ValueError if they do not fit each other."""
    sources = tuple(part_of(Source, source) for source in content["sources"])
    prompt = part_of(Prompt, content["prompt"], sources=sources)
    reading = part_of(Reading, content["reply"], prompt=prompt)
    units = tuple(part_of(Unit, unit) for unit in content["units"])
    _check_reading(reading, units)
    size = len(reading.reply_ids)
    statistics = {name: _statistic(name, content["statistics"][name], size) for name in _STATISTICS}
    rivals = of_type(content["rivals"], _RIVALS)
    scores = numbers(content["scores"], np.float64)
    if scores.shape != (size, len(reading.row)) or len(rivals) != size:
        raise ValueError("the numbers of scores and tokens differ")
    return {
        "reading": reading,
        "scores": scores,
        "statistics": TokenStatistics(**statistics, rivals=rivals),
        "units": units,
        "evidence": _evidence(content.get("evidence"), reading),
        "followed": _followed(content.get("followed"), scores.shape, size),
        **{name: of_type(content[name], kind) for name, kind in _PLAIN.items()},
    }


def _plain_arrays(part: Evidence | Followed | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(part).items()}


def _evidence(stored: Any, reading: Reading) -> Evidence | None:
    """What was measured, which older files lack; ValueError if it does not fit the reply."""
    if stored is None:
        return None
    arrays = {name: numbers(stored[name], np.float64) for name in ("logprob", "nothing", "without")}
    evidence = Evidence(
        of_type(stored["places"], tuple[tuple[int | None, ...], ...]),
        of_type(stored["documents"], tuple[int, ...]),
        **arrays,
        instead=of_type(stored["instead"], tuple[tuple[str, ...], ...]),
        way=of_type(stored["way"], str),
    )
    sentences, count, size = reading.units("sentence"), len(evidence.places), len(reading.reply_ids)
    shapes = [array.shape for array in arrays.values()]
    named = all(len(place) == 2 and hides(sentences, place).any() for place in evidence.places)
    fits = {len(row) for row in evidence.instead} == {size} and len(evidence.instead) == count
    named &= all(0 <= row < count for row in evidence.documents)
    if shapes != [(size,), (size,), (count, size)] or not fits or not named:
        raise ValueError("the evidence and the reply do not match")
    return evidence


def _followed(stored: Any, shape: tuple[int, ...], size: int) -> Followed | None:
    """The scores through the reply, if they were followed; ValueError if they do not fit the others."""
    if stored is None:
        return None
    arrays = {name: numbers(stored[name], np.float64) for name in ("scores", "arrived", "carried")}
    times = len(arrays["arrived"])
    if [array.shape for array in arrays.values()] != [shape, (times, size), (times, size, size)] or not times:
        raise ValueError("the followed scores and the reply do not match")
    return Followed(check_hops(stored["hops"]), **arrays)


def _statistic(name: str, values: Any, size: int) -> Any:
    """The numbers of all tokens of a reply, which may be infinite; a given reply was not `drawn`."""
    if values is None and name == "drawn":
        return None
    if len(of_type(values, tuple[float, ...])) != size:
        raise ValueError("the numbers of statistics and tokens differ")
    return np.array(values, np.int64 if name == "rank" else np.float64)


def _check_reading(reading: Reading, units: Sequence[Unit]) -> None:
    """Refuse indices of tokens, sources and characters that are not there."""
    prompt, row = reading.prompt, reading.row
    Row.from_dict({name: getattr(row, name) for name in Row.__dataclass_fields__})
    numbered = range(len(prompt.sources))
    texts = {number: source.text for number, source in enumerate(prompt.sources)} | {-1: ""}
    valid = len(prompt.owners) == len(prompt.places) == len(prompt.ids) >= prompt.source_size >= 0
    valid &= all(owner in texts for owner in prompt.owners) and len(reading.reply_ids) > 0
    valid &= all(source.message is None or source.message in numbered for source in prompt.sources)
    valid &= all(unit.source in numbered and all(0 <= i < len(prompt.ids) for i in unit.tokens) for unit in units)
    located = zip(prompt.owners, prompt.places, strict=False)
    if not valid or not all(0 <= place[0] <= place[1] <= len(texts[owner]) for owner, place in located if place):
        raise ValueError("tokens, units and sources do not match")
