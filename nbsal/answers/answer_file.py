"""What the file of a saved answer holds: everything but the model."""

from typing import Any

import numpy as np

from nbsal.answers.reading import Prompt, Reading, Unit
from nbsal.answers.sources import Source
from nbsal.answers.statistics import TokenStatistics
from nbsal.model.saved_files import numbers

FORMAT = 1
_PROMPT = ("text", "ids", "tokens", "spans", "owners", "places", "special", "placement", "source_size")
_REPLY = ("reply_ids", "reply", "reply_spans", "reply_tokens", "reply_special")
_STATISTICS = ("logprob", "rank", "entropy", "drawn")


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
        "method": answer.method,
        "number": answer.number,
        "linear": answer.linear,
        "provenance": answer.provenance,
    }


def restored(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer from a file."""
    sources = tuple(Source(**source) for source in content["sources"])
    prompt = Prompt(**{name: _tuples(value) for name, value in content["prompt"].items()}, sources=sources)
    statistics: dict[str, Any] = {
        name: None if value is None else np.array(value) for name, value in content["statistics"].items()
    }
    answer = {
        "reading": Reading(prompt, **{name: _tuples(value) for name, value in content["reply"].items()}),
        "scores": numbers(content["scores"], np.float64),
        "statistics": TokenStatistics(**statistics, rivals=_tuples(content["rivals"])),
        "units": tuple(Unit(**{name: _tuples(value) for name, value in unit.items()}) for unit in content["units"]),
        **{name: content[name] for name in ("method", "number", "linear", "provenance")},
    }
    if answer["scores"].shape != (len(answer["reading"].reply_ids), len(answer["reading"].row)):
        raise ValueError("the numbers of scores and tokens differ")
    return answer


def _tuples(value: Any) -> Any:
    """A list of lists as a tuple of tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
