"""Views of many texts: a table of labels by predictions, a table of the texts, and one that is opened and checked."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliencies, Saliency
from nbsal.explain.sentences.statement import NOT_CHECKED, Statement
from nbsal.explain.text_sheet import marked_text, word_bars
from nbsal.methods.lazy import targets
from nbsal.render.headline import Phrase, phrases, plain
from nbsal.render.sheet import Block, Heading
from nbsal.support.errors import Cancelled, InputError, NbsalError
from nbsal.support.progress import Meter
from nbsal.support.validation import Text, check_one_per_text, check_texts, checked, plural, text_list
from nbsal.widgets.base import STEPS, View
from nbsal.widgets.content import table_rows
from nbsal.widgets.content.confusion import Confusion
from nbsal.widgets.content.table_columns import Columns
from nbsal.widgets.content.text_steps import corpus_steps, remember
from nbsal.widgets.content.text_table import COLUMNS, Filters, Listing, TablePage
from nbsal.widgets.explainer_view import Shading
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.next_view import Step

CHUNK = 64  # texts that are explained before the view shows the results so far
LONGEST = 160  # characters of a text that is not explained yet
FILTERS = ("sort", "descending", "label", "wrong", "token", "cell")


@checked
class CorpusView(Shading, View):
    """A view of a sequence of Saliency, or of an explainer and texts; `explain(texts)` shows other texts.

    `labels` are the true labels of the texts. `sort` and `descending` order the table; `label` keeps one predicted
    class, `token` the texts with that word or part of a word, `wrong` the texts whose prediction differs from their
    label, and `cell` those of one [label, prediction]. `opened` is the number of the text that is shown in full, whose
    words are then hidden to check them; where the filters leave it out, the first text that is listed is opened.
    `selection` holds its tokens. A request that is replaced or cancelled leaves its explanations to the next one.
    """

    inputs: ClassVar[tuple[str, ...]] = (*FILTERS, "page", "opened")
    accepts: ClassVar[tuple[type, ...]] = (Sequence,)
    explaining: ClassVar[float] = 1.0  # the share of the work that explaining the texts is

    sort = traitlets.Enum(COLUMNS, "number").tag(sync=True, page=True)
    descending = traitlets.Bool(False).tag(sync=True, page=True)
    label = traitlets.Unicode(None, allow_none=True).tag(sync=True, page=True)
    wrong = traitlets.Bool(False).tag(sync=True, page=True)
    token = traitlets.Unicode("").tag(sync=True, page=True)
    cell = traitlets.List(traitlets.Unicode(), None, allow_none=True).tag(sync=True, page=True)
    page = traitlets.Int(0, min=0).tag(sync=True, page=True)
    opened = traitlets.Int(None, allow_none=True, min=0).tag(sync=True, page=True)
    _headline = traitlets.List(traitlets.Any()).tag(sync=True)
    _confusion = traitlets.Dict().tag(sync=True)
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
        self._texts = [] if texts is None else check_texts(list(text_list(texts)))
        self._labels = None if labels is None else list(labels)
        self._columns = Columns()
        self._saliencies: Sequence[Saliency] = []
        self._checked: dict[int, Saliency] = {}  # what was opened, by number
        self._failed: dict[int, str] = {}  # why the words of a text could not be hidden
        super().__init__(source, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        if not self._texts:
            message = f"{type(self).__name__} needs at least one text. Pass texts=[...]."
            raise InputError(message, argument="texts", value=None)
        self._label_texts(self._labels, len(self._texts))
        remember(explainer.subject, self._texts, self._labels)
        return {}

    def from_result(self, result: Any) -> dict[str, Any]:
        if self._texts or isinstance(result, str) or not result or not isinstance(result[0], Saliency):
            message = f"{type(self).__name__} shows an Explainer with texts, or a sequence of at least one Saliency."
            raise InputError(message, argument="source", value=result)
        self._saliencies = result
        self._label_texts(self._labels, len(result))
        return {}

    @property
    def saliencies(self) -> Sequence[Saliency]:
        """The explanations that are ready."""
        return self._saliencies

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Explain and show other texts, with their labels if there are any."""
        if self.explainer is None or self.plain_result is not None:
            message = f"This {type(self).__name__} shows finished results. Pass an Explainer to show other texts."
            raise InputError(message, argument="texts", value=texts)
        texts = check_texts(list(text_list(texts)))
        self._label_texts(None if labels is None else list(labels), len(texts))
        self._texts, self._saliencies, self._checked, self._failed = texts, [], {}, {}
        self.set_trait("cell", None)
        self.opened = None if self.opened is None else 0
        self.request()

    @traitlets.validate("cell")
    def _valid_cell(self, proposal: Any) -> Any:
        cell = proposal["value"]
        if cell is not None and len(cell) != 2:
            raise InputError(f"cell must be [label, prediction], not {cell!r:.60}.", argument="cell", value=cell)
        return cell

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
        meter = self.meter(job, STEPS)
        self.explain_all(inputs, job, meter)
        self.measure(inputs, job, meter.part(STEPS - meter.done, STEPS))
        return self.with_check(self.summarize(self._saliencies, inputs, job), inputs, job)

    def explain_all(self, inputs: dict[str, Any], job: jobs.Job, meter: Meter) -> None:
        """Explain every text in chunks; after each chunk, show the results so far."""
        texts = self._texts
        if self.plain_result is not None or len(self._saliencies) == len(texts):
            return  # without progress: nothing is explained
        saliencies = list(self._saliencies)
        part = meter.part(self.explaining * STEPS, len(texts))
        part.step(len(saliencies))
        while len(saliencies) < len(texts):
            part.check()
            chunk = texts[len(saliencies) : len(saliencies) + CHUNK]
            saliencies += self.explainer.map(chunk, progress=False, cancel=job.cancel)
            part.step(len(chunk))
            if texts is self._texts:
                self._saliencies = Saliencies(saliencies)
            if len(saliencies) < len(texts) or self.explaining < 1:
                self.show_partial(job, self.summarize(self._saliencies, inputs, job))

    def steps(self) -> dict[str, Step]:
        if not isinstance(self.explainer, Explainer) or not self._texts:
            return {}
        opened = self.result.table.opened
        steps = corpus_steps(self.explainer, self._texts, self._labels, opened and opened.text)
        steps.pop(type(self).__name__.lower(), None)
        return steps

    def measure(self, inputs: dict[str, Any], job: jobs.Job, meter: Meter) -> None:
        """Measure what the view shows beside the texts, once all are explained."""

    def with_check(self, result: Any, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """The result in which the words of the opened text were hidden, to check them."""
        number = result.table.opened_number
        if self.explainer is None or number is None or number in self._checked:
            return result
        self.show_partial(job, result)
        saliency = result.table.opened
        try:
            saliency = self.explainer.check(saliency, cancel=job.cancel)
        except Cancelled:
            raise
        except NbsalError as error:
            self._failed[number] = str(error)
        self._checked[number] = saliency
        return self.summarize(self._saliencies, inputs, job)

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> Any:
        """The result that the view shows of these explanations; its `table` is that of `table_of`."""
        raise NotImplementedError(f"{type(self).__name__}: implement summarize(self, saliencies, inputs, job).")

    def table_of(
        self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job, listing: Listing | None = None
    ) -> TablePage:
        """The page of the table that is shown of these explanations, or of those that are chosen."""
        columns = self._columns
        columns.update(saliencies, self.meter(job, STEPS).check)
        total = max(len(self._texts), len(saliencies))
        opened, last = inputs["opened"], total - 1
        if opened is not None and opened > last:
            texts = f"texts are numbered 0 to {last}" if last else "there is only text 0"
            raise InputError(f"opened={opened}, but {texts}.", argument="opened", value=opened)
        filters = Filters(**{name: inputs[name] for name in FILTERS}, listing=listing)
        page = filters.page(columns, saliencies, total, inputs["page"], opened, self.classes())
        number = page.opened_number
        return page if number not in self._checked else replace(page, opened=self._checked[number])

    def headline(self, result: Any) -> list[Phrase]:
        """The first sentence."""
        return phrases(result.caption())

    def confusion(self, result: Any) -> Confusion | None:
        """How many texts have each label and prediction, if there are labels."""
        columns: Columns = result.table.columns
        if not columns.is_labelled or not len(columns):
            return None
        labels, predictions = columns.values("label").tolist(), columns.values("prediction").tolist()
        return Confusion.of(labels, predictions, self.classes(), self.changed(result))

    def changed(self, result: Any) -> dict[int, str]:
        """The predictions without words that are hidden in every text, where they change."""
        return {}

    def publish(self, result: Any) -> dict[str, Any]:
        page: TablePage = result.table
        table = table_rows.traits(page, self.start_of)
        confusion = self.confusion(result)
        shown = {"_headline": self.headline(result), "_confusion": confusion.traits() if confusion else {}}
        number = page.opened_number
        if page.opened is None or number is None:
            return shown | {"_table": table, "_tokens": {}, "_scores": b"", "_result": {"notes": self.notes(result)}}
        decision = wire.decision(page.opened, self.subject)
        statement = self.statement_of(number, page.opened)
        return shown | {
            "opened": number,
            "_table": table | {"opened": {"number": number, "statement": statement.to_json()}},
            "_tokens": wire.tokens(page.opened.row),
            "_scores": wire.scores([page.opened.scores]),
            "_result": decision | {"notes": self.notes(result)},
        }

    def table_blocks(self, page: TablePage) -> list[Block]:
        """What is said of the texts, their table, and below it the opened text, if there is one."""
        listing, blocks = page.filters.listing, table_rows.table_blocks(page, self.start_of)
        if listing and listing.heading:
            blocks.insert(0, Heading(listing.heading, plain(listing.sentence)))
        if page.opened is None or page.opened_number is None:
            return blocks
        statement, spans = self.statement_of(page.opened_number, page.opened), page.opened.scored_spans(self.level)
        text = marked_text(page.opened, spans, statement, level=self.level)
        return [*blocks, Heading(phrases(f"Text {page.opened_number}")), *text, *word_bars(page.opened, self.level)]

    def confusion_blocks(self, result: Any) -> list[Block]:
        confusion = self.confusion(result)
        return confusion.blocks() if confusion else []

    def notes(self, result: Any) -> list[str]:
        """The model and the method, how many texts they explained, and what must be known of the opened one."""
        page: TablePage = result.table
        model = self._saliencies[0].notes()[:1] if self._saliencies else []
        total, explained = page.total, page.explained
        count = f"{explained} of {total} explained" if explained < total else plural(total, "text")
        return [*model, *[count] * (total > 0), *(page.opened.notes()[1:] if page.opened else [])]

    def statement_of(self, number: int, saliency: Saliency) -> Statement:
        """What is said of an opened text: its label too, and why it is not checked."""
        label, statement = self._columns.label(number), saliency.statement()
        reason = f"{NOT_CHECKED}: no model" if self.explainer is None else "checking\N{HORIZONTAL ELLIPSIS}"
        if number in self._failed:
            statement = replace(statement, evidence_line=f"{NOT_CHECKED}: {self._failed[number]}")
            reason = NOT_CHECKED
        words = [(kind, text.replace(NOT_CHECKED, reason)) for kind, text in statement.sentence]
        return replace(statement, sentence=phrases(words, "" if label is None else f" Labelled {label}."))

    def classes(self) -> list[str]:
        """The classes to filter by, in the order of the model's labels: all that it knows, else those predicted."""
        if self.subject is not None and self.subject.task == "sequence":
            return list(self.subject.labels)
        return sorted(set(self._columns.values("prediction")))

    def start_of(self, number: int) -> str:
        """The first characters of a text."""
        text = self._texts[number]
        return (text if isinstance(text, str) else " | ".join(text))[:LONGEST]

    def _label_texts(self, labels: list[Any] | None, count: int) -> None:
        """Begin a table of so many texts with these labels."""
        self._labels = self._names(labels, count)
        self._columns = Columns(self._labels)

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
