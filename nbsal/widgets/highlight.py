"""The Highlight view: a text whose tokens are coloured by the evidence for and against the decision."""

from collections.abc import Sequence

from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.render import html, text_lines
from nbsal.render.headline import percent
from nbsal.render.html import ScoredSpan, largest_score
from nbsal.render.scores import score_texts
from nbsal.render.text_lines import Bars, ScoredText
from nbsal.widgets.explainer_view import ExplainerView
from nbsal.widgets.page.html_export import asset

CLASSES, WORDS = 6, 10  # bars of a picture


class Highlight(ExplainerView):
    """A text, typed in the view or set from Python, that is explained at once; or a finished Saliency.

    >>> import nbsal
    >>> view = Highlight(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text="A warm and funny film.")
    >>> view.wait().result.prediction
    'positive'
    """

    live_name = "highlight"
    _esm = asset("highlight.js")
    _css = asset("highlight.css")

    def render_html(self) -> str:
        return str(self.result.render_html(level=self.level, statement=self.statement))

    def render_png(self) -> bytes:
        text = scored_text(self.statement, self.result.scored_spans(self.level))
        bars = [*class_bars(self._result.get("probabilities", ())), word_bars(self.result)]
        notes = [*self.statement.notes, *special_note(self.result), *self.result.notes()]
        return text_lines.png(text_lines.draw([text], notes=notes, bars=bars))


def text_html(statement: Statement, parts: Sequence[Sequence[ScoredSpan]], largest: float) -> str:
    """A text under what is said of it and above its colour scale, as HTML without scripts."""
    signed = any((span.score or 0.0) < 0 for part in parts for span in part)
    heading = html.headline_html(statement.sentence, statement.notes)
    return heading + html.text_html(parts, largest) + html.legend_html(signed)


def class_bars(probabilities: Sequence[tuple[str, float]]) -> list[Bars]:
    """The likeliest classes with their probabilities; nothing where there are none."""
    rows = [(name, share, percent(share)) for name, share in list(probabilities)[:CLASSES]]
    return [Bars("Classes", rows, neutral=True)] if rows else []


def word_bars(saliency: Saliency) -> Bars:
    """The words with the largest scores."""
    ranked = saliency.ranked_words(WORDS)
    largest = max((abs(score) for _, score in ranked), default=0.0) or 1.0
    texts, power = score_texts([score for _, score in ranked])
    rows = [(name, score / largest, text) for (name, score), text in zip(ranked, texts, strict=True)]
    return Bars(f"Strongest words {power}".rstrip(), rows)


def special_note(saliency: Saliency) -> list[str]:
    """How much of the score lies on special tokens, if any does."""
    share = saliency.special_share()
    return [f"{percent(share, 0)} of the score on special tokens"] if share >= 0.005 else []


def scored_text(statement: Statement, parts: Sequence[Sequence[ScoredSpan]]) -> ScoredText:
    """A text to draw, under what is said of it and above its colour scale."""
    return ScoredText(statement.text(), parts, largest_score(parts), legend=True)
