"""What the Answers view asks a model, how it asks again without a source, and which methods explain replies."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from nbsal.explain.answer import Answer
from nbsal.explain.lazy import Explainer
from nbsal.explain.prompt.sources import PLACEHOLDER, Source, parse_documents, parse_messages, parse_prompt
from nbsal.explain.sentences import reply_facts
from nbsal.methods.lazy import Subject, catalogue
from nbsal.model.target import AGREEMENT
from nbsal.support.errors import InputError
from nbsal.widgets.content.answer_parts import Rewritten, Struck, reply_text
from nbsal.widgets.page.choices import offered_methods, view_choices


@dataclass(frozen=True)
class Asked:
    """What is asked, the reply if it is known, and the other arguments of `nbsal.answer` but for the method."""

    asked: Any
    reply: Any
    settings: dict[str, Any]

    @classmethod
    def from_answer(cls, answer: Answer) -> "Asked":
        """What was asked for an answer, as far as the answer knows."""
        provenance = answer.provenance
        writing = {**provenance.get("generate", {}), **provenance.get("template settings", {})}
        unit = provenance.get("unit", "sentence")
        unit = [part.span for part in answer.units] if unit == "spans" else unit
        asked, documents = _request(answer.reading.prompt.sources)
        return cls(asked, None, {"documents": documents, "seed": provenance.get("seed"), "unit": unit} | writing)

    def arguments(self) -> dict[str, Any]:
        """As `Explainer.reply` takes them."""
        return {"asked": self.asked, "reply": self.reply, **self.settings, "check": False}

    def sources(self) -> tuple[Source, ...]:
        """The sources, before the model reads them."""
        documents = parse_documents(self.settings["documents"])
        if isinstance(self.asked, str):
            return parse_prompt(self.asked, documents).sources
        return parse_messages(self.asked, documents, templated=False).sources

    def without(self, answer: Answer, struck: Sequence[Struck]) -> tuple["Asked", tuple[str, ...]]:
        """The request of an answer without what is struck out, for a new reply; and the names of that."""
        _check_template(answer, self.settings.get("template"))
        sources = answer.reading.prompt.sources
        names = [name.sentence for name in reply_facts.source_names(sources)]
        whole = dict.fromkeys(entry.source for entry in struck if entry.sentence is None)
        partly = dict.fromkeys(entry.source for entry in struck if entry.source not in whole)
        texts = dict.fromkeys(whole, "") | {source: _without_sentences(answer, source, struck) for source in partly}
        without = [*(names[source] for source in whole), *(f"part of {names[source]}" for source in partly)]
        kept = [replace(source, text=texts.get(number, source.text)) for number, source in enumerate(sources)]
        asked, documents = _request([source for source in kept if source.text.strip()])
        number = answer.number if answer.number == AGREEMENT else None
        settings = self.settings | {"documents": documents, "unit": "sentence", "number": number}
        return Asked(asked, None, settings), tuple(dict.fromkeys(without))

    def write_again(
        self, subject: Subject, answer: Answer, struck: Sequence[Struck], watch: Mapping[str, Any]
    ) -> Rewritten:
        """A new reply of the model without what is struck out; `watch` are arguments that follow the call."""
        from nbsal.explain import reply  # imports torch

        request, without = self.without(answer, struck)
        reading, statistics = reply.write_reply(subject, **request.arguments(), **watch)
        tokens = reading.content
        logprob = float(np.sum(statistics.logprob[tokens]))
        return Rewritten(reply_text(reading), without, None if np.isnan(logprob) else logprob, len(tokens))


def reply_choices(explainer: Explainer, unit: Any) -> dict[str, Any]:
    """What the page may choose from: the methods that explain replies."""
    own = explainer.method.name
    offered = offered_methods(explainer)
    methods = catalogue.every_method() | {own: explainer.method}
    place = {name: method.facts.replies or inf for name, method in methods.items()}
    explaining = {own, *(name for name, method in methods.items() if method.facts.explains_replies and "@" not in name)}
    usual = [method for method in offered if method["name"] in explaining]
    noun = unit if isinstance(unit, str) else "part"
    for method in usual:
        hides = methods[method["name"]].hides
        per = method["cost"].replace("per word", f"per {noun}") if hides else f"{method['cost']} per token"
        method |= {"cost": per, "group": "recommended" if place[method["name"]] < inf else method["group"]}
    usual.sort(key=lambda method: (bool(method["unavailable"]), place[method["name"]]))
    return view_choices(explainer, usual)


def _request(sources: Sequence[Source]) -> tuple[Any, list[dict[str, str]]]:
    """Messages or a prompt, and documents."""
    documents = [{"title": source.title, "text": source.text} for source in sources if source.kind == "document"]
    others = [source for source in sources if source.kind != "document"]
    texts = [source.text if documents else source.text.replace(PLACEHOLDER, "") for source in others]
    if not any(source.role in ("", "user") for source in others):
        raise InputError("Without the question there is nothing to reply to.", argument="struck")
    if others[0].kind == "prompt":
        return texts[0], documents
    return [{"role": source.role, "content": text} for source, text in zip(others, texts, strict=True)], documents


def _check_template(answer: Answer, template: str | None) -> None:
    """Raise an error if the chat template of an answer is not known any more."""
    running, used = answer.running, answer.provenance.get("template")
    own = template or getattr(running and running.explainer.subject.tokenizer, "chat_template", None)
    if used is not None and used != hashlib.sha256(str(own).encode()).hexdigest():
        message = "The reply was written with another chat template. Pass template=... and what was asked to Answers."
        raise InputError(message, argument="template")


def _without_sentences(answer: Answer, source: int, struck: Sequence[Struck]) -> str:
    """The text of a source without the sentences that are struck out."""
    gone = {entry.sentence for entry in struck if entry.source == source}
    units = [unit for unit in answer.reading.units("sentence") if unit.source == source]
    return "".join(unit.text for number, unit in enumerate(units) if number not in gone)
