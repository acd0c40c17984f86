"""The Browse view: a table of many explained texts that is sorted and filtered; one text is opened below it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.clouds import plain_token
from nbsal.errors import InputError
from nbsal.model.targets import label_index
from nbsal.render import html, text_lines
from nbsal.render.text_lines import ScoredText
from nbsal.saliency import Saliency
from nbsal.validation import Text, checked
from nbsal.widgets import jobs, wire
from nbsal.widgets.corpus_view import CorpusView, excerpt, excerpt_html
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

PAGE = 12  # texts on a page
COLUMNS = ("number", "text", "prediction", "confidence", "label", "top")
HEADINGS = ("No.", "Text", "Prediction", "Confidence", "Label", "Top token")


@dataclass(frozen=True)
class Entry:
    """One text as the table sorts and filters it; `words` are its words and tokens in lower case."""

    number: int
    text: str
    prediction: str
    confidence: float | None  # values and spans have none
    label: str | None
    top: str
    words: frozenset[str]

    @property
    def misclassified(self) -> bool:
        """Whether the prediction differs from the label."""
        return self.label is not None and self.label != self.prediction


@dataclass(frozen=True, eq=False)
class TablePage:
    """One page of the table: the entries that pass the filters, those on the page, and the text that is opened."""

    entries: Sequence[Entry]
    total: int  # entries before filtering
    page: int
    rows: Sequence[tuple[Entry, Saliency]]
    opened: Saliency | None
    labels: Sequence[str]  # predicted classes

    def caption(self) -> str:
        """How many texts pass the filters."""
        return f"{len(self.entries)} of {self.total} texts"

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each text that passes the filters."""
        import pandas

        rows = [tuple(getattr(entry, name) for name in COLUMNS) for entry in self.entries]
        return pandas.DataFrame(rows, columns=list(COLUMNS))

    def notes(self) -> list[str]:
        """How many texts pass the filters, and how many of them are misclassified if they have labels."""
        labelled = [entry for entry in self.entries if entry.label is not None]
        count = sum(entry.misclassified for entry in labelled)
        share = [f"{count} of {len(labelled)} are misclassified ({count / len(labelled):.1%})."] if labelled else []
        return [f"{self.caption()}.", *share]


