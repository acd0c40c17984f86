"""An audit as a JSON file."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from nbsal.evaluation.audit.effects import Correction, Effect
from nbsal.model.loading.saved_files import check_format, numbers, read_json, reading, write_json
from nbsal.support.validation import check_value

FORMAT = 1


def save(audit: Any, path: str | Path) -> None:
    """Write an audit, and the one of another model that it holds."""
    write_json(path, {"nbsal": FORMAT, "audit": _plain(audit)})


def _plain(audit: Any) -> dict[str, Any]:
    own = {each.name: getattr(audit, each.name) for each in fields(audit) if each.name not in ("other", "model")}
    parts = {name: [asdict(each) for each in own[name]] for name in ("effects", "corrections")}
    return own | parts | {"other": None if audit.other is None else _plain(audit.other)}


def load(kind: Any, path: str | Path) -> Any:
    """Read what `save` wrote; a damaged file is refused."""
    with reading(path, "saved Audit"):
        content = read_json(path)
        check_format(path, content["nbsal"], FORMAT)
        return _restored(kind, content["audit"])


def _restored(kind: Any, content: dict[str, Any]) -> Any:
    texts = tuple(text if isinstance(text, str) else tuple(text) for text in content["texts"])
    labels = None if content["labels"] is None else tuple(content["labels"])
    other = None if content["other"] is None else _restored(kind, content["other"])
    result = kind(
        classes=tuple(content["classes"]),
        texts=texts,
        labels=labels,
        predictions=tuple(content["predictions"]),
        confidences=tuple(content["confidences"]),
        spans=tuple(tuple(tuple(span) for span in text) for text in content["spans"]),
        scores=tuple(tuple(text) for text in content["scores"]),
        effects=tuple(Effect(**{name: _tuple(value) for name, value in each.items()}) for each in content["effects"]),
        corrections=tuple(
            Correction(**{name: _tuple(value) for name, value in each.items()}) for each in content["corrections"]
        ),
        groups={name: tuple(values) for name, values in content["groups"].items()},
        provenance=content["provenance"],
        other=other,
    )
    _check(result)
    return result


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check(audit: Any) -> None:
    """Refuse parts that do not fit each other."""
    check_value(list(audit.classes), list[str], "classes")
    count, classes = len(audit.texts), len(audit.classes)
    each = [audit.predictions, audit.confidences, audit.spans, audit.scores, *audit.groups.values()]
    fits = all(len(values) == count for values in each) and (audit.labels is None or len(audit.labels) == count)
    for codes, limit in (
        (audit.predictions, classes),
        (audit.labels or (), classes),
        *((effect.texts, count) for effect in audit.effects),
        *((effect.without, classes) for effect in audit.effects),
        ([effect.speaks_for for effect in audit.effects], classes),
        ([each.text for each in audit.corrections], count),
    ):
        fits &= all(type(code) is int and 0 <= code < limit for code in codes)
    for effect in audit.effects:
        sizes = {len(effect.texts), len(effect.scores), len(effect.pulls), len(effect.without)}
        fits &= len(sizes) == 1 and np.isfinite(numbers(list(effect.pulls), np.float64)).all()
    for text, spans, scores in zip(audit.texts, audit.spans, audit.scores, strict=True):
        parts = (text,) if isinstance(text, str) else text
        fits &= len(spans) == len(scores)
        fits &= all(0 <= part < len(parts) and 0 <= start <= end <= len(parts[part]) for part, start, end in spans)
    if not fits:
        raise ValueError("the parts of the audit do not match")
