"""The Clouds view: the words of each predicted class, those of which were hidden, and the texts that have a word."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import traitlets

from nbsal.corpus.dataset import Corpus
from nbsal.evaluation.audit.result import Audit
from nbsal.evaluation.clouds import Cloud, rank, weigh
from nbsal.explain.saliency import Saliency
from nbsal.render.headline import Phrase
from nbsal.render.sheet import Block, Note, Sentence, Sheet
from nbsal.support.errors import Cancelled, InputError, NbsalError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter
from nbsal.support.validation import Text, checked
from nbsal.widgets.content.word_clouds import (
    Statistics,
    WordClouds,
    arranged,
    cloud_blocks,
    cloud_traits,
    count_words,
    listing_of,
    texts_with,
)
from nbsal.widgets.corpus_view import CorpusView
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

MAX_WORDS = 200


@traitlets.signature_has_traits
@checked
class Clouds(CorpusView):
    """Word clouds of many texts by predicted class; words that several classes share are underlined.

    An explainer's model is asked what hiding each word does; a word that was not hidden is in plain type. `k` is the
    number of words of a cloud. `picked` is the [class, word] whose texts are listed; `texts_with` finds all of them. A
    finished Cloud is shown without texts. `form` "list" shows the words as lists. `idf` weighs words by their rarity,
    as in nbsal.clouds.rank. The other traits are those of `CorpusView`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Clouds(explain, ["A warm film.", "A dull bore."], picked=["positive", "warm"])
    >>> view.wait().texts_with("positive", "warm")
    [0]
    """

    inputs = (*CorpusView.inputs, "k", "unit", "picked")
    accepts = (Sequence, Cloud)
    explaining = 0.5
    _esm = asset("clouds.js")
    _css = asset("clouds.css")

    k = traitlets.Int(30, min=1, max=MAX_WORDS).tag(sync=True, page=True)
    unit = traitlets.Enum(("token", "word"), "word").tag(sync=True, page=True)
    form = traitlets.Enum(("cloud", "list"), "cloud").tag(sync=True, page=True)
    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True, page=True)
    _plain = traitlets.Bool(False).tag(sync=True)
    _clouds = traitlets.List(traitlets.Dict()).tag(sync=True)
    _summary = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        texts: Iterable[Text] | None = None,
        *,
        idf: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        self.idf = idf
        self._cloud = LastValue()
        self._audit: Audit | None = None  # of words that were hidden
        self._hidden: list[str] | None = None  # the words of the audit, once it is complete
        self._cache: Any = None
        self._untested = "not tested yet" if not isinstance(source, self.accepts) else "not tested: no model"
        super().__init__(source, texts, **settings)
        self.observe(self._on_selection, names="picked")

    def from_result(self, result: Any) -> dict[str, Any]:
        return {"_plain": True, "unit": result.unit} if isinstance(result, Cloud) else super().from_result(result)

    @property
    def cloud(self) -> Cloud | None:
        """The Cloud on display."""
        return self.result and self.result.cloud  # type: ignore[no-any-return]

    @traitlets.validate("picked")
    def _valid_picked(self, proposal: Any) -> Any:
        picked = proposal["value"]
        if picked is not None and len(picked) != 2:
            raise InputError(f"picked must be [class, word], not {picked!r:.60}.", argument="picked", value=picked)
        return picked

    @traitlets.validate("unit")
    def _valid_unit(self, proposal: Any) -> Any:
        if isinstance(self.plain_result, Cloud) and proposal["value"] != self.plain_result.unit:
            raise UnknownName("unit", proposal["value"], [self.plain_result.unit])
        return proposal["value"]

    def texts_with(self, label: str, word: str) -> list[int]:
        """The numbers of the texts of a class in which a word scores for it, highest score first."""
        return [number for number, *_ in texts_with(self._saliencies, self.unit, label, word)]

    def selected(self) -> "pandas.DataFrame":
        """The texts of the picked word, one row each."""
        texts = texts_with(self._saliencies, self.unit, *self.picked) if self.picked else []
        rows = [(n, s.text, s.prediction, float(sum(s.scores[i] for i in positions))) for n, s, positions in texts]
        return pandas.DataFrame(rows, columns=["number", "text", "prediction", "score"])

    def measure(self, inputs: dict[str, Any], job: jobs.Job, meter: Meter) -> None:
        """Hide the words of the clouds in every text that has them, a few at first."""
        if self.plain_result is not None or inputs["unit"] == "token":
            self._untested = "not tested: no model" if self.plain_result is not None else "tokens are not tested"
            return
        from nbsal.evaluation.audit.measure import AuditSettings, stages  # imports torch
        from nbsal.evaluation.cache import Cache

        words = self.summarize(self._saliencies, inputs, job).to_test()
        if self._hidden == words:
            return
        self._cache = self._cache or Cache()
        self._cache.keep(self.explainer, self._saliencies)
        settings = AuditSettings(words=words, grows=True)
        try:
            for audit in stages(self.explainer, self._texts, None, settings, self._cache, meter):
                self._audit = audit
                self.show_partial(job, self.summarize(self._saliencies, inputs, job))
        except Cancelled:
            raise
        except NbsalError as error:
            self._untested = f"not tested: {error}"
        self._hidden = words

    def explain(self, texts: Iterable[Text], labels: Iterable[Any] | None = None) -> None:
        """Explain and show other texts, with their labels if there are any."""
        self._audit, self._hidden = None, None
        self.set_trait("picked", None)
        super().explain(texts, labels)

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> WordClouds:
        unit, total = inputs["unit"], max(len(self._texts), len(saliencies))
        cloud, statistics = self._cloud.get((saliencies, unit), lambda: self._ranked(saliencies, unit))
        audit = self._audit if unit == "word" else None
        table = self.table_of(saliencies, inputs, job)
        classes = [] if self.subject is None else self.classes()
        counts = len(saliencies), total
        clouds = WordClouds(cloud, inputs["k"], table, *counts, classes, statistics, audit, self._untested)
        if not inputs["picked"] or not saliencies:
            return clouds
        table = self.table_of(saliencies, inputs, job, listing_of(saliencies, unit, inputs["picked"], clouds))
        return replace(clouds, table=table)

    def headline(self, result: WordClouds) -> list[Phrase]:
        return result.sentence()

    def publish(self, result: WordClouds) -> dict[str, Any]:
        summary = {
            "overlap": result.overlap(),
            "hint": result.hint(),
            "choose": result.to_choose(),
            "explained": result.text_count,
            "total": result.total,
        }
        clouds = [cloud_traits(result, label) for label in result.labels]
        return super().publish(result) | {"_clouds": clouds, "_summary": summary}

    def sheet(self) -> Sheet:
        result: WordClouds = self.result
        blocks: list[Block] = [Sentence(result.sentence()), *self.confusion_blocks(result)]
        blocks += [block for label in result.labels for block in cloud_blocks(result, label, self.form)]
        blocks += [Note(result.hint()), Note(result.overlap())]
        blocks += self.table_blocks(result.table) if result.table.total else []
        return Sheet(result.caption(), blocks, self.notes(result))

    def _ranked(self, saliencies: Sequence[Saliency], unit: str) -> tuple[Cloud, Statistics]:
        """The cloud with its classes in the model's order, and what it takes from the texts."""
        plain = self.plain_result if isinstance(self.plain_result, Cloud) else None
        classes = [] if self.subject is None else self.classes()
        if isinstance(saliencies, Corpus):
            units = saliencies.units(unit)
            cloud = arranged(weigh(units.groups(normalise=True), self.idf, unit), classes)
            return cloud, count_words(units, cloud.labels, unit)
        if not saliencies:
            return plain or Cloud({}, unit), ({}, {})
        cloud = arranged(rank(saliencies, self.idf, unit=unit), classes)
        return cloud, count_words(saliencies, cloud.labels, unit)
