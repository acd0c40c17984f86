"""Explain texts with one method of one model: a single text, many texts, or every layer at once."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Tensor

from nbsal.ablation.engine import Ablation
from nbsal.explain import checking, ways
from nbsal.explain.answer import Answer
from nbsal.explain.batches import explain_batch, explain_many, plan_batch, windows_of
from nbsal.explain.explained import PAIRED, versions
from nbsal.explain.replies import explain_rows
from nbsal.explain.reply import explain_reply, plan_reply
from nbsal.explain.reply_settings import ReplySettings
from nbsal.explain.saliency import LayerSaliency, Saliencies, Saliency
from nbsal.explain.sentences.decision_facts import DECIDED, budget
from nbsal.explain.sentences.outcomes import WAYS
from nbsal.explain.windows import target_jobs
from nbsal.methods import catalogue, crossing, plugins
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.methods.default import FOR_DECISIONS, FOR_LAYERS, default_method
from nbsal.model import refusals
from nbsal.model.loading.kinds import reads_single_texts
from nbsal.model.loading.load import as_subject
from nbsal.model.subject import Subject
from nbsal.model.targets import every_target, is_regression, rows_for_targets
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes.plan import TraceJob
from nbsal.passes.run import run
from nbsal.passes.trace import Trace, to_numpy
from nbsal.support.errors import InputError, ModelError, NbsalError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, checked
from nbsal.support.warning import warn_once

if TYPE_CHECKING:
    from nbsal.model.served.calls import CallEstimate

LONG = ("truncate", "window")
ENTAILMENT = "entailment"  # the label of models that judge pairs of texts
S = TypeVar("S", bound=Saliency)
EVERY = "all"  # the target that stands for each label
Checks = bool | int | Literal["ways"]  # whether to hide words: in how many forward passes, or in several ways


@checked
class Explainer:
    """Explains the decisions of one model with one method: call it with a text, or with a pair of texts.

    A call returns a `Saliency`. Its `statement()` says what was found, `top()` and `by_word()` are tables of scores,
    `plot()` is a picture, `to_html("page.html")` writes a page, and `save` keeps it. With `check=True`, the words that
    scores rank first are also hidden. Many texts at once: `map`; all layers: `every_layer`.

    Args:
        subject: What `nbsal.load` returns, or what it takes: "demo/reviews", a folder, a model.
        method: A name that `nbsal methods` lists, or an instance such as `nbsal.Occlusion(way="mask")`. The default is
            attn-lrp, or integrated for a model with operations that attn-lrp has no rule for, or occlusion for a
            function or a regression. `layer` alone stands for decoded-gradcam at that layer, or gradcam for a model
            without an LM head.
        long: What to do with texts beyond the model's length: "truncate" cuts them off, "window" averages over
            overlapping windows. The provenance records which.
        **options: Settings of a method that is passed by name, such as `layer=4`.

    >>> import nbsal
    >>> explain = Explainer(nbsal.load("demo/reviews"), "decoded-gradcam", layer=4)
    >>> explain("A warm and funny film.").prediction
    'positive'
    """

    def __init__(
        self, subject: Any, method: Method | str | None = None, *, long: str = "truncate", **options: Any
    ) -> None:
        subject = as_subject(subject)
        self.is_default = method is None  # whether no method was named
        if method is None:
            method = default_method(subject, FOR_LAYERS if "layer" in options else FOR_DECISIONS)
        method = catalogue.as_method(method, **options)
        if long not in LONG:
            raise UnknownName("long", long, LONG)
        refusals.check_method(subject, method.name, method.family, method.needs)
        self.subject: Subject = subject
        self.method: Method = crossing.resolve(method, subject)
        self.long = long

    @property
    def method_subject(self) -> Subject:
        """The subject that the method runs: the same one, a float64 copy, or a published variant."""
        return self.method.subject_for(self.subject)

    @property
    def for_layers(self) -> "Explainer":
        """This explainer if its method reads one layer, else one by the default method for layers."""
        if isinstance(self.method, LayerMethod | Decoded):
            return self
        return Explainer(self.subject, default_method(self.subject, FOR_LAYERS), long=self.long)

    @overload
    def __call__(self, text: Text, target: Literal["all"], check: Checks = False) -> dict[str, Saliency]: ...
    @overload
    def __call__(self, text: Text, target: Any = None, check: Checks = False) -> Saliency: ...
    def __call__(self, text: Text, target: Any = None, check: Checks = False) -> Any:
        """Explain one text or a pair.

        Args:
            text: The text, or a pair of texts.
            target: What is explained: a label, a contrast, a span, a token. By default what the model predicts. "all"
                explains each label, or each entity that the model predicts: a dict of explanations by target.
            check: Whether to hide the highest-ranked words, in at most 20 forward passes (or `check=32`). With "ways",
                what the sentence names is hidden in four ways: left out, replaced by neutral words, masked, and left
                alone. Then "supported" means in three of the four or more.
        """
        encoded = self._encode_text(text)
        if isinstance(target, str) and target == EVERY and EVERY not in self.subject.labels:
            targets = every_target(self.subject, encoded)
            saliencies = explain_batch({"": self}, encoded.select([0] * len(targets)), targets)[""]
            if check:
                pairs = zip(saliencies, targets, strict=True)
                saliencies = [self.check(saliency, each, passes=check) for saliency, each in pairs]
            return {saliency.target: saliency for saliency in saliencies}
        (saliency,) = explain_batch({"": self}, encoded, [target])[""]
        return self.check(saliency, target, passes=check) if check else saliency

    @overload
    def check(
        self,
        explained: Answer,
        target: None = None,
        passes: Checks = True,
        progress: Progress = False,
        cancel: Event | None = None,
    ) -> Answer: ...
    @overload
    def check(
        self,
        explained: S,
        target: Any = None,
        passes: Checks = True,
        progress: Progress = False,
        cancel: Event | None = None,
    ) -> S: ...
    def check(
        self,
        explained: Saliency | Answer,
        target: Any = None,
        passes: Checks = True,
        progress: Progress = False,
        cancel: Event | None = None,
    ) -> Saliency | Answer:
        """Measure what hiding the strongest words of an explanation does; `target` is the target that was explained.

        With passes="ways", they are hidden in four ways, as by `check="ways"`. Of a part of a reply, which `Answer.of`
        returns, words of the prompt are hidden (for `Answer.rather`, in two passes for each set), and of a whole
        `Answer` its sources. `effects()` of the result is a table of what was hidden, and what came out.

        >>> import nbsal
        >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
        >>> explain.check(explain("A warm and funny film.")).check.state
        'supported'
        """
        if isinstance(explained, Answer):
            return explained.check(progress, cancel, ways=passes == WAYS)
        limit = ways.MOST_RUNS if passes == WAYS else budget(passes)
        with Meter(limit, progress, cancel) as meter:
            words = checking.words_of(explained, Ablation(self.subject), checking.way_of(self.method), target)
            if passes == WAYS:
                return explained.with_check(ways.check_in_ways(words, meter))
            return explained.with_check(checking.check(words, limit, meter))

    def rescue(self, text: Text, target: Any = None, passes: bool | int = True) -> Saliency:
        """Explain a text by another method: the first of the default ones whose words matter once they are hidden.

        This explainer's own method is left out, and what cannot explain the model. If hiding supports none of the
        others, the result is by the one whose words have the largest effect.

        >>> import nbsal
        >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact")
        >>> explain("Nobody laughed.", check=True).check.state, explain.rescue("Nobody laughed.").check.state
        ('contradicted', 'supported')
        """
        encoded, limit, ablation = self._encode_text(text), budget(passes), Ablation(self.subject)
        tried: list[tuple[float, Saliency]] = []
        for rival in self._rivals():
            (saliency,) = explain_batch({"": rival}, encoded, [target])[""]
            words = checking.words_of(saliency, ablation, checking.way_of(rival.method), target)
            check = checking.check(words, limit, Meter(None))
            tried.append((check.effect(check.together), saliency.with_check(check)))
            if check.state == "supported":
                return tried[-1][1]
        return max(tried, key=lambda entry: entry[0])[1]

    def ids(
        self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None, target: Any = None
    ) -> Saliency:
        """Explain one sequence of token ids."""
        encoded = self.subject.encode_ids(input_ids, attention_mask, token_type_ids)
        if len(encoded) != 1:
            message = f"explain.ids takes one sequence, not {len(encoded)}. Call it for each."
            raise InputError(message, argument="input_ids", value=input_ids)
        saliency = self.explain_encoded(encoded, [target])[0]
        saliency.provenance.pop("unpaired", None)  # without token types, the ids of a pair look like those of one text
        return saliency

    def explain_encoded(self, encoded: Encoded, targets: Sequence[Any]) -> list[Saliency]:
        """Explain a batch of encoded texts, with a target for each."""
        return explain_batch({"": self}, encoded, targets)[""]

    def plan(self, text: Text, target: Any = None) -> list[TraceJob]:
        """What is run to explain one text, without running it; each job is printed as a line.

        >>> import nbsal
        >>> print(*Explainer(nbsal.load("demo/reviews"), "rollout").plan("A joy."))
        1 x 5 tokens: rollout (attention)
        """
        rows, members = rows_for_targets(self.subject, self._encode_text(text), [target]), {self.method.name: self}
        windows = windows_of(members, rows)
        before = [job for text in windows.values() if target is None for job in target_jobs(self.subject, text)]
        return [*before, *plan_batch(members, rows, [target], windows, {})]

    def plan_reply(self, asked: Any, reply: Any = None, **settings: Any) -> "CallEstimate":
        """The calls of a server that `reply` with the same arguments would send, without sending any.

        >>> import nbsal
        >>> explain = Explainer(nbsal.load(nbsal.Endpoint("http://127.0.0.1:1/v1", model="m")), "occlusion")
        >>> print(explain.plan_reply("Mara lives in Oslo. Where does Mara live?"))
        11 calls, about 1,500 tokens
        """
        return plan_reply({"": self}, asked, reply, ReplySettings.parse(self.subject.tokenizer, settings))

    def reply(self, asked: Any, reply: Any = None, **settings: Any) -> Answer:
        """Explain why a model replies what it does: see `nbsal.answer`, which has the same arguments."""
        return explain_reply({"": self}, asked, reply, ReplySettings.parse(self.subject.tokenizer, settings))[""]

    def replies(self, rows: Any, **settings: Any) -> list[Answer]:
        """Explain many replies: rows are prompts, or dicts with "asked", "documents", "reply"; see `explain_rows`."""
        return explain_rows(self, rows, **settings)

    def every_layer(self, text: Text, target: Any = None) -> LayerSaliency:
        """Explain one text at every layer, from one forward and one backward pass.

        Without a named method, decoded-gradcam does, or gradcam for a model without an LM head.

        >>> import nbsal
        >>> Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.").scores.shape
        (7, 5)
        """
        encoded = rows_for_targets(self.subject, self._encode_text(text), [target])
        if self.windowed(encoded[0]):
            message = 'every_layer needs a text within the model\'s length. Shorten it or use long="truncate".'
            raise InputError(message, argument="text", value=text)
        return self.explain_encoded_layers(encoded, target)

    def explain_encoded_layers(self, encoded: Encoded, target: Any) -> LayerSaliency:
        """Explain one encoded text at every layer."""
        if self.is_default and self.for_layers is not self:
            return self.for_layers.explain_encoded_layers(encoded, target)
        method = self.method
        if not isinstance(method, LayerMethod | Decoded):
            message = f"{method.name} does not read a hidden layer. Choose a layer method such as gradcam."
            raise InputError(message, argument="method", value=method)
        model, layers = self.method_subject, range(self.subject.depth + 1)
        saliencies: list[LayerSaliency] = []

        def use(job: TraceJob, name: str, record: Trace) -> None:
            scores = method.every_layer_scores(record, layers)[:, 0]
            inner = method.method if isinstance(method, Decoded) else method
            tie_breaker = torch.stack([replace(inner, layer=layer).tie_breaker(record)[0] for layer in layers])
            saliency = self._saliency(record, 0, scores, tie_breaker, self._provenance(record.subject), {})
            settings = saliency.provenance["parameters"] | {"layer": "every"}
            saliencies.append(
                LayerSaliency(**vars(saliency) | {"provenance": saliency.provenance | {"parameters": settings}})
            )

        run([TraceJob(model, encoded, [0], [target], [method.name], method.needs, frozenset(layers))], use, Meter(None))
        return saliencies[0]

    def map(
        self,
        texts: Iterable[Text],
        targets: Any = None,
        batch_size: int = 32,
        progress: Progress = True,
        cancel: Event | None = None,
    ) -> Saliencies:
        """Explain many texts, batched by length; results come in the order of the texts.

        `targets` is one target for all, or a list with one for each text. A generator is consumed as it goes.
        """
        name = self.method.name
        try:
            return explain_many({name: self}, texts, targets, batch_size, progress, cancel)[name]
        except NbsalError as error:
            error.partial = error.partial and error.partial[name]
            raise

    def from_trace(self, record: Trace) -> list[Saliency]:
        """Explain every text of a trace that was recorded before, without another forward pass."""
        scores, tie_breaker = self.method.total(record), self.method.tie_breaker(record)
        notes, shared = self.method.notes(record), self._provenance(record.subject)
        return [
            self._saliency(record, i, scores[i, : len(row)], tie_breaker[i, : len(row)], shared, notes[i])
            for i, row in enumerate(record.encoded.rows)
        ]

    def windowed(self, row: Row) -> bool:
        """True if that text is explained by sliding windows."""
        return bool(row.dropped) and self.long == "window"

    @property
    def provenance(self) -> dict[str, Any]:
        """What every explanation records: model, method, settings, precision, versions."""
        return self._provenance(self.method_subject)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """What the provenance says of the method; a file says label and promise where nobody has the method."""
        settings = {
            "method": self.method.name,
            "label": self.method.facts.label or self.method.name,
            "promise": sorted(self.method.promise),
            "parameters": self.method.parameters(),
        }
        package = plugins.origin(self.method.name)
        return settings | {"package": package} if package else settings

    def _provenance(self, method_subject: Subject) -> dict[str, Any]:
        provenance = {
            "model": self.subject.name,
            **deepcopy(self._settings),  # results may be changed
            "dtype": str(method_subject.dtype).removeprefix("torch."),
            "long": self.long,
            "versions": versions(),
        } | method_subject.notes
        if isinstance(self.method, Decoded):
            provenance["lm"] = self.subject.lm_head.source
        return provenance

    def __repr__(self) -> str:
        return f"Explainer({self.subject.name!r}, {self.method})"

    def _rivals(self) -> "list[Explainer]":
        """Explainers with the other methods that may be the default, or this one where no other can run."""
        rivals = []
        for name in FOR_DECISIONS:
            with suppress(ModelError):
                rivals += [Explainer(self.subject, name, long=self.long)] if name != self.method.name else []
        return rivals or [self]

    def _encode_text(self, text: Any) -> Encoded:
        if isinstance(text, list):
            message = "text must be one text. To explain many, call explain.map(texts)."
            raise InputError(message, argument="text", value=text)
        return self.subject.text_encoder.encode(text)

    def _saliency(
        self, record: Trace, i: int, scores: Tensor, tie_breaker: Tensor, shared: dict[str, Any], notes: dict[str, Any]
    ) -> Saliency:
        row, decision = record.encoded.rows[i], record.decisions[i]
        if is_regression(self.subject):
            notes = notes | {"values": record.logits[i].tolist()}
        if self.subject.task == "sequence" and self.subject.activation == "sigmoid" and len(self.subject.labels) > 1:
            pairs = zip(self.subject.labels, decision.probabilities.tolist(), strict=True)
            notes = notes | {"decided": {label: value for label, value in pairs if value >= DECIDED}}
        if len(row.parts) == 1 and ENTAILMENT in map(str.lower, self.subject.labels):
            notes = notes | {"unpaired": True}
        if not self.subject.labels:
            notes = notes | {"predicts_token": True}
        if len(row.parts) == 2 and reads_single_texts(self.subject.model):
            warn_once(self.subject.model, "pair", f"{self.subject.name}: {PAIRED}")
            notes = notes | {"paired": True}
        return Saliency(
            row=row,
            target=decision.target.label,
            prediction=decision.label,
            probabilities=to_numpy(decision.probabilities),
            method=self.method.name,
            provenance=shared
            | {"parameters": dict(shared["parameters"]), "target": decision.target.label, "dropped": row.dropped}
            | notes,
            scores=to_numpy(scores),
            tie_breaker=to_numpy(tie_breaker),
        )


def as_explainer(model: Any) -> Explainer:
    """An explainer as it is; of a subject, or of what `nbsal.load` takes, one with the default method."""
    return model if isinstance(model, Explainer) else Explainer(model)
