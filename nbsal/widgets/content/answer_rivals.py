"""Why a reply has a token rather than another one, in the view Answers."""

from collections.abc import Sequence

import numpy as np

from nbsal.ablation.texts import REMOVE
from nbsal.explain.answer import Answer
from nbsal.explain.prompt.reading import Unit
from nbsal.explain.scoring.lazy import prompts
from nbsal.explain.sentences.evidence import Evidence, hides, measure
from nbsal.methods import labels
from nbsal.support.arrays import Floats
from nbsal.widgets.content.answer_parts import SpanScores


def rival_scores(answer: Answer, rival: str, at: int) -> SpanScores:
    """The explanation of a token rather than another one in its place."""
    running, (token,) = answer.running, answer.tokens_of(at)
    assert running is not None
    span = answer.rather(rival, at)
    target = span.span_target
    assert target is not None
    reading = answer.reading
    _, ((_, index), _) = target.terms
    reply = prompts.with_reply(running.explainer.subject, reading.prompt, (*reading.reply_ids[:token], index))
    level = "sentence" if answer.evidence is None else answer.evidence.level
    experiment = running.experiment.with_units(reply.units(level), REMOVE).with_reading(reply)
    other = measure(experiment, level=level)
    scores = np.zeros(len(reading.row))
    scores[: len(span.scores)] = span.scores
    if answer.evidence is not None and other is not None and not labels.is_signed(running.method):
        scores = signed_by_hiding(scores, reading.units(level), answer.evidence, other, token)
    return SpanScores(scores, (token,), target.label, other)


def signed_by_hiding(scores: Floats, units: Sequence[Unit], evidence: Evidence, other: Evidence, token: int) -> Floats:
    """Scores without a sign, as scores against what is explained where hiding speaks for a token's rival."""
    odds = evidence.logprob[token] - other.logprob[-1]
    for place, own, others in zip(evidence.places, evidence.without, other.without, strict=True):
        if own[token] - others[-1] > odds:
            inside = [unit for unit, hidden in zip(units, hides(units, place), strict=True) if hidden]
            at = [position for unit in inside for position in unit.tokens]
            scores[at] = -np.abs(scores[at])
    return scores
