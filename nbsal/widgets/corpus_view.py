"""Many: a view of many explained texts: those of an explainer as they get done, or a sequence that is there already."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nbsal.errors import InputError
from nbsal.explainer import Explainer
from nbsal.render import html
from nbsal.saliency import Saliencies, Saliency
from nbsal.validation import Text
from nbsal.widgets import jobs
from nbsal.widgets.base import View

CHUNK = 64  # texts between two looks at what is there so far
ROOM = 160  # characters of an excerpt


class CorpusView(View):
    """A view of saliencies, or of an explainer and texts; `explain(texts)` shows others.

    A request that is superseded or cancelled leaves what is explained already to the next.
    """

    def __init__(self, source: Any, texts: Iterable[Text] | None = None, **settings: Any) -> None:
        self._texts: list[Text] = []
        self._found: Sequence[Saliency] = []
        if isinstance(source, Explainer):
            if texts is None:
                raise InputError(f"{type(self).__name__} needs texts to begin with: texts=[...].")
            self._texts = _listed(texts)
            super().__init__(source.subject, explainer=source, **settings)
        elif isinstance(source, Sequence) and not isinstance(source, str) and texts is None:
            if not source:
                raise InputError(f"There is nothing for {type(self).__name__} to show: the list is empty.")
            self._found = source
            super().__init__(**settings)
        else:
            kinds = "an Explainer with texts, or a sequence of Saliency"
            raise InputError(f"{type(self).__name__} shows {kinds}, not {type(source).__name__}.")

    @property
    def saliencies(self) -> Sequence[Saliency]:
        """What is explained so far."""
        return self._found

    def explain(self, texts: Iterable[Text]) -> None:
        """Explain and show other texts."""
        if self.explainer is None:
            raise InputError(f"This {type(self).__name__} has no explainer: it shows what was found elsewhere.")
        self._texts, self._found = _listed(texts), []
        self.request()

    def gather(self, wanted: dict[str, Any], job: jobs.Job) -> Sequence[Saliency]:
        """Every text explained; those that are done are shown meanwhile."""
        texts, found = self._texts, list(self._found) if self._texts else self._found
        with self.meter(job, len(texts)) as meter:
            meter.step(len(found) if texts else 0)
            while len(found) < len(texts):
                meter.check()
                chunk = texts[len(found) : len(found) + CHUNK]
                found = [*found, *self.explainer.map(chunk, progress=False, cancel=job.cancel)]
                meter.step(len(chunk))
                if texts is self._texts:
                    self._found = Saliencies(found)
                if len(found) < len(texts):
                    self.partly(job, self.seen(self._found, wanted, job))
        return self._found

    def seen(self, found: Sequence[Saliency], wanted: dict[str, Any], job: jobs.Job) -> Any:
        """What the view shows of these."""
        raise NotImplementedError

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        return self.seen(self.gather(wanted, job), wanted, job)


def excerpt(saliency: Saliency, places: Sequence[int]) -> list[list[Any]]:
    """The text around the first of these tokens: pieces [text, share of the largest score, whether it is one of them].

    >>> import nbsal
    >>> found = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")("A joy.")
    >>> [(text, marked) for text, _, marked in excerpt(found, [2])]
    [('A', False), (' ', False), ('joy', True), ('.', False)]
    """
    row = saliency.row
    segment = row.segments[places[0]]
    text = row.parts[segment]
    start = max(0, row.offsets[places[0]][0] - ROOM // 2)
    start = text.find(" ", start, row.offsets[places[0]][0]) + 1 or start if start else 0
    end = min(len(text), start + ROOM)
    inside = [i for i in row.within((start, end), segment) if row.offsets[i][1] > start]
    tokens = [
        (max(row.offsets[i][0], start) - start, min(row.offsets[i][1], end) - start, float(saliency.scores[i]), "")
        for i in inside
    ]
    wanted = [(row.offsets[i][0] - start, row.offsets[i][1] - start) for i in places if i in inside]
    pieces, at, largest = [], 0, saliency.largest or 1.0
    for stretch in html.scored_spans(text[start:end], tokens):
        past = at + len(stretch.text)
        marked = any(first < past and last > at for first, last in wanted)
        pieces.append([stretch.text, float(np.round((stretch.score or 0.0) / largest, 3)), marked])
        at = past
    before, after = [["\N{HORIZONTAL ELLIPSIS}", 0.0, False]] * (start > 0), [["\N{HORIZONTAL ELLIPSIS}", 0.0, False]]
    return [*before, *pieces, *after * (end < len(text))]


def excerpt_html(pieces: Sequence[Sequence[Any]]) -> str:
    """An excerpt that needs no scripts."""
    shown = ""
    for text, share, marked in pieces:
        piece = html.span_html(html.ScoredSpan(text, share, f"{share:+.2f} of the largest"), 1.0) if share else None
        piece = piece or html.escape(text)
        shown += f"<b>{piece}</b>" if marked else piece
    return shown


def _listed(texts: Iterable[Text]) -> list[Text]:
    if isinstance(texts, str | tuple):
        raise InputError("Give a list of texts; one text is shown by Highlight.")
    found = list(texts)
    if not found:
        raise InputError("There is no text to explain: the list is empty.")
    return found
