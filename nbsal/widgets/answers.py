"""The Answers view: a reply beside its sources, each shaded by the other, with rivals, strikes, matrix and curve."""

import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import traitlets

from nbsal.explain.answer import Answer
from nbsal.explain.answer_page import AnswerPicture
from nbsal.explain.judgement import Judgement
from nbsal.explain.lazy import Explainer
from nbsal.explain.prompt.sources import Source, has_tool_results
from nbsal.explain.scoring.hops import check_hops
from nbsal.explain.scoring.lazy import Ablation, ReplyExperiment, reply_experiment
from nbsal.explain.sentences.evidence import Evidence, measure, subsets
from nbsal.explain.sentences.reply_facts import part_text
from nbsal.methods.lazy import Subject, default
from nbsal.render.sheet import Sheet
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError, ModelError
from nbsal.support.lazy import pandas
from nbsal.widgets.base import NO_SOURCE, View
from nbsal.widgets.content import answer_parts as parts
from nbsal.widgets.content.answer_curve import curve_trait
from nbsal.widgets.content.answer_parts import AnswerResult, Rewritten, SpanScores, Struck
from nbsal.widgets.content.asked import Asked, reply_choices
from nbsal.widgets.explainer_view import Shading, with_settings
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.choices import MethodTraits
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

LEVELS = ("token", "word", "sentence", "document")
ORDERS = 10  # random orders beside the hiding curve
SUBSETS = 8
STREAM = 0.06  # seconds between two pieces of a reply that is being written
LOADED = "Loaded without its model \N{MIDDLE DOT} pass reply=... to nbsal.answer to change it"


