"""The Highlight view: a text whose tokens are coloured by the evidence for and against the decision."""

from collections.abc import Sequence

from nbsal.explain.saliency import Saliency
from nbsal.render import html, text_lines
from nbsal.render.headline import Phrase, plain
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

    def render_png(self) -> bytes:
        return text_lines.png(text_lines.draw([scored_text(self.result, self.level)], notes=self.result.notes()))


def text_html(sentence: Sequence[Phrase], parts: Sequence[Sequence[ScoredSpan]], largest: float) -> str:
    """A text under its headline and above its colour scale, as HTML without scripts."""
    signed = any((span.score or 0.0) < 0 for part in parts for span in part)
    return html.headline_html(sentence) + html.text_html(parts, largest) + html.legend_html(signed)


def scored_text(saliency: Saliency, level: str = "word") -> ScoredText:
    """A saliency as text to draw, under its headline and above its colour scale."""
    parts = saliency.scored_spans(level)
    return ScoredText(plain(saliency.headline()), parts, largest_score(parts), legend=True)
