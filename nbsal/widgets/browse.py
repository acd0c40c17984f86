"""Browse: a table of many explained texts, to be sorted and filtered; one of them is opened below."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.clouds import plain_token
from nbsal.errors import InputError, UnknownName
from nbsal.model.targets import index_of
from nbsal.render import html, png
from nbsal.saliency import Saliency
from nbsal.validation import Text
from nbsal.widgets import jobs, wire
from nbsal.widgets.corpus_view import CorpusView, excerpt, excerpt_html
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

PAGE = 12  # texts in sight
COLUMNS = ("number", "text", "prediction", "confidence", "label", "top")
HEADS = ("no.", "text", "prediction", "sure", "label", "top token")  # as the page calls them


@dataclass(frozen=True)
class Entry:
    """What the table knows of a text without explaining or reading it again."""

    number: int
    text: str
    prediction: str
    confidence: float
    label: str | None
    top: str
    words: frozenset[str]

    @property
    def wrong(self) -> bool:
        """Whether the model decided otherwise than people did."""
        return self.label is not None and self.label != self.prediction


@dataclass(frozen=True, eq=False)
class Listing:
    """The texts that pass, in order; those of one page in full, and the one that is opened."""

    entries: Sequence[Entry]
    known: int
    page: int
    rows: Sequence[tuple[Entry, Saliency]]
    opened: Saliency | None
    labels: Sequence[str]

    def caption(self) -> str:
        """How many texts pass."""
        return f"{len(self.entries)} of {self.known} texts"

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each text that passes."""
        import pandas

        rows = [tuple(getattr(entry, name) for name in COLUMNS) for entry in self.entries]
        return pandas.DataFrame(rows, columns=list(COLUMNS))

    def notes(self) -> list[str]:
        """How often the model is right, where that is known."""
        judged = [entry for entry in self.entries if entry.label is not None]
        wrong = sum(entry.wrong for entry in judged)
        right = [f"{wrong} of {len(judged)} are decided wrongly ({wrong / len(judged):.1%})."] if judged else []
        return [f"{self.caption()}.", *right]


