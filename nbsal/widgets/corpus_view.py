"""Views of many explained texts: finished results, or those of an explainer as they become ready."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliencies, Saliency
from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.support.errors import InputError
from nbsal.support.validation import Text, plural, text_list
from nbsal.widgets.base import View
from nbsal.widgets.page import jobs

CHUNK = 64  # texts that are explained before the view shows the results so far
EXCERPT = 160  # characters
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


class CorpusView(View):
    """A view of a sequence of Saliency, or of an explainer and texts; `explain(texts)` shows other texts.

    A request that is replaced or cancelled leaves its explanations to the next one.
    """

    accepts: ClassVar[tuple[type, ...]] = (Sequence,)

    def __init__(self, source: Any, texts: Iterable[Text] | None = None, **settings: Any) -> None:
        self._texts = [] if texts is None else list_texts(texts)
        self._saliencies: Sequence[Saliency] = []
        super().__init__(source, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        if not self._texts:
            message = f"{type(self).__name__} needs at least one text. Pass texts=[...]."
            raise InputError(message, argument="texts", value=None)
        return {}

    def from_result(self, result: Any) -> dict[str, Any]:
        if self._texts or isinstance(result, str) or not result or not isinstance(result[0], Saliency):
            message = f"{type(self).__name__} shows an Explainer with texts, or a sequence of at least one Saliency."
            raise InputError(message, argument="source", value=result)
        self._saliencies = result
        return {}

    @property
    def saliencies(self) -> Sequence[Saliency]:
        """The explanations that are ready."""
        return self._saliencies

    def explain(self, texts: Iterable[Text]) -> None:
        """Explain and show other texts."""
        if self.explainer is None:
            message = f"This {type(self).__name__} shows finished results. Pass an Explainer to show other texts."
            raise InputError(message, argument="texts", value=texts)
        self._texts, self._saliencies = list_texts(texts), []
        self.request()

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        return self.summarize(self.explain_all(inputs, job), inputs, job)

    def explain_all(self, inputs: dict[str, Any], job: jobs.Job) -> Sequence[Saliency]:
        """Explain every text in chunks; after each chunk, show the results so far."""
        if self.plain_result is not None:
            return self._saliencies
        texts, saliencies = self._texts, list(self._saliencies)
        with self.meter(job, len(texts)) as meter:
            meter.step(len(saliencies))
            while len(saliencies) < len(texts):
                meter.check()
                chunk = texts[len(saliencies) : len(saliencies) + CHUNK]
                saliencies += self.explainer.map(chunk, progress=False, cancel=job.cancel)
                meter.step(len(chunk))
                if texts is self._texts:
                    self._saliencies = Saliencies(saliencies)
                if len(saliencies) < len(texts):
                    self.show_partial(job, self.summarize(self._saliencies, inputs, job))
        return self._saliencies

    def count_notes(self, explained: int, total: int) -> list[str]:
        """The model and the method, and how many texts they explained."""
        model = self._saliencies[0].notes()[:1] if self._saliencies else []
        count = f"{explained} of {total} explained" if explained < total else plural(total, "text")
        return [*model, *[count] * (total > 0)]

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> Any:
        """The result that the view shows of these explanations."""
        raise NotImplementedError(f"{type(self).__name__}: implement summarize(self, saliencies, inputs, job).")


def excerpt(saliency: Saliency, positions: Sequence[int]) -> list[list[Any]]:
    """The text around the first of some tokens: [text, share of the strongest word, has one of the tokens] a piece."""
    row = saliency.row
    segment = row.segments[positions[0]]
    text = row.parts[segment]
    start, end = _window(text, row.offsets[positions[0]][0])
    scores = saliency.word_scores
    largest = max((abs(score) for score in scores), default=0.0) or 1.0
    words = [
        (max(word.start, start) - start, min(word.end, end) - start, score / largest, "")
        for word, score in zip(row.words, scores, strict=True)
        if word.segment == segment and word.start < end and word.end > start
    ]
    offsets = [row.offsets[i] for i in positions if row.segments[i] == segment]
    pieces, span_start = [], start
    for span in html.scored_spans(text[start:end], words):
        span_end = span_start + len(span.text)
        marked = span.score is not None and any(first < span_end and last > span_start for first, last in offsets)
        pieces.append([span.text, float(np.round(span.score or 0.0, 3)), marked])
        span_start = span_end
    return [*[[ELLIPSIS, 0.0, False]] * (start > 0), *pieces, *[[ELLIPSIS, 0.0, False]] * (end < len(text))]


def excerpt_html(pieces: Sequence[Sequence[Any]]) -> str:
    """An excerpt as HTML without scripts."""
    content = ""
    for text, share, marked in pieces:
        tip = f"{percent(abs(share), 0)} of the strongest word, {'for' if share > 0 else 'against'}"
        piece = html.span_html(html.ScoredSpan(text, share, tip), 1.0) if share else html.escape(text)
        content += f"<b>{piece}</b>" if marked else piece
    return content


def list_texts(texts: Iterable[Text]) -> list[Text]:
    """The texts as a list, which has at least one."""
    listed = list(text_list(texts))
    if not listed:
        raise InputError("The list of texts is empty. Pass at least one text.", argument="texts", value=texts)
    return listed


def _window(text: str, position: int) -> tuple[int, int]:
    """Start and end of the excerpt around a position; it starts at a word if there is a space."""
    start = max(0, position - EXCERPT // 2)
    if start:
        start = text.find(" ", start, position) + 1 or start
    return start, min(len(text), start + EXCERPT)
