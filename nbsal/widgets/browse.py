"""The Browse view: a table of many explained texts that is sorted and filtered; one text is opened beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.methods.lazy import targets
from nbsal.render import html, text_lines
from nbsal.render.headline import percent, phrases
from nbsal.render.text_lines import ScoredText
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import Text, check_one_per_text, checked
from nbsal.widgets.content.table_columns import Columns
from nbsal.widgets.content.text_table import COLUMNS, PAGE, Entry, Filters, TablePage
from nbsal.widgets.corpus_view import CorpusView, excerpt_html, list_texts
from nbsal.widgets.explainer_view import Shading
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.html_export import asset

HEADINGS = ("No.", "Text", "Prediction", "Ranked first")
LONGEST = 160  # characters of a text that is not explained yet
FILTERS = ("sort", "descending", "label", "wrong", "token")
LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.4)"
CELL = f"{LINE};padding:5px 12px 5px 0;text-align:left;vertical-align:baseline"


@checked
class Browse(Shading, CorpusView):
    """A table of Saliency results, of an opened corpus, or of texts that an explainer explains while the table fills.

    `sort` and `descending` order it; `label` keeps one predicted class, `token` the texts with that word or part of a
    word, and `wrong` the texts whose prediction differs from `labels`. `opened` is the number of the text that is shown
    in full; where the filters leave it out, the first text that is listed is opened. `selection` holds its tokens.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Browse(explain.map(["A joy.", "A bore."], progress=False), token="bore")
    >>> view.wait().to_frame()["prediction"].tolist()
    ['negative']
    """

    inputs = (*FILTERS, "page", "opened")
    _esm = asset("browse.js")
    _css = asset("browse.css")

    sort = traitlets.Enum(COLUMNS, "number").tag(sync=True, page=True)
    descending = traitlets.Bool(False).tag(sync=True, page=True)
    label = traitlets.Unicode(None, allow_none=True).tag(sync=True, page=True)
    wrong = traitlets.Bool(False).tag(sync=True, page=True)
    token = traitlets.Unicode("").tag(sync=True, page=True)
    page = traitlets.Int(0, min=0).tag(sync=True, page=True)
    opened = traitlets.Int(0, allow_none=True, min=0).tag(sync=True, page=True)
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
        self._columns = Columns()
        super().__init__(source, texts, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        traits = super().from_explainer(explainer)
        self._label_texts(self._labels, len(self._texts))
        return traits

    def from_result(self, result: Any) -> dict[str, Any]:
        traits = super().from_result(result)
        self._label_texts(self._labels, len(result))
        return traits

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Explain and show other texts, with their labels if there are any."""
        texts = list_texts(texts)
        self._label_texts(None if labels is None else list(labels), len(texts))
        self.opened = 0
        super().explain(texts)

    def selected(self) -> "pandas.DataFrame":
        opened = self.result.opened
        return self.to_frame().iloc[:0] if opened is None else self._selected_rows(opened.to_frame())

    @traitlets.observe("opened")
    def _clear_selection(self, change: Any) -> None:
        self.selection, self.hover = [], None

    @traitlets.observe(*FILTERS)
    def _return_to_first_page(self, change: Any) -> None:
        if self.result is not None:
            self.page = 0

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.plain_result is None and not self._saliencies:
            self.show_partial(job, self.summarize([], inputs, job))  # the texts, which are then explained in place
        return super().compute(inputs, job)

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> TablePage:
        columns = self._columns
        columns.update(saliencies, self.meter(job, len(saliencies)).check)
        total = max(len(self._texts), len(saliencies))
        opened, last = inputs["opened"], total - 1
        if opened is not None and opened > last:
            texts = f"texts are numbered 0 to {last}" if last else "there is only text 0"
            raise InputError(f"opened={opened}, but {texts}.", argument="opened", value=opened)
        filters = Filters(**{name: inputs[name] for name in FILTERS})
        return filters.page(columns, saliencies, total, inputs["page"], opened, self._classes(columns))

    def publish(self, result: TablePage) -> dict[str, Any]:
        waiting = [{"number": number, "pieces": [[self._start(number), 0.0, False]]} for number in result.waiting]
        rows = [vars(entry) | {"wrong": entry.misclassified} for entry in result.rows]
        table = {
            "rows": [*rows, *waiting],
            "labels": list(result.labels),
            "judged": self._labels is not None,
            "page": result.page,
            "pages": max(0, result.listed - 1) // PAGE + 1,
            "position": result.position(),
            "sentence": result.caption(),
            "counts": [len(result.scope), len(result.errors)],
            "explained": result.explained,
            "total": result.total,
            "opened": None,
        }
        number = result.opened_number
        if result.opened is None or number is None:
            return {
                "_table": table,
                "_tokens": {},
                "_scores": b"",
                "_result": {"notes": self.count_notes(result.explained, result.total)},
            }
        decision = wire.decision(result.opened, self.subject)
        statement = self._statement_of(number, result.opened)
        return {
            "opened": number,
            "_table": table | {"opened": {"number": number, "statement": statement.to_json()}},
            "_tokens": wire.tokens(result.opened.row),
            "_scores": wire.scores([result.opened.scores]),
            "_result": decision
            | {"notes": [*self.count_notes(result.explained, result.total), *decision["notes"][1:]]},
        }

    def render_html(self) -> str:
        page: TablePage = self.result
        head = "".join(f'<th style="{CELL};white-space:nowrap">{name}</th>' for name in HEADINGS)
        body = "".join(_row_html(entry, entry.number == page.opened_number) for entry in page.rows)
        pale = '<span style="opacity:.75">{}</span>'  # of a text that is not explained yet
        waiting = "".join(_cells_html(str(i), pale.format(html.escape(self._start(i))), "", "") for i in page.waiting)
        table = (
            f'<table style="border-collapse:collapse;width:100%;font-size:90%"><tr>{head}</tr>{body}{waiting}</table>'
        )
        parts = [
            html.headline_html([("text", page.caption())]),
            f'<div style="overflow-x:auto">{table}</div>',
            f'<div style="{html.SMALL};margin:6px 0">{page.position()}</div>',
        ]
        if page.opened is not None and page.opened_number is not None:
            statement = self._statement_of(page.opened_number, page.opened)
            parts.append(f"<div><b>Text {page.opened_number}</b></div>{page.opened.render_html(statement=statement)}")
        return html.block_html(
            page.caption(), "".join(parts), self.count_notes(page.explained, page.total), titled=False
        )

    def render_png(self) -> bytes:
        page: TablePage = self.result
        texts = [
            ScoredText(_heading(entry), [[html.ScoredSpan(text, share) for text, share, _ in entry.pieces]], 1)
            for entry in page.rows
        ]
        notes = [page.position(), " · ".join(self.count_notes(page.explained, page.total))]
        return text_lines.png(text_lines.draw([ScoredText(page.caption(), [], 1.0), *texts], notes=notes))

    def _label_texts(self, labels: list[Any] | None, count: int) -> None:
        """Begin a table of so many texts with these labels."""
        self._labels = self._names(labels, count)
        self._columns = Columns(self._labels)

    def _statement_of(self, number: int, saliency: Saliency) -> Statement:
        label, statement = self._columns.label(number), saliency.statement()
        if label is None:
            return statement
        return replace(statement, sentence=phrases(statement.sentence, f" Labelled {label}."))

    def _names(self, labels: list[Any] | None, count: int) -> list[str] | None:
        """The labels by name, one for each text."""
        if labels is None:
            return None
        check_one_per_text(labels, "labels", count)
        names = [] if self.subject is None else self.subject.labels
        if names:
            return [str(names[targets.label_index(label, names, "labels")]) for label in labels]
        for label in labels:
            if not isinstance(label, str):
                message = f"Without an explainer, labels must be names of classes, not {label!r:.40}."
                raise InputError(message, argument="labels", value=label)
        return labels

    def _classes(self, columns: Columns) -> list[str]:
        """The classes to filter by, in the order of the model's labels: all that it knows, else those predicted."""
        if self.subject is not None and self.subject.task == "sequence":
            return list(self.subject.labels)
        return sorted(set(columns.values("prediction")))

    def _start(self, number: int) -> str:
        """The first characters of a text."""
        text = self._texts[number]
        return (text if isinstance(text, str) else " | ".join(text))[:LONGEST]


