"""Parts of an answer's reply as targets of their own, and tokens of it rather than others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from nbsal.explain.prompt.reading import Unit
from nbsal.explain.prompt.reply_span import tokens_of
from nbsal.explain.prompt.sources import Source
from nbsal.explain.scoring.hops import Count, follow_answer
from nbsal.explain.scoring.running import OF_ONE_TARGET, SpanSaliency
from nbsal.explain.sentences.reply_facts import source_names
from nbsal.model.target import Target
from nbsal.model.text.tokens import Row, Word, strip_span
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError


def explain_part(answer: Any, span: Any, hops: Count | None, check: bool | int) -> SpanSaliency:
    """See `Answer.of`."""
    tokens, hops = answer.tokens_of(span), answer.hops_of(hops)
    target = None if answer.running is None else answer.running.sum_target(tokens)
    changes = answer.provenance.get("change")
    change = sum(changes[token] for token in tokens) if changes and max(tokens) < answer.explained else None
    if max(tokens) < answer.explained and (answer.linear or len(tokens) == 1):
        scores = answer.score_matrix.total(tokens)
    else:
        scores = answer.still_running().score_sum(tokens)
    scores, notes = _followed(answer, scores, hops)
    if hops == 0 and change is not None:
        notes = {"change": change, "gap": float(scores.sum()) - change}
    saliency = _saliency(answer, scores, tokens, _text_of(answer, tokens), target, notes)
    return answer.still_running().check(saliency, check) if check else saliency


def explain_rival(answer: Any, token: Any, at: Any) -> SpanSaliency:
    """See `Answer.rather`."""
    running = answer.still_running()
    if at is None:
        scores, names = running.score_rival_reply(token), f"{answer.text.strip()} - {token.strip()}"
        return _saliency(answer, scores, answer.reading.content, names, None, {})
    places = tokens_of(answer.reading, at, "at")
    if len(places) != 1:
        message = f"at={at!r} covers {len(places)} tokens. Name one, by its number."
        raise InputError(message, argument="at", value=at)
    target = running.rival_target(places[0], token)
    scores, notes = _followed(answer, running.score_rival(places[0], target), answer.hops)
    return _saliency(answer, scores, places, f"{_text_of(answer, places)} - {target.label}", target, notes)


def _followed(answer: Any, scores: Floats, hops: Count) -> tuple[Floats, dict[str, Any]]:
    """Scores followed through the reply, and what the provenance says of that."""
    if hops == 0:
        return scores, {}
    followed = follow_answer(answer, scores[None], hops)
    return followed.scores[0], followed.provenance


def _text_of(answer: Any, tokens: Sequence[int]) -> str:
    reading = answer.reading
    spans = [reading.reply_spans[token] for token in tokens]
    text = str(reading.reply[min(start for start, _ in spans) : max(end for _, end in spans)])
    return text or str(reading.reply_tokens[tokens[0]])


def _saliency(
    answer: Any, scores: Floats, tokens: Sequence[int], target: str, span_target: Target | None, notes: dict[str, Any]
) -> SpanSaliency:
    end = min(len(scores), answer.reading.start + max(tokens))
    probability = np.exp(answer.statistics.logprob[list(tokens)].sum())
    settings = {name: value for name, value in answer.provenance.items() if name not in OF_ONE_TARGET}
    row = answer.reading.up_to(end)
    return SpanSaliency(
        row=replace(row, units=tuple(_scored_parts(answer, row))),
        target=target.strip(),
        prediction=_text_of(answer, tokens).strip(),
        probabilities=np.array([probability]),
        method=answer.method,
        provenance=settings | notes | {"target": target.strip(), "number": answer.number},
        scores=np.array(scores[:end]),
        tie_breaker=np.array(scores[:end]),
        span_target=span_target,
        running=None if span_target is None else answer.running,
    )


def hidden_units(answer: Any) -> Sequence[Unit]:
    """The units that are hidden as one, if these are larger than words: they are scored, not the words in them."""
    units: Sequence[Unit] = answer.units
    return () if answer.can_follow or answer.provenance.get("unit") in ("token", "word") else units


def unit_names(units: Sequence[Unit], sources: Sequence[Source]) -> list[str]:
    """What units are called: a whole source by its name, a part of one by its text."""
    names = [name.sentence for name in source_names(sources)]
    return [names[unit.source] if unit.text == sources[unit.source].text else unit.text for unit in units]


def _scored_parts(answer: Any, row: Row) -> Iterator[Word]:
    """The hidden units as parts of the text that are scored as one, each in as many pieces as it has."""
    units = hidden_units(answer)
    for unit, name in zip(units, unit_names(units, answer.reading.prompt.sources), strict=True):
        tokens = [token for token in unit.tokens if not row.special[token]]
        for _, numbered in groupby(enumerate(tokens), lambda pair: pair[1] - pair[0]):
            piece = tuple(token for _, token in numbered)
            span = min(row.offsets[i][0] for i in piece), max(row.offsets[i][1] for i in piece)
            yield Word(name, *strip_span(row.parts[0], *span), 0, piece)