@checked
class Browse(CorpusView):
    """A table of Saliency results, of an opened corpus, or of texts that an explainer explains while the table fills.

    `sort` and `descending` order it; `label` keeps one predicted class, `token` the texts with that token or word, and
    `wrong` the texts whose prediction differs from `labels`. `opened` is the number of the text that is shown in full;
    `selection` holds tokens of that text.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Browse(explain.map(["A joy.", "A bore."], progress=False), token="bore")
    >>> view.wait().to_frame()["prediction"].tolist()
    ['negative']
    """

    inputs = ("sort", "descending", "label", "wrong", "token", "page", "opened")
    _esm = asset("browse.js")
    _css = asset("browse.css")

    sort = traitlets.Enum(COLUMNS, "number").tag(sync=True, page=True)
    descending = traitlets.Bool(False).tag(sync=True, page=True)
    label = traitlets.Unicode(None, allow_none=True).tag(sync=True, page=True)
    wrong = traitlets.Bool(False).tag(sync=True, page=True)
    token = traitlets.Unicode("").tag(sync=True, page=True)
    page = traitlets.Int(0, min=0).tag(sync=True, page=True)
    opened = traitlets.Int(None, allow_none=True, min=0).tag(sync=True, page=True)
    _table = traitlets.Dict().tag(sync=True)
    _tokens = traitlets.Dict().tag(sync=True)
    _scores = traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        texts: Iterable[Text] | None = None,
        *,
        labels: Iterable[Any] | None = None,
        **settings: Any,
    ) -> None:
        self._labels = None if labels is None else list(labels)
        self._entries: list[Entry] = []
        super().__init__(source, texts, **settings)

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Explain and show other texts, with their labels if there are any."""
        self._labels, self._entries = None if labels is None else list(labels), []
        self.opened = None
        super().explain(texts)

    def selected(self) -> "pandas.DataFrame":
        opened = self.result.opened
        return self.to_frame().iloc[:0] if opened is None else self._selected_rows(opened.to_frame())

    @traitlets.observe("opened")
    def _clear_selection(self, change: Any) -> None:
        self.selection, self.hover = [], None

    @traitlets.observe("sort", "descending", "label", "wrong", "token")
    def _return_to_first_page(self, change: Any) -> None:
        if self.result is not None:
            self.page = 0

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> TablePage:
        entries = self._update_entries(saliencies, job)
        opened, last = inputs["opened"], max(len(self._texts), len(saliencies)) - 1
        if opened is not None and opened > last:
            texts = f"texts are numbered 0 to {last}" if last else "there is only text 0"
            raise InputError(f"opened={opened}, but {texts}.", argument="opened", value=opened)
        passing = sorted(filter(_filter(inputs), entries), key=_sort_key(inputs["sort"]), reverse=inputs["descending"])
        page = min(inputs["page"], max(0, len(passing) - 1) // PAGE)
        rows = [(entry, saliencies[entry.number]) for entry in passing[page * PAGE : (page + 1) * PAGE]]
        labels = sorted({entry.prediction for entry in entries})
        is_ready = opened is not None and opened < len(saliencies)  # texts are still being explained
        return TablePage(passing, len(entries), page, rows, saliencies[opened] if is_ready else None, labels)

    def publish(self, result: TablePage) -> dict[str, Any]:
        fields = ("number", "prediction", "confidence", "label", "top")
        rows = [
            {name: getattr(entry, name) for name in fields}
            | {"wrong": entry.misclassified, "pieces": _short_text(saliency)}
            for entry, saliency in result.rows
        ]
        table = {
            "rows": rows,
            "labels": list(result.labels),
            "judged": self._labels is not None,
            "page": result.page,
            "pages": max(0, len(result.entries) - 1) // PAGE + 1,
            "count": result.caption(),
        }
        if result.opened is None:
            return {"_table": table, "_tokens": {}, "_scores": b"", "_result": {"notes": result.notes()}}
        scores, scales = wire.scores([result.opened.scores])
        decision = wire.decision(result.opened, self.subject)
        notes = [*result.notes(), *decision["notes"]]
        return {
            "_table": table,
            "_tokens": wire.tokens(result.opened.row),
            "_scores": scores,
            "_result": decision | {"scales": scales, "notes": notes},
        }

    def render_html(self) -> str:
        page: TablePage = self.result
        head = "".join(f'<th style="text-align:left;padding:2px 8px">{name}</th>' for name in HEADINGS)
        body = "".join(f"<tr>{_row_html(entry, saliency)}</tr>" for entry, saliency in page.rows)
        table = f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>'
        opened = "" if page.opened is None else page.opened.to_html()
        return html.block_html(page.caption(), f'<div style="overflow-x:auto">{table}</div>{opened}', page.notes())

    def render_png(self) -> bytes:
        page: TablePage = self.result
        texts = [
            ScoredText(_heading(entry), [[html.ScoredSpan(text, share) for text, share, _ in _short_text(saliency)]], 1)
            for entry, saliency in page.rows
        ]
        return text_lines.png(text_lines.draw(texts, notes=page.notes()))

    def _update_entries(self, saliencies: Sequence[Saliency], job: jobs.Job) -> list[Entry]:
        """The entries of all texts; only those of new texts are created."""
        entries, count = self._entries, max(len(self._texts), len(saliencies))
        if self._labels is not None and len(self._labels) != count:
            message = f"labels must have one entry per text; there are {count} texts and {len(self._labels)} labels."
            raise InputError(message, argument="labels", value=self._labels)
        for saliency in islice(saliencies, len(entries), None):
            if job.cancel.is_set():
                break
            entries.append(self._entry(len(entries), saliency))
        return entries

    def _entry(self, number: int, saliency: Saliency) -> Entry:
        row, probabilities = saliency.row, saliency.probabilities
        tokens = [saliency.tokens[i] for i in row.content]
        words = {plain_token(token) for token in tokens} | {token.lower() for token in tokens}
        return Entry(
            number=number,
            text=" | ".join(row.parts),
            prediction=saliency.prediction,
            confidence=round(float(probabilities.max()), 4) if probabilities.ndim == 1 and probabilities.size else None,
            label=self._label(number),
            top=saliency.tokens[saliency.order[0]],
            words=frozenset(words | {word.text.lower() for word in saliency.words}),
        )

    def _label(self, number: int) -> str | None:
        if self._labels is None:
            return None
        label = self._labels[number]
        if isinstance(label, str):
            return label
        if self.subject is None:
            message = f"Without an explainer, labels must be names of classes, not {label!r:.40}."
            raise InputError(message, argument="labels", value=label)
        return str(self.subject.labels[label_index(label, self.subject.labels, "labels")])


def _filter(inputs: dict[str, Any]) -> Callable[[Entry], bool]:
    word = inputs["token"].strip().lower()
    return lambda entry: (
        (inputs["label"] is None or entry.prediction == inputs["label"])
        and (not inputs["wrong"] or entry.misclassified)
        and (not word or word in entry.words)
    )


def _sort_key(column: str) -> Callable[[Entry], Any]:
    return lambda entry: (getattr(entry, column) is None, getattr(entry, column))


def _short_text(saliency: Saliency) -> list[list[Any]]:
    """The text around its most important token."""
    return excerpt(saliency, saliency.order[:1])


def _heading(entry: Entry) -> str:
    """A text's number, prediction, confidence and label in one line."""
    label = "" if entry.label is None else f", {'misclassified' if entry.misclassified else 'correct'}: {entry.label}"
    confidence = f" ({_confidence(entry)})" if _confidence(entry) else ""
    return f"Text {entry.number}: {entry.prediction}{confidence}{label}"


def _confidence(entry: Entry) -> str:
    return "" if entry.confidence is None else f"{entry.confidence:.1%}"


def _row_html(entry: Entry, saliency: Saliency) -> str:
    text = f'<div style="min-width:14em">{excerpt_html(_short_text(saliency))}</div>'
    label = f"{entry.label} \N{BALLOT X}" if entry.misclassified else entry.label or ""
    plain_cells = [entry.prediction, _confidence(entry), label, entry.top]
    cells = [str(entry.number), text, *map(html.escape, plain_cells)]
    return "".join(f'<td style="padding:2px 8px;vertical-align:top">{cell}</td>' for cell in cells)
