"""An answer as static HTML: the reply, and the sources shaded by what they add to it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nbsal.answers.reading import Reading, Unit
from nbsal.render import html

LISTED = 5  # units that are listed below the text
Floats = NDArray[np.float64]


def answer_html(reading: Reading, scores: Floats, units: Sequence[Unit], notes: Sequence[str]) -> str:
    """The reply, the prompt shaded by what it adds to the whole reply, and the units that add most."""
    tokens = [token for part in reading.reply_units("reply") for token in part.tokens]
    total = scores[tokens].sum(0)[: reading.start]
    row = reading.up_to(reading.start)
    spans = [(*row.offsets[i], float(total[i]), row.tokens[i]) for i in row.content]
    largest = max((abs(score) for *_, score, _ in spans), default=0.0)
    reply = f'<p dir="auto"><b>{html.escape(html.visible(reading.reply.strip()))}</b></p>'
    text = html.text_html([html.scored_spans(reading.prompt.text, spans)], largest)
    return html.block_html("The reply, and where it comes from", reply + text + _ranking(units, total), notes)


def _ranking(units: Sequence[Unit], total: Floats) -> str:
    scores = [(f"{unit.name}: {unit.text.strip():.60}", float(total[list(unit.tokens)].sum())) for unit in units]
    return html.ranking_html(sorted(scores, key=lambda pair: -abs(pair[1]))[:LISTED], LISTED)
