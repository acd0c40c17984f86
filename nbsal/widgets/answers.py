"""The Answers view: a reply beside its sources, each shaded by the other, with rivals, strikes, matrix and curve."""

import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import traitlets

from nbsal.explain.answer import Answer
from nbsal.explain.answer_page import AnswerPicture
from nbsal.explain.citations.sourced import NOT_CHECKED
from nbsal.explain.judgement import Judgement
from nbsal.explain.lazy import Explainer
from nbsal.explain.prompt.sources import Source, uses_tools
from nbsal.explain.scoring.hops import check_hops
from nbsal.methods.facts import label_of
from nbsal.methods.lazy import Subject, default
from nbsal.render.sheet import Sheet
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.base import NO_SOURCE, View
from nbsal.widgets.cached_view import PanelJob
from nbsal.widgets.content import answer_parts as parts
from nbsal.widgets.content.answer_citations import citations_trait
from nbsal.widgets.content.answer_panels import answer_panels
from nbsal.widgets.content.answer_parts import AnswerResult, Struck
from nbsal.widgets.content.answer_picture import picture
from nbsal.widgets.content.asked import Asked, Reply, answer_steps, reply_choices
from nbsal.widgets.explainer_view import Shading, with_settings
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.choices import MethodTraits
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue
from nbsal.widgets.page.next_view import Step

LEVELS = ("token", "word", "sentence", "document")
STREAM = 0.06  # seconds between two pieces of a reply that is being written
LOADED = "Loaded without its model \N{MIDDLE DOT} pass reply=... to nbsal.answer to change it"