def _verdict(entry: Entry) -> str:
    """The prediction and its probability, if it has one."""
    prediction = html.label(entry.prediction)
    return prediction if entry.confidence is None else f"{prediction} {percent(entry.confidence)}"


def _heading(entry: Entry) -> str:
    """A text's number, prediction, confidence and label in one line."""
    label = f", \N{BALLOT X} labelled {entry.label}" if entry.misclassified else ""
    return f"{entry.number}  {_verdict(entry)}{label}"


def _row_html(entry: Entry, opened: bool) -> str:
    wrong = f'<div style="{html.SMALL}">\N{BALLOT X} labelled {html.escape(entry.label or "")}</div>'
    verdict = html.escape(_verdict(entry))
    text = f'<div style="min-width:14em;line-height:1.75">{excerpt_html(entry.pieces)}</div>'
    top = html.escape(html.label(entry.top))
    if entry.against:
        top += f'<div style="{html.SMALL}">against</div>'
    return _cells_html(str(entry.number), text, f"{verdict}{wrong if entry.misclassified else ''}", top, opened)


def _cells_html(number: str, text: str, verdict: str, top: str, opened: bool = False) -> str:
    narrow = [f'<td style="{CELL};white-space:nowrap">{cell}</td>' for cell in (number, verdict, top)]
    background = ' style="background-color:rgba(128,128,128,.16)"' if opened else ""
    return f'<tr{background}>{narrow[0]}<td style="{CELL};width:100%">{text}</td>{narrow[1]}{narrow[2]}</tr>'
