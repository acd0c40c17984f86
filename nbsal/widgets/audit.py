"""The Audit view: what a classifier relies on over many texts, and the texts, slices and mistakes behind each word."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import traitlets

from nbsal.evaluation.audit import tables
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.render.headline import Phrase, phrases
from nbsal.render.sheet import Block, Sentence, Sheet
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter
from nbsal.support.validation import Text, checked, plural
from nbsal.widgets.content import audit_parts as parts
from nbsal.widgets.content.audit_blocks import slices_blocks, words_blocks
from nbsal.widgets.content.audit_parts import ShownAudit
from nbsal.widgets.corpus_view import CorpusView
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset

LEAST = 5


@traitlets.signature_has_traits
@checked
class Audit(CorpusView):
    """The words that a classifier relies on: a finished Audit, or an Explainer with texts and, if any, labels.

    `picked` are the words whose texts are listed, with what hiding all of them does; with `everywhere`, they are hidden
    in every text, and the table of labels by predictions counts what is left. `part` is the slice whose texts are
    listed. `groups`, `other` and `least` are those of `nbsal.audit`; the other traits those of `CorpusView`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "occlusion")
    >>> view = Audit(explain, ["A dull film.", "A dull joy.", "A joy."], [1, 0, 1], least=1, picked=["dull"]).wait()
    >>> view.selected()["number"].tolist()
    [0, 1]
    """

    inputs = (*CorpusView.inputs, "picked", "everywhere", "part", "least")
    accepts = (FinishedAudit,)
    explaining = 0.4
    _esm = asset("audit.js")
    _css = asset("audit.css")

    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True, page=True)
    everywhere = traitlets.Bool(False).tag(sync=True, page=True)
    part = traitlets.Unicode(None, allow_none=True).tag(sync=True, page=True)
    least = traitlets.Int(LEAST, min=1).tag(sync=True, page=True)
    _words = traitlets.Dict().tag(sync=True)
    _slices = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        texts: Iterable[Text] | None = None,
        labels: Iterable[Any] | None = None,
        *,
        groups: Mapping[str, Iterable[Any]] | None = None,
        other: Explainer | None = None,
        **settings: Any,
    ) -> None:
        given = {"texts": texts, "labels": labels, "groups": groups, "other": other, "least": settings.get("least")}
        if isinstance(source, FinishedAudit) and any(value is not None for value in given.values()):
            message = "A finished Audit has its texts and labels. Pass it alone, or an Explainer with texts."
            raise InputError(message, argument="source", value=source)
        self._groups, self._other = groups or {}, other
        self._cache: Any = None
        self._audit: FinishedAudit | None = None
        self._least: int | None = None  # of the audit, once it is complete
        super().__init__(source, texts, labels=labels, **settings)
        self.observe(self._on_selection, names="picked")

    def from_result(self, result: FinishedAudit) -> dict[str, Any]:
        self._audit, self._texts = result, list(result.texts)
        self.subject = getattr(result.model, "subject", None)  # whose worker hides words together
        self.explainer = getattr(result.model, "explainer", None)
        labels = None if result.labels is None else [result.classes[label] for label in result.labels]
        self._label_texts(labels, len(result.texts))
        return {}

    @property
    def audit(self) -> FinishedAudit | None:
        """The audit on display, or None before the first one."""
        return None if self.result is None else self.result.audit

    def selected(self) -> "pandas.DataFrame":
        """The texts that have a picked word, with the decision with and without it, mistakes first."""
        return self.result.audit.without(self.picked or [])  # type: ignore[no-any-return]

    def explain_all(self, inputs: dict[str, Any], job: jobs.Job, meter: Meter) -> None:
        """Explain the texts; those of a finished audit were explained before."""
        if self.plain_result is None:
            super().explain_all(inputs, job, meter)
        elif not self._saliencies:
            model = self.plain_result.model
            self._saliencies = parts.saliencies_of(self.plain_result) if model is None else model.saliencies()

    def measure(self, inputs: dict[str, Any], job: jobs.Job, meter: Meter) -> None:
        """Hide the words, a few at first; a cancelled audit resumes where it was."""
        if self.plain_result is not None or self._least == inputs["least"]:
            return
        from nbsal.evaluation.audit.measure import AuditSettings, stages  # imports torch
        from nbsal.evaluation.cache import Cache

        self._least, self._cache = None, self._cache or Cache()
        self._cache.keep(self.explainer, self._saliencies)
        settings = AuditSettings(self._groups, self._other, inputs["least"], grows=True)
        for audit in stages(self.explainer, self._texts, self._labels, settings, self._cache, meter):
            self._audit = audit
            self.show_partial(job, self.summarize(self._saliencies, inputs, job))
        self._least = inputs["least"]

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Audit and show other texts, with their labels if there are any."""
        self._audit, self._least = None, None
        self.set_trait("picked", None)
        self.part = None
        super().explain(texts, labels)

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> ShownAudit:
        audit, is_complete = self._audit, self._least is not None or self.plain_result is not None
        if audit is None:
            return ShownAudit(None, False, (), [], False, self.table_of(saliencies, inputs, job))
        picked, part = self._picked(audit, inputs["picked"], is_complete), inputs["part"]
        names = [f"{row.slice}: {row.value}" for row in audit.slices.itertuples()]
        if part is not None and part not in names:
            raise UnknownName("part", part, names)
        can_hide = len(picked) > 1 and all(each.model is not None for each in parts.models(audit))
        hidden = [parts.hide_together(audit, picked)] if can_hide else [parts.hidden_word(audit, w) for w in picked]
        everywhere = inputs["everywhere"] and len(hidden) == 1
        listing = parts.listing_of(audit, hidden, part, everywhere)
        table = self.table_of(saliencies, inputs, job, listing)
        return ShownAudit(audit, is_complete, tuple(picked), hidden, everywhere, table)

    def headline(self, result: ShownAudit) -> list[Phrase]:
        if result.audit is None:
            return phrases(result.caption())
        if not result.is_complete:
            return phrases(f"{result.table.caption()} {plural(len(result.audit.words), 'word')} tried so far.")
        return parts.headline(result.audit)

    def changed(self, result: ShownAudit) -> dict[int, str]:
        if result.audit is None or not result.everywhere:
            return {}
        return {text: result.audit.classes[after] for text, after in result.hidden[0].changed(result.audit).items()}

    def publish(self, result: ShownAudit) -> dict[str, Any]:
        shown = super().publish(result)
        if result.audit is None:
            return shown
        words = parts.words_trait(result.audit, result.is_complete, len(result.picked))
        return shown | {
            "picked": list(result.picked) if result.is_complete else self.picked,
            "_words": words | {"tries": self.plain_result is None},
            "_slices": parts.slices_trait(result.audit),
        }

    def notes(self, result: ShownAudit) -> list[str]:
        if result.audit is None:
            return super().notes(result)
        return [note for note in result.audit.notes if note != tables.adjustment(result.audit)]

    def sheet(self) -> Sheet:
        result: ShownAudit = self.result
        audit = result.audit
        blocks: list[Block] = [Sentence(self.headline(result)), *self.confusion_blocks(result)]
        if audit is not None:
            words = parts.words_trait(audit, result.is_complete, len(result.picked))
            blocks += [*words_blocks(words, result.picked), *slices_blocks(parts.slices_trait(audit))]
        return Sheet(result.caption(), [*blocks, *self.table_blocks(result.table)], self.notes(result))

    def _picked(self, audit: FinishedAudit, picked: list[str] | None, is_complete: bool) -> list[str]:
        """The picked words, or the one that the sentence names; while words are hidden, those that were."""
        if picked is None:
            return parts.first_picked(audit) if is_complete else []
        known = list(dict.fromkeys(audit.words.word))
        for word in picked:
            if word not in known and is_complete:
                raise UnknownName("picked", word, known)
        return [word for word in dict.fromkeys(picked) if word in known]