@traitlets.signature_has_traits
class Answers(Shading, MethodTraits, View):
    """Why a model replied what it did: a finished Answer, or an Explainer or Subject and what is asked.

    `asked`, `reply`, `documents`, `layout`, `template`, `tools`, `seed`, `unit`, `number` and settings of `generate`
    are those of `nbsal.answer`; without a reply the model writes one, word by word in the view. `selection` holds the
    numbers of tokens of the reply (none is all of it), `source_selection` positions in the prompt. `level` is the part
    that is shaded as one: "token", "word", "sentence" or "document". A `rival` explains the token number `at` instead.
    `hops` follows scores through the reply (`Answer.through`), by information flow routes where the model has
    them; `certainty` fades unsure words. `struck` lists sources by number, or [source, sentence], that are taken out:
    the same reply is scored again. `write_again` lets the model reply without them; `written` is the number of the
    reply on display, 0 the first. `panels` holds "citations" and "curve", the hiding curve, while these are open.

    >>> import nbsal
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> view = Answers(nbsal.load("demo/notes"), question, documents=["Mara lives in Oslo."], method="gradxact").wait()
    >>> view.result.text, [source["label"] for source in view._sources]
    (' Mara lives in Oslo.', ['You', 'Document 1'])
    """

    inputs = ("method", "layer", "hops", "rival", "at", "struck", "written", "panels", "_span")
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
    written = traitlets.Int(0).tag(sync=True, page=True)
    panels = traitlets.List(traitlets.Enum(("citations", "curve"))).tag(sync=True, page=True)
    _readout = traitlets.Dict(parts.READOUT).tag(sync=True)
    _tokens, _scores = traitlets.Dict().tag(sync=True), traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)
    _sources: Any = traitlets.List().tag(sync=True)
    _facts = traitlets.Dict().tag(sync=True)
    _own_scores = traitlets.Dict().tag(sync=True)  # of a span or a contrast that is a target of its own
    _chosen = traitlets.Dict().tag(sync=True)  # what is said of selected words, where `_facts` does not hold it
    _curve = traitlets.Dict().tag(sync=True)
    _citations = traitlets.Dict().tag(sync=True)
    _draft = traitlets.Unicode().tag(sync=True)  # the reply, while the model writes it
    _replies: Any = traitlets.List().tag(sync=True)  # all replies, in words
    _saved = traitlets.Unicode().tag(sync=True)
    _span = traitlets.List(traitlets.Int())  # the selected tokens, if the method explains them as one target

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
        traits -= {"layout"} if isinstance(settings.get("layout"), str) else set()  # of documents, not of the widget
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
        request = Asked.from_answer(source) if finished else Asked(asked, reply, arguments)
        self._written = [Reply(request, answer=source if finished else None)]
        self._version: Any = None  # of the model, when it explained the answer that is shown
        self._own_method = None if finished else settings.pop("method", None)
        self._by_size = isinstance(source, Subject) and self._own_method is None  # whether the first reply decides
        if self._by_size:
            has_documents = len(documents) > 0 or uses_tools(asked)
            self._own_method = default.default_for_reply(source, has_documents, unit, settings.get("hops", 0))
        self._answers, self._evidence, self._checked = (LastValue() for _ in range(3))
        self._panels = answer_panels()
        self._opens = "selection" not in settings
        if finished and source.sourced.finding:
            settings.setdefault("panels", ["citations"])
        super().__init__(source, **{name: value for name, value in settings.items() if name in traits})

    def as_explainer(self, source: Any) -> Explainer:
        if isinstance(source, Subject):
            return Explainer(source, self._own_method)
        explainer = super().as_explainer(source)
        return explainer if self._own_method is None else Explainer(explainer.subject, self._own_method)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        return parts.method_traits_of(explainer) | {
            "_choices": reply_choices(explainer, self._written[0].asked.settings["unit"])
        }

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
        return self._computed.shown if isinstance(self._computed, AnswerResult) else None

    def steps(self) -> dict[str, Step]:
        return {} if self.explainer is None or self.result is None else answer_steps(self.result, self._selected())

    @property
    def without_struck(self) -> Floats | None:
        """The log-probability of each token of the reply without what is struck out, if anything is."""
        struck = self._computed.struck if isinstance(self._computed, AnswerResult) else None
        return None if struck is None else struck.logprob

    @property
    def judgement(self) -> Judgement | None:
        """The hiding curve beside random orders, if it is computed."""
        curve = self._computed.curve if isinstance(self._computed, AnswerResult) else None
        return None if curve is None else curve.judgement

    @property
    def rewritten(self) -> str | None:
        """The last reply that was written again."""
        texts = [reply.trait()["text"] for reply in self._written[1:] if reply.answer is not None]
        return texts[-1] if texts else None

    def write_again(self) -> None:
        """Let the model reply without what is struck out; the new reply is explained, and the old one kept."""
        answer = self.result
        if answer is None or self.explainer is None:
            raise InputError("There is no reply yet, or no model to write another one.", argument="struck")
        struck = [Struck.parse(entry) for entry in self.struck]
        self._written.append(self._shown_reply.asked.without(answer, struck))
        with self.hold_sync():  # one step for Undo
            self.struck, self.written = [], len(self._written) - 1

    def handle_write_again(self) -> str:
        """Answer a page that wants another reply."""
        self.write_again()
        return "writing"

    @traitlets.validate("struck")
    def _valid_struck(self, proposal: Any) -> Any:
        for entry in proposal["value"]:
            Struck.parse(entry)
        return proposal["value"]

    @traitlets.validate("written")
    def _valid_written(self, proposal: Any) -> Any:
        if proposal["value"] not in range(len(self._written)):
            message = f"written={proposal['value']} is no reply. The view has {plural(len(self._written), 'reply')}."
            raise InputError(message, argument="written", value=proposal["value"])
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

    @traitlets.observe("written")
    def _follow_reply(self, change: Any) -> None:
        """Another reply has other words."""
        self._opens = True
        self.selection, self.source_selection, self.rival, self.at = [], [], None, None

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.explainer is None:
            answer: Any = self._written[0].answer
            self._open(answer, job)
            return AnswerResult(answer, citations=answer if answer.sourced.finding else None)
        answer = self._explained(self._written[inputs["written"]], inputs, job)
        self._open(answer, job)
        keys = self._panels.keys_of([answer], [answer], inputs)
        values, displayed = self._panels.cached(keys), getattr(self._computed, "answer", None) is answer
        panel_job = PanelJob(partial(self.meter, job), lambda value: None)
        for name, shows in self._panels.pending(["span", "struck", *inputs["panels"]], keys, displayed):
            if shows:
                self.show_partial(job, AnswerResult(answer, **values))
            values[name] = self._panels.compute(name, answer, keys, inputs, panel_job)
        return AnswerResult(answer, **values)

    def _explained(self, reply: Reply, inputs: dict[str, Any], job: jobs.Job) -> Answer:
        """The checked reply, as the inputs want it; its scores are shown before they are checked."""
        version, (method, layer) = self.subject.version, self._scoring(inputs)
        key, hops = [version, reply, layer, inputs["hops"]], inputs["hops"]
        explain = partial(self._explain, reply, method, layer, job)
        answer = self._answers.get([*key, method], lambda: parts.followed(explain(), hops))
        if self._by_size:  # the method that was chosen is the one that is asked for next
            self._answers.get([*key, answer.method], lambda: answer)

        def check() -> Answer:
            known = self._evidence.value_for([version, answer.reading])
            if known is None and answer.evidence is None:
                self.show_partial(job, AnswerResult(answer))
            with_known = answer if known is None else replace(answer, evidence=known)
            return with_known.check(self.reporter(job), job.cancel)  # type: ignore[no-any-return]

        checked: Answer = self._checked.get([answer], check)
        self._evidence.get([version, answer.reading], lambda: checked.evidence)
        return checked

    def _scoring(self, inputs: dict[str, Any]) -> tuple[str, int | None]:
        """The method, with its layer, that gives the scores: through the reply, one of what the model reads."""
        method, layer, hops, given = inputs["method"], inputs["layer"], inputs["hops"], self.plain_result
        as_given = given is not None and (given.method, given.hops) == (method, hops)
        if hops == 0 or as_given or self._explainer_for(method, layer).method.averages_span:
            return method, layer
        routes = default.default_for_routes(self.subject)
        return (method, layer) if routes is None else (routes, None)

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
        way = [parts.way_text(answer)]
        if answer.method != self.method and answer.hops != 0:
            way.append(f"{answer.label}, not {label_of(self.method)}, through the reply")
        if not answer.linear and (answer.running is None or answer.hops != 0):
            way.append("of several words, the scores are added up")
        notes = [*answer.notes(), *result.contrast_notes, *way]
        chosen = {"method": answer.method} if self._by_size and answer.hops == 0 else {}
        shown = {
            "_sources": parts.sources_trait(answer.reading.prompt.sources, answer),
            "_tokens": parts.tokens_trait(answer),
            "_scores": wire.scores(list(answer.rows)),
            "_facts": parts.reply_trait(result) | {"follows": self._can_follow(answer)},
            "_chosen": parts.chosen_trait(result, self._selected()),
            "_citations": citations_trait(answer, result.citations),
            "_draft": "",
            "_replies": [reply.trait() for reply in self._written],
            "_result": {"notes": notes, "settings": parts.settings_text(answer)},
        }
        return shown | self._panels.publish(vars(result)) | chosen

    def _can_follow(self, answer: Answer) -> bool:
        """Whether scores can be followed through the reply, by the chosen method or by another one."""
        return answer.can_follow or (self.subject is not None and default.default_for_routes(self.subject) is not None)

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
        shown = picture(self._computed, self._selected(), self.struck, self._replies, self._inputs.get("written", 0))
        curve = shown.curve if "curve" in self.panels else ()
        sourced = shown.sourced if "citations" in self.panels else NOT_CHECKED
        return replace(shown, level=self.level, notes=self._result["notes"], curve=curve, sourced=sourced)

    def _page_title(self) -> str:
        return f"Answers: {self.picture().sentence}"

    def _title(self) -> str:
        return "Answers" if self.result is None else f"Answers: {parts.reply_text(self.result.reading):.60}"

    def _selected(self) -> list[int]:
        """The selected tokens that the reply has."""
        answer = self._shown_reply.answer
        return sorted(set(self.selection).intersection(range(0 if answer is None else len(answer.ids))))

    @property
    def _shown_reply(self) -> Reply:
        """The reply on display; before the first one, that which is asked for."""
        for reply in self._written:
            if self.result is not None and reply.answer is not None and reply.answer.reading is self.result.reading:
                return reply
        return self._written[0]

    def _explainer_for(self, method: str, layer: int | None) -> Any:
        """The explainer with a method and a layer; the view's own as it is, which has all its settings."""
        own = self.explainer
        if parts.method_traits_of(own) == {"method": method, "layer": layer}:
            return own
        if method == own.method.name or layer is not None:
            tau = getattr(own.method, "tau", None)
            return with_settings(own, {"method": method, "layer": layer, "tau": tau})
        return Explainer(own.subject, method)

    def _explain(self, reply: Reply, method: str, layer: int | None, job: jobs.Job) -> Answer:
        """The reply by some method; it may still have to be written."""
        explainer = self._explainer_for(method, layer)
        if reply.answer is None:
            if self.result is None:
                self.show_partial(job, reply.asked.sources())
            by_size = self._by_size and method == self._own_method
            return reply.write(explainer, self._watched(job), by_size)
        is_given = self.plain_result is reply.answer and explainer is self.explainer
        if is_given and self.subject.version == self._version:
            return reply.answer
        from nbsal.explain.reply import explain_again  # imports torch

        again: Answer = explain_again(reply.answer, explainer, self.reporter(job), job.cancel)
        return again

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
