"""An audit as a file."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from nbsal.model.loading.plain_values import from_plain
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.model.loading.saved_files import check_format, read_json

FORMAT = 1  # of JSON, which 0.2.0 wrote during its development
ROUNDING = 1e-6
_FACTS = {"model": str, "method": str, "passes": int, "dropped": int}  # of the provenance, which notes say


def save(kind: Any, audit: Any, path: str | Path) -> None:
    """Write an audit, and the one of another model that it holds."""
    save_result(path, kind, "Audit", audit, _check_both, ("model",))


def load(kind: Any, path: str | Path) -> Any:
    """Read what `save` wrote; a damaged file is refused."""

    def load_json(path: str | Path) -> Any:
        content = read_json(path)
        check_format(path, content["nbsal"], FORMAT)
        return from_plain(kind, content["audit"])

    return load_result(path, kind, "Audit", load_json, _check_both)


def _check_both(audit: Any) -> None:
    for each in filter(None, [audit, audit.other]):
        _check(each)


def _check(audit: Any) -> None:
    """Refuse parts that do not fit each other."""
    for name, kind in _FACTS.items():
        from_plain(kind, audit.provenance[name])
    count, classes = len(audit.texts), len(audit.classes)
    each = [audit.predictions, audit.confidences, audit.spans, audit.scores, *audit.groups.values()]
    fits = all(len(values) == count for values in each) and (audit.labels is None or len(audit.labels) == count)
    for codes, limit in (
        (audit.predictions, classes),
        (audit.labels or (), classes),
        *((effect.texts, count) for effect in audit.effects),
        *((effect.without + effect.random, classes) for effect in audit.effects),
        ([effect.speaks_for for effect in audit.effects], classes),
        ([each.text for each in audit.corrections], count),
    ):
        fits &= all(type(code) is int and 0 <= code < limit for code in codes)
    fits &= all(0 <= confidence <= 1 + ROUNDING for confidence in audit.confidences)
    fits &= len(audit.effects) <= audit.considered <= sys.maxsize
    for effect in audit.effects:
        sizes = {len(effect.texts), len(effect.scores), len(effect.pulls), len(effect.without), len(effect.random)}
        fits &= len(sizes) == 1 and bool(np.isfinite([*effect.pulls, *effect.scores]).all())
    for text, spans, scores in zip(audit.texts, audit.spans, audit.scores, strict=True):
        parts = (text,) if isinstance(text, str) else text
        fits &= len(spans) == len(scores) and bool(np.isfinite(scores).all())
        fits &= all(0 <= part < len(parts) and 0 <= start <= end <= len(parts[part]) for part, start, end in spans)
    if (other := audit.other) is not None:
        first, second = (
            (each.classes, each.texts, each.labels, [(e.word, e.speaks_for, e.texts) for e in each.effects])
            for each in (audit, other)
        )
        fits &= first == second and other.other is None
    if not fits:
        raise ValueError("the parts of the audit do not match")
