"""The same reply explained once more: by another method, or by the same one with other settings."""

from threading import Event

from nbsal.answers.answer import Answer
from nbsal.answers.explain import explain_reading, one_method
from nbsal.answers.running import Explains
from nbsal.support.progress import Meter, Progress

# Of a reading, in its provenance.
ORIGIN = ("rendered", "documents", "rewritten", "not read", "template", "note", "reply", "generate", "seed")


def explain_again(
    answer: Answer, explainer: Explains, progress: Progress = False, cancel: Event | None = None
) -> Answer:
    """Explain the reply of an answer, without reading or writing it again."""
    origin = {name: answer.provenance[name] for name in ORIGIN if name in answer.provenance}
    level = answer.provenance.get("unit", "sentence")
    unit = [unit.span for unit in answer.units] if level == "spans" else level
    origin["drawn"] = answer.statistics.drawn
    with one_method(), Meter(len(answer.ids), progress, cancel) as meter:
        return explain_reading({"": explainer}, answer.reading, origin, unit, None, None, meter)[""]
