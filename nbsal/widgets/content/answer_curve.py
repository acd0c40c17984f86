"""The hiding curve of the Answers view, beside random orders, and what is said of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nbsal.explain.answer import Answer
from nbsal.explain.judgement import BAND, Judgement
from nbsal.explain.sentences.reply_sentences import likelihood
from nbsal.methods.facts import label_of
from nbsal.render.headline import number_word
from nbsal.render.sheet import Block, Chart, ChartLine, Heading, Note
from nbsal.widgets.content import line_chart

CARRIES = 0.5  # share of the whole drop that makes the first sentences the ones that carry the reply
QUANTITY = "probability of a token"
RANDOM_ORDER = "random order"


@dataclass(frozen=True, eq=False)
class HidingCurve:
    """The hiding curve of an answer, if there is one, and what the page shows of it, or why there is none."""

    judgement: Judgement | None
    trait: dict[str, Any]

    @property
    def blocks(self) -> list[Block]:
        """The same in copies."""
        trait = self.trait
        if "why" in trait:
            return [Note(trait["why"])]
        curves = [
            ChartLine(
                line["name"],
                line["at"],
                line["values"],
                (line["low"], line["high"]) if "low" in line else None,
                line["random"],
            )
            for line in trait["lines"]
        ]
        point = curves[0].steps[0], curves[0].values[0]
        chart = Chart(
            curves, trait["quantity"], trait["axes"]["label"], trait["axes"]["ticks"], trait["band"], point=point
        )
        return [Heading([("text", trait["finding"])], trait["note"]), chart]


def hiding_curve(curve: Judgement, answer: Answer) -> HidingCurve:
    """The curve as lines of a chart: the probability of a token of the reply, on average."""
    count = len(curve.tokens)
    own, others = np.exp(curve.curve / count).round(4), np.exp(curve.random_curves / count).round(4)
    low, high = np.percentile(others, BAND, axis=0)
    at = (np.arange(len(own)) / max(1, len(own) - 1)).tolist()
    order = np.argsort(-curve.scores[list(curve.tokens)].sum(0), kind="stable")
    lines = [
        line_chart.line(label_of(curve.method), float(own.mean()), True, False, at=at, values=own),
        line_chart.line(
            RANDOM_ORDER, float(others.mean()), True, True, at=at, values=others.mean(0), low=low, high=high
        ),
    ]
    unit = str(answer.provenance.get("unit", "sentence"))
    unit = "part" if unit == "spans" else unit
    label = f"source {unit}s hidden, highest score first"
    trait = {
        "lines": lines,
        "axes": line_chart.axes(lines, True, label, line_chart.count_ticks(len(own) - 1)),
        "order": [list(answer.units[i].tokens) for i in order],
        "finding": curve_finding(curve, unit),
        "quantity": QUANTITY,
        "note": f"{QUANTITY}, on average",
        "band": f"95\u202f% of {len(curve.random)} random orders",
        "tags": [f"{step} hidden: {likelihood(float(value))} a token" for step, value in enumerate(own)],
    }
    return HidingCurve(curve, trait)


def curve_finding(curve: Judgement, unit: str) -> str:
    """How many units carry the reply, if their order is better than chance."""
    if not curve.beats_chance:
        return "Hiding in this order is no better than in random ones"
    drops = curve.curve[0] - curve.curve
    steps = int(np.argmax(drops >= CARRIES * drops.max()))
    carry = f"{unit} carries" if steps == 1 else f"{unit}s carry"
    return f"{number_word(steps).capitalize()} {carry} the reply"