class Browse(CorpusView):
    """A table of saliencies, of an opened corpus, or of texts that an explainer explains as the table fills.

    `sort` and `descending` order it; `label` keeps one predicted class, `token` texts that have that token or word, and
    `wrong` those that are decided otherwise than `labels` say. `opened` is the number of the text that is shown in
    full; `selection` is of its tokens.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Browse(explain.map(["A joy.", "A bore."], progress=False), token="bore")
    >>> view.wait().to_frame()["prediction"].tolist()
    ['negative']
    """

    inputs = ("sort", "descending", "label", "wrong", "token", "page", "opened")
    _esm = asset("browse.js")
    _css = asset("browse.css")

    sort = traitlets.Enum(COLUMNS, "number").tag(sync=True)
    descending = traitlets.Bool(False).tag(sync=True)
    label = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    wrong = traitlets.Bool(False).tag(sync=True)
    token = traitlets.Unicode("").tag(sync=True)
    page = traitlets.Int(0, min=0).tag(sync=True)
    opened = traitlets.Int(None, allow_none=True, min=0).tag(sync=True)
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
        self._gold = None if labels is None else list(labels)
        self._entries: list[Entry] = []
        super().__init__(source, texts, **settings)

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Explain and show other texts, with their labels if there are any."""
        self._gold, self._entries = None if labels is None else list(labels), []
        self.opened = None
        super().explain(texts)

    def selected(self) -> "pandas.DataFrame":
        found = self.result.opened
        return self.to_frame().iloc[:0] if found is None else self._chosen(found.to_frame())

    @traitlets.observe("opened")
    def _forget(self, change: Any) -> None:
        self.selection, self.hover = [], None

    @traitlets.observe("sort", "descending", "label", "wrong", "token")
    def _turn_back(self, change: Any) -> None:
        if self.result is not None:
            self.page = 0

    def seen(self, found: Sequence[Saliency], wanted: dict[str, Any], job: jobs.Job) -> Listing:
        entries = self._indexed(found, job)
        opened = wanted["opened"]
        if opened is not None and opened >= len(found):
            raise UnknownName("text", opened, [f"0 to {len(found) - 1}"])
        passing = sorted(filter(_filter(wanted), entries), key=_key(wanted["sort"]), reverse=wanted["descending"])
        page = min(wanted["page"], max(0, len(passing) - 1) // PAGE)
        rows = [(entry, found[entry.number]) for entry in passing[page * PAGE : (page + 1) * PAGE]]
        labels = sorted({entry.prediction for entry in entries})
        return Listing(passing, len(entries), page, rows, None if opened is None else found[opened], labels)

    def publish(self, found: Listing) -> None:
        judged = self._gold is not None
        rows = [
            {name: getattr(entry, name) for name in ("number", "prediction", "confidence", "label", "wrong", "top")}
            | {"pieces": _shortened(saliency)}
            for entry, saliency in found.rows
        ]
        pages = max(0, len(found.entries) - 1) // PAGE + 1
        self._table = {"rows": rows, "labels": list(found.labels), "judged": judged, "page": found.page, "pages": pages}
        self._table |= {"count": found.caption()}
        self._result = {"notes": found.notes()}
        if found.opened is None:
            self._tokens, self._scores = {}, b""
        else:
            self._scores, scales = wire.scores([found.opened.scores])
            self._tokens = wire.tokens(found.opened.row)
            decided = wire.decision(found.opened, self.subject)
            self._result = decided | {"scales": scales, "notes": [*found.notes(), *decided["notes"]]}

    def html(self) -> str:
        found: Listing = self.result
        head = "".join(f'<th style="text-align:left;padding:2px 8px">{name}</th>' for name in HEADS)
        body = "".join(f"<tr>{_row_html(entry, saliency)}</tr>" for entry, saliency in found.rows)
        opened = "" if found.opened is None else found.opened.to_html()
        table = f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>'
        table = f'<div style="overflow-x:auto">{table}</div>'
        return html.block_html(found.caption(), table + opened, found.notes())

    def picture(self) -> bytes:
        found: Listing = self.result
        sheet = png.Picture()
        sheet.write(found.caption(), bold=True)
        sheet.feed()
        for entry, saliency in found.rows:
            sheet.write(f"{entry.number}  {entry.prediction} {entry.confidence:.1%}{_judged(entry)}", size=9, bold=True)
            sheet.feed()
            sheet.line((html.ScoredSpan(text, share) for text, share, _ in _shortened(saliency)), 1.0)
        sheet.notes(found.notes())
        return sheet.png()

    def _indexed(self, found: Sequence[Saliency], job: jobs.Job) -> list[Entry]:
        """An entry for each text; those that are there already are kept."""
        entries = self._entries
        if self._gold is not None and len(self._gold) != max(len(self._texts), len(found)):
            raise InputError(f"There are {len(self._gold)} labels for {max(len(self._texts), len(found))} texts.")
        for saliency in islice(found, len(entries), None):
            if job.cancel.is_set():
                break
            entries.append(self._entry(len(entries), saliency))
        return entries

    def _entry(self, number: int, saliency: Saliency) -> Entry:
        row, sure = saliency.row, saliency.probabilities
        tokens = {plain_token(saliency.tokens[i]) for i in row.content} | {
            saliency.tokens[i].lower() for i in row.content
        }
        return Entry(
            number=number,
            text=" | ".join(row.parts),
            prediction=saliency.prediction,
            confidence=round(float(sure.max()), 4) if sure.ndim == 1 and sure.size else 1.0,
            label=self._label(number),
            top=saliency.tokens[saliency.order[0]],
            words=frozenset(tokens | {word.text.lower() for word in saliency.words}),
        )

    def _label(self, number: int) -> str | None:
        if self._gold is None:
            return None
        given = self._gold[number]
        if isinstance(given, str):
            return given
        if self.subject is None:
            raise InputError(f"Without an explainer labels are names of classes, not {given!r:.40}.")
        return str(self.subject.labels[index_of(given, self.subject.labels, "label")])


def _filter(wanted: dict[str, Any]) -> Callable[[Entry], bool]:
    sought = wanted["token"].strip().lower()
    return lambda entry: (
        (wanted["label"] is None or entry.prediction == wanted["label"])
        and (not wanted["wrong"] or entry.wrong)
        and (not sought or sought in entry.words)
    )


def _key(column: str) -> Callable[[Entry], Any]:
    return lambda entry: (getattr(entry, column) is None, getattr(entry, column))


def _shortened(saliency: Saliency) -> list[list[Any]]:
    """The text around its most important token."""
    return excerpt(saliency, saliency.order[:1])


def _judged(entry: Entry) -> str:
    return "" if entry.label is None else f", {'wrong' if entry.wrong else 'right'}: {entry.label}"


def _row_html(entry: Entry, saliency: Saliency) -> str:
    shown = f'<div style="min-width:14em">{excerpt_html(_shortened(saliency))}</div>'
    label = f"{entry.label} \N{BALLOT X}" if entry.wrong else entry.label or ""
    plain_cells = [entry.prediction, f"{entry.confidence:.1%}", label, entry.top]
    cells = [str(entry.number), shown, *map(html.escape, plain_cells)]
    return "".join(f'<td style="padding:2px 8px;vertical-align:top">{cell}</td>' for cell in cells)
