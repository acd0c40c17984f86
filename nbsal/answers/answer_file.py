"""What the file of a saved answer holds: everything but the model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbsal.answers.prompt.reading import Reading, TokenStatistics, Unit, without_tokens
from nbsal.answers.scoring.hops import Followed
from nbsal.answers.words.evidence import Evidence, hides
from nbsal.model.loading.plain_values import from_plain, numbers, to_plain
from nbsal.model.text.tokens import Row

FORMAT = 1
_STATISTICS = ("logprob", "rank", "entropy", "drawn")
_PLAIN = {"method": str, "number": str, "linear": bool, "provenance": dict}
_RIVALS = tuple[tuple[tuple[str, float], ...], ...]


def plain(answer: Any) -> dict[str, Any]:
    """What a file holds."""
    prompt, statistics = answer.reading.prompt, answer.statistics
    return {
        "prompt": to_plain(prompt, ("sources", "origin")),
        "sources": to_plain(prompt.sources),
        "reply": to_plain(answer.reading, ("prompt",)),
        "scores": answer.scores.tolist(),
        "statistics": to_plain(statistics, ("rivals",)),
        "rivals": statistics.rivals,
        **{name: to_plain(getattr(answer, name)) for name in ("units", "evidence", "followed", *_PLAIN)},
    }


def restored(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer from a file; ValueError if they do not fit each other."""
    prompt = content["prompt"] | {"sources": content["sources"]}
    reading, units = (
        from_plain(Reading, content["reply"] | {"prompt": prompt}),
        from_plain(tuple[Unit, ...], content["units"]),
    )
    _check_reading(reading, units)
    # Older files have special tokens in the text of the reply.
    reply, spans = without_tokens(reading.reply, reading.reply_spans, reading.reply_special)
    reading = replace(reading, reply=reply, reply_spans=spans)
    size = len(reading.reply_ids)
    statistics = {name: _statistic(name, content["statistics"][name], size) for name in _STATISTICS}
    rivals = from_plain(_RIVALS, content["rivals"])
    scores = numbers(content["scores"], np.float64)
    if scores.shape != (size, len(reading.row)) or len(rivals) != size:
        raise ValueError("the numbers of scores and tokens differ")
    evidence, followed = content.get("evidence"), content.get("followed")  # which older files lack
    return {
        "reading": reading,
        "scores": scores,
        "statistics": TokenStatistics(**statistics, rivals=rivals),
        "units": units,
        "evidence": None if evidence is None else _evidence(evidence, reading),
        "followed": None if followed is None else _followed(followed, scores.shape, size),
        **{name: from_plain(kind, content[name]) for name, kind in _PLAIN.items()},
    }


def _evidence(stored: Any, reading: Reading) -> Evidence:
    """What was measured; ValueError if it does not fit the reply."""
    evidence: Evidence = from_plain(Evidence, stored)
    units, count, size = reading.units(evidence.level), len(evidence.places), len(reading.reply_ids)
    shapes = [array.shape for array in (evidence.logprob, evidence.nothing, evidence.without)]
    named = all(hides(units, place).any() for place in evidence.places)
    fits = {len(row) for row in evidence.instead} == {size} and len(evidence.instead) == count
    named &= all(0 <= row < count for row in evidence.documents)
    if shapes != [(size,), (size,), (count, size)] or not fits or not named:
        raise ValueError("the evidence and the reply do not match")
    return evidence


def _followed(stored: Any, shape: tuple[int, ...], size: int) -> Followed:
    """The scores through the reply; ValueError if they do not fit the others."""
    followed: Followed = from_plain(Followed, stored)
    times = len(followed.arrived)
    shapes = [array.shape for array in (followed.scores, followed.arrived, followed.carried)]
    if shapes != [shape, (times, size), (times, size, size)] or not times or followed.hops in (0, -1):
        raise ValueError("the followed scores and the reply do not match")
    return followed


def _statistic(name: str, values: Any, size: int) -> Any:
    """The numbers of all tokens of a reply, which may be infinite; a given reply was not `drawn`."""
    if values is None and name == "drawn":
        return None
    if len(from_plain(tuple[float, ...], values)) != size:
        raise ValueError("the numbers of statistics and tokens differ")
    return np.array(values, np.int64 if name == "rank" else np.float64)


def _check_reading(reading: Reading, units: Sequence[Unit]) -> None:
    """Refuse indices of tokens, sources and characters that are not there."""
    prompt, row = reading.prompt, reading.row
    Row.from_dict(to_plain(row))
    numbered = range(len(prompt.sources))
    texts = {number: source.text for number, source in enumerate(prompt.sources)} | {-1: ""}
    valid = len(prompt.owners) == len(prompt.places) == len(prompt.ids) >= prompt.source_size >= 0
    valid &= all(owner in texts for owner in prompt.owners) and len(reading.reply_ids) > 0
    valid &= all(source.message is None or source.message in numbered for source in prompt.sources)
    valid &= all(unit.source in numbered and all(0 <= i < len(prompt.ids) for i in unit.tokens) for unit in units)
    located = zip(prompt.owners, prompt.places, strict=False)
    if not valid or not all(0 <= place[0] <= place[1] <= len(texts[owner]) for owner, place in located if place):
        raise ValueError("tokens, units and sources do not match")
