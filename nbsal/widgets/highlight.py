"""The Highlight view: a text whose tokens are coloured by the evidence for and against the decision."""

from collections.abc import Sequence

from nbsal.explain.sentence import Statement
from nbsal.render import html, text_lines
from nbsal.render.html import ScoredSpan, largest_score
from nbsal.render.text_lines import ScoredText
from nbsal.widgets.explainer_view import ExplainerView
from nbsal.widgets.export import asset


class Highlight(ExplainerView):
    """A text, typed in the view or set from Python, that is explained at once; or a finished Saliency.

    >>> import nbsal
    >>> view = Highlight(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text="A warm and funny film.")
    >>> view.wait().result.prediction
    'positive'
    """

    _esm = asset("highlight.js")
    _css = asset("highlight.css")

    def render_html(self) -> str:
        return str(self.result.to_html(level=self.level, said=self.said))

    def render_png(self) -> bytes:
        text = scored_text(self.said, self.result.scored_spans(self.level))
        return text_lines.png(text_lines.draw([text], notes=[*self.said.notes, *self.result.notes()]))


def text_html(said: Statement, parts: Sequence[Sequence[ScoredSpan]], largest: float) -> str:
    """A text under what is said of it and above its colour scale, as HTML without scripts."""
    signed = any((span.score or 0.0) < 0 for part in parts for span in part)
    return html.headline_html(said.sentence, said.notes) + html.text_html(parts, largest) + html.legend_html(signed)


def scored_text(said: Statement, parts: Sequence[Sequence[ScoredSpan]]) -> ScoredText:
    """A text to draw, under what is said of it and above its colour scale."""
    return ScoredText(said.text(), parts, largest_score(parts), legend=True)