class Answers(Shading, MethodTraits, View):
    """Why a model replied what it did: a finished Answer, or an Explainer or Subject and what is asked.

    `asked`, `reply`, `documents`, `template`, `tools`, `seed`, `unit`, `number` and settings of `generate` are those of
    `nbsal.answer`; without a reply the model writes one, word by word in the view. `selection` holds the numbers of
    tokens of the reply (none is all of it), `source_selection` positions in the prompt. `level` is the part that is
    shaded as one: "token", "word", "sentence" or "document". A `rival` explains the token number `at` rather than that
    one. `hops` follows scores through the reply (`Answer.through`), `certainty` fades unsure words.
    `struck` lists sources by number, or [source, sentence], that are taken out: the same reply is scored again.
    `panels` holds "curve" while the hiding curve is open.

    >>> import nbsal
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> view = Answers(nbsal.load("demo/notes"), question, documents=["Mara lives in Oslo."], method="gradxact").wait()
    >>> view.result.text, [source["label"] for source in view._sources]
    (' Mara lives in Oslo.', ['You', 'Document 1'])
    """

    inputs = ("method", "layer", "hops", "rival", "at", "struck", "panels", "_span", "_writes")
    accepts = (Answer,)
    _esm = asset("answers.js")
    _css = asset("answers.css")

    level = traitlets.Enum(LEVELS, "word").tag(sync=True, page=True)
    hops: Any = traitlets.Any(0).tag(sync=True, page=True)
    certainty = traitlets.Bool(False).tag(sync=True, page=True)
    source_selection = traitlets.List(traitlets.Int()).tag(sync=True, page=True)
    rival = traitlets.Unicode(None, allow_none=True).tag(sync=True, page=True)
    at = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    struck: Any = traitlets.List().tag(sync=True, page=True)
    panels = traitlets.List(traitlets.Enum(("curve",))).tag(sync=True, page=True)
    _tokens = traitlets.Dict().tag(sync=True)
    _scores = traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)
    _sources: Any = traitlets.List().tag(sync=True)
    _facts = traitlets.Dict().tag(sync=True)
    _own_scores = traitlets.Dict().tag(sync=True)  # of a span or a contrast that is a target of its own
    _chosen = traitlets.Dict().tag(sync=True)  # what is said of selected words, where `_facts` does not hold it
    _curve = traitlets.Dict().tag(sync=True)
    _draft = traitlets.Unicode().tag(sync=True)  # the reply, while the model writes it
    _rewritten = traitlets.Dict().tag(sync=True)
    _saved = traitlets.Unicode().tag(sync=True)
    _span = traitlets.List(traitlets.Int())  # the selected tokens, if the method explains them as one target
    _writes = traitlets.Int(0)  # how often a new reply was requested

    def __init__(
        self,
        source: Any = NO_SOURCE,
        asked: Any = None,
        reply: Any = None,
        *,
        documents: Any = (),
        template: str | None = None,
        tools: Any = None,
        seed: int | None = None,
        unit: Any = None,
        number: str | None = None,
        **settings: Any,
    ) -> None:
        traits = set(self.class_trait_names(sync=True))
        documents = documents.tolist() if hasattr(documents, "tolist") else documents
        arguments = {"documents": documents, "template": template, "tools": tools, "seed": seed, "unit": unit}
        arguments |= {"number": number} | {name: value for name, value in settings.items() if name not in traits}
        finished = isinstance(source, Answer)
        if finished != (asked is None):
            message = "Pass an Answer alone, or an Explainer or a Subject with what is asked."
            raise InputError(message, argument="asked", value=asked)
        if source is NO_SOURCE:
            message = "source is missing: pass an Explainer or a Subject, which reads what is asked."
            raise InputError(message, argument="source", value=None)
        if not isinstance(documents, Collection):
            message = f"documents must be a list of texts, not {documents!r:.60}."
            raise InputError(message, argument="documents", value=documents)
        self._asked = Asked.from_answer(source) if finished else Asked(asked, reply, arguments)
        self._first: Answer | None = source if finished else None
        self._version: Any = None  # of the model, when it explained the answer that is shown
        self._own_method = None if finished else settings.pop("method", None)
        if isinstance(source, Subject) and self._own_method is None:
            has_documents = len(documents) > 0 or has_tool_results(asked)
            self._own_method = default.default_for_reply(source, has_documents, unit, settings.get("hops", 0))
        self._answers, self._experiments, self._spans, self._followed = (LastValue() for _ in range(4))
        self._evidence, self._checked, self._struck = LastValue(), LastValue(), LastValue()
        self._curves, self._rewrites = LastValue(), LastValue()
        self._opens = "selection" not in settings
        super().__init__(source, **{name: value for name, value in settings.items() if name in traits})

    def as_explainer(self, source: Any) -> Explainer:
        if isinstance(source, Subject):
            return Explainer(source, self._own_method)
        explainer = super().as_explainer(source)
        return explainer if self._own_method is None else Explainer(explainer.subject, self._own_method)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        return parts.method_traits_of(explainer) | {"_choices": reply_choices(explainer, self._asked.settings["unit"])}

    def from_result(self, result: Answer) -> dict[str, Any]:
        if result.running is None:
            layer = result.provenance.get("parameters", {}).get("layer")
            loaded = {"method": result.method, "layer": layer if isinstance(layer, int) else None, "hops": result.hops}
            return loaded | {"_live": False, "_saved": LOADED}
        explainer: Any = result.running.explainer
        self.explainer, self.subject, self._version = explainer, explainer.subject, explainer.subject.version
        return self.from_explainer(explainer) | {"hops": result.hops}

    @property
    def result(self) -> Any:
        """The Answer on display, or None before the first one."""
        return self._computed.answer if isinstance(self._computed, AnswerResult) else None

    @property
    def without_struck(self) -> Floats | None:
        """The log-probability of each token of the reply without what is struck out, if anything is."""
        return self._computed.struck if isinstance(self._computed, AnswerResult) else None

    @property
    def judgement(self) -> Judgement | None:
        """The hiding curve beside random orders, if it is computed."""
        curve = self._computed.curve if isinstance(self._computed, AnswerResult) else None
        return curve if isinstance(curve, Judgement) else None

    @property
    def rewritten(self) -> str | None:
        """The reply that was written again without what was struck out."""
        return self._rewritten.get("text")

    def write_again(self) -> None:
        """Let the model reply without what is struck out; the new reply appears beside the old one."""
        if self._first is None or self.explainer is None:
            raise InputError("There is no reply yet, or no model to write another one.", argument="struck")
        self._writes += 1

    def handle_write_again(self) -> str:
        """Answer a page that wants another reply."""
        self.write_again()
        return "writing"

    @traitlets.validate("struck")
    def _valid_struck(self, proposal: Any) -> Any:
        for entry in proposal["value"]:
            Struck.parse(entry)
        return proposal["value"]

    @traitlets.validate("hops")
    def _valid_hops(self, proposal: Any) -> Any:
        return check_hops(proposal["value"])

    @traitlets.observe("selection", "method", "hops")
    def _follow_selection(self, change: Any) -> None:
        """Methods whose rows cannot be summed explain the selected tokens as one target, by the model."""
        linear = self.explainer is None or self._explainer_for(self.method, self.layer).method.linear
        self._span = [] if linear or self.hops != 0 else self._selected()
        if isinstance(self._computed, AnswerResult):
            self._chosen = parts.chosen_trait(self._computed, self._selected())

    @traitlets.observe("method")
    def _follow_method(self, change: Any) -> None:
        """A method that reads one layer begins with its own; others have none."""
        if self.explainer is not None and change["old"]:
            own = self.explainer
            chosen = own if own.method.name == change["new"] else Explainer(self.subject, change["new"])
            self.layer = parts.method_traits_of(chosen)["layer"]

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.explainer is None:
            self._open(self._first, job)  # type: ignore[arg-type]
            return AnswerResult(self._first)  # type: ignore[arg-type]
        version = self.subject.version
        answer = self._answers.get([version, inputs["method"], inputs["layer"]], self._explain(inputs, job))
        self._first = self._first or answer
        key = [version, answer.reading]
        experiment = self._experiments.get(key, lambda: self._hide_sentences(answer))
        if not self._evidence.is_for(key) and self.result is not answer:
            self.show_partial(job, AnswerResult(answer))
        evidence = self._evidence.get(key, lambda: self._measure(answer, experiment, job))
        answer = self._checked.get(
            [answer, evidence], lambda: answer if answer.evidence is evidence else replace(answer, evidence=evidence)
        )
        answer = self._followed.get([answer, inputs["hops"]], lambda: parts.followed(answer, inputs["hops"]))
        self._open(answer, job)
        result = AnswerResult(answer, curve=self._curves.value_for([answer]))
        if self.result is not answer:
            self.show_partial(job, result)
        struck = [Struck.parse(entry) for entry in inputs["struck"]]
        without = self._struck.get([key, struck], lambda: parts.without_struck(experiment, struck))
        result = replace(result, span=self._own_span(answer, inputs), struck=without)
        if "curve" in inputs["panels"] and not self._curves.is_for([answer]):
            self.show_partial(job, result)
            result = replace(result, curve=self._curves.get([answer], lambda: self._judge(answer, job)))
        if inputs["_writes"] and not self._rewrites.is_for(inputs["_writes"]):
            self.show_partial(job, result)
            self._rewrites.get(inputs["_writes"], lambda: self._write(answer, struck, job))
        return replace(result, rewritten=self._rewrites.value)

    def _measure(self, answer: Answer, experiment: ReplyExperiment, job: jobs.Job) -> Evidence | None:
        """What leaving out the sources changes; an answer that came with it keeps it until its model changes."""
        own = self.plain_result is answer and self.subject.version == self._version
        if own and answer.evidence is not None:
            return answer.evidence
        if answer.evidence_level == "word":
            experiment = experiment.with_units(answer.reading.units("word"))
        return measure(experiment, self.meter(job, len(subsets(experiment))), answer.evidence_level)

    def _hide_sentences(self, answer: Answer) -> ReplyExperiment:
        units = answer.reading.units("sentence")
        return reply_experiment.hide_units(Ablation(self.subject), answer.reading, units)

    def _open(self, answer: Answer, job: jobs.Job) -> None:
        """Select the words that depend most on the sources, once, unless something else is selected."""
        if not self._opens or answer.evidence is None:
            return
        with self._lock, nullcontext():
            if self._job is job:
                self._opens = False
                if not (self.selection or self.source_selection or self.rival):
                    self.selection = answer.facts.opened()

    def publish(self, result: AnswerResult | tuple[Source, ...]) -> dict[str, Any]:
        if not isinstance(result, AnswerResult):  # the sources, while the model writes its reply
            texts = [*(source.text for source in result), ""]
            return {"_sources": parts.sources_trait(result), "_tokens": wire.pack(texts, []), "_draft": ""}
        answer = result.answer
        way = (
            [f"sources {answer.evidence.way}"]
            if answer.evidence is not None
            else ["not checked by leaving out sources"]
        )
        added = not answer.linear and (answer.running is None or answer.hops != 0)
        way += ["of several words, the scores are added up"] if added else []
        contrast = []
        if result.span is not None and result.span.rival:
            contrast = [
                f"contrast “{part_text(answer.reading, result.span.tokens)}” \N{MINUS SIGN} “{result.span.rival}”"
            ]
        parameters = answer.provenance.get("parameters", {}).items()
        settings = ", ".join([answer.method, *(f"{name}={value}" for name, value in parameters)])
        return {
            "_sources": parts.sources_trait(answer.reading.prompt.sources, answer),
            "_tokens": parts.tokens_trait(answer.reading),
            "_scores": wire.scores(list(answer.rows)),
            "_facts": parts.reply_trait(result),
            "_own_scores": parts.span_trait(result.span),
            "_chosen": parts.chosen_trait(result, self._selected()),
            "_curve": curve_trait(result.curve, answer),
            "_rewritten": parts.rewritten_trait(result.rewritten),
            "_result": {"notes": [*answer.notes(), *contrast, *way], "settings": settings},
        }

    def to_frame(self) -> "pandas.DataFrame":
        """The matrix on display: a row for each word of the reply, with the scores of the sources."""
        self._require_result()
        return self.result.matrix("word", "document").rename_axis("reply").reset_index()  # type: ignore[no-any-return]

    def selected(self) -> "pandas.DataFrame":
        """The selected tokens of the reply, one row each."""
        return self._selected_rows(self.result.tokens())

    def sheet(self) -> Sheet:
        return self.picture().sheet()

    def picture(self) -> AnswerPicture:
        """What a static picture shows: the selected words, or the reply; the token at hand rather than its rival."""
        result: AnswerResult = self._computed
        return parts.picture(result, self._selected(), [Struck.parse(entry) for entry in self.struck])

    def _page_title(self) -> str:
        return f"Answers: {self.picture().sentence}"

    def _title(self) -> str:
        return "Answers" if self.result is None else f"Answers: {parts.reply_text(self.result.reading):.60}"

    def _selected(self) -> list[int]:
        """The selected tokens that the reply has."""
        known = range(len(self._first.ids)) if self._first is not None else range(0)
        return sorted(set(self.selection).intersection(known))

    def _explainer_for(self, method: str, layer: int | None) -> Any:
        """The explainer with a method and a layer; the view's own as it is, which has all its settings."""
        own = self.explainer
        if parts.method_traits_of(own) == {"method": method, "layer": layer}:
            return own
        if method == own.method.name or layer is not None:
            tau = getattr(own.method, "tau", None)
            return with_settings(own, {"method": method, "layer": layer, "tau": tau})
        return Explainer(own.subject, method)

    def _explain(self, inputs: dict[str, Any], job: jobs.Job) -> Callable[[], Answer]:
        """The answer by the chosen method; the first one may still have to be written."""

        def explain() -> Answer:
            explainer = self._explainer_for(inputs["method"], inputs["layer"])
            if self._first is None:
                self.show_partial(job, self._asked.sources())
                arguments = self._asked.arguments()
                written: Answer = explainer.reply(**arguments, **self._watched(job))
                return written
            if explainer is self.explainer and self.plain_result is not None and self.subject.version == self._version:
                return self._first
            from nbsal.explain import reply  # imports torch

            return reply.explain_again(self._first, explainer, self.reporter(job), job.cancel)

        return explain

    def _watched(self, job: jobs.Job) -> dict[str, Any]:
        """Arguments of a call that writes a reply: its text appears as a draft, and it stops when it is cancelled."""
        text, shown = "", 0.0

        def on_token(piece: str) -> None:
            nonlocal text, shown
            text += piece
            if time.monotonic() - shown >= STREAM:
                shown = time.monotonic()
                with self._try_lock() as locked:
                    if locked and self._job is job:
                        self._draft = text

        return {"on_token": on_token, "cancel": job.cancel, "progress": self.reporter(job)}

    def _own_span(self, answer: Answer, inputs: dict[str, Any]) -> SpanScores | None:
        """The scores of what is a target of its own: a token rather than its rival, or a span."""
        rival, at, tokens = inputs["rival"], inputs["at"], inputs["_span"]

        def explain() -> SpanScores | None:
            if rival is not None:
                if at is None:
                    message = "rival needs the token that it rivals: set at to a token's number."
                    raise InputError(message, argument="at", value=None)
                return parts.rival_scores(answer, rival, at)
            if answer.linear or answer.hops != 0 or len(tokens) == 1:
                return None
            return parts.span_scores(answer, tokens or answer.reading.content)

        return self._spans.get([answer, rival, at, tokens], explain)  # type: ignore[no-any-return]

    def _judge(self, answer: Answer, job: jobs.Job) -> Judgement | str:
        try:
            return answer.judge(random=ORDERS, subsets=SUBSETS, progress=self.reporter(job), cancel=job.cancel)
        except (InputError, ModelError) as error:
            return str(error)

    def _write(self, answer: Answer, struck: list[Struck], job: jobs.Job) -> Rewritten:
        return self._asked.write_again(self.subject, answer, struck, self._watched(job))
