"""An answer as static HTML: the reply, and the sources shaded by what they add to it."""

from typing import TYPE_CHECKING

import numpy as np

from nbsal.render import html

if TYPE_CHECKING:
    from nbsal.answers.answer import Answer

LISTED = 5  # units that are listed below the text


def answer_html(answer: "Answer") -> str:
    """The reply, the shaded prompt, and the units that it comes from."""
    reading = answer.reading
    tokens = [token for unit in reading.reply_units("reply") for token in unit.tokens]
    scores = answer.scores[tokens].sum(0)[: reading.start]
    row = reading.up_to(reading.start)
    spans = [(*row.offsets[i], float(scores[i]), row.tokens[i]) for i in row.content]
    parts = [html.scored_spans(reading.prompt.text, spans)]
    largest = max((abs(score) for *_, score, _ in spans), default=0.0)
    reply = f'<p dir="auto"><b>{html.escape(html.visible(answer.text.strip()))}</b></p>'
    body = reply + html.text_html(parts, largest) + _ranking(answer, scores)
    method = f"{answer.method}, {answer.number}"
    notes = [method, f"units: {answer.provenance.get('unit')}", str(answer.provenance.get("model", ""))]
    return html.block_html("The reply, and where it comes from", body, notes)


def _ranking(answer: "Answer", scores: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    units = [(unit, float(scores[list(unit.tokens)].sum())) for unit in answer.units]
    best = sorted(units, key=lambda pair: -abs(pair[1]))[:LISTED]
    return html.ranking_html([(f"{unit.name}: {unit.text.strip():.60}", score) for unit, score in best], LISTED)
