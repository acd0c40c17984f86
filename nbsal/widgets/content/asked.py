"""What the Answers view asks a model, the replies it gets, also without a source, and which methods explain replies."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from nbsal.explain.answer import Answer
from nbsal.explain.lazy import Explainer
from nbsal.explain.prompt.sources import (
    CALL,
    PLACEHOLDER,
    PLAIN,
    STRUCK,
    Source,
    parse_documents,
    parse_messages,
    parse_prompt,
)
from nbsal.explain.prompt.tool_calls import CALLS, TOOL, as_entry
from nbsal.explain.sentences.reply_facts import part_text
from nbsal.explain.sentences.reply_sentences import likelihood_text
from nbsal.explain.sentences.statement import OCCLUSION
from nbsal.methods.facts import label_of
from nbsal.methods.lazy import Served, catalogue
from nbsal.model.target import AGREEMENT
from nbsal.render import html
from nbsal.support.errors import InputError
from nbsal.widgets.content.answer_parts import Struck, reply_text, struck_names
from nbsal.widgets.page.choices import offered_methods, view_choices
from nbsal.widgets.page.next_view import Step


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
        settings = {"documents": documents, "layout": provenance.get("layout", PLAIN)}
        return cls(asked, None, settings | {"seed": provenance.get("seed"), "unit": unit} | writing)

    def arguments(self) -> dict[str, Any]:
        """As `Explainer.reply` takes them."""
        return {"asked": self.asked, "reply": self.reply, **self.settings, "check": False}

    def sources(self) -> tuple[Source, ...]:
        """The sources, before the model reads them."""
        documents = parse_documents(self.settings["documents"], self.settings.get("layout", PLAIN))
        if isinstance(self.asked, str):
            return parse_prompt(self.asked, documents).sources
        return parse_messages(self.asked, documents, templated=False).sources

    def without(self, answer: Answer, struck: Sequence[Struck]) -> "Reply":
        """The request of an answer without what is struck out, for a new reply."""
        _check_template(answer, self.settings.get("template"))
        sources = answer.reading.prompt.sources
        whole = {entry.source for entry in struck if entry.sentence is None}
        partly = {entry.source for entry in struck} - whole
        texts = dict.fromkeys(whole, "") | {source: _without_sentences(answer, source, struck) for source in partly}
        left = []
        for number, source in enumerate(sources):
            text = texts.get(number, source.text)
            left.append(replace(source, text=text) if text.strip() else replace(source, status=STRUCK))
        for caller in {source.message for source in left if source.kind == CALL and source.status != STRUCK}:
            assert caller is not None, "a call is made by a message"
            text = texts.get(caller, sources[caller].text)
            left[caller] = replace(sources[caller], text=text)  # it stays, even empty
        asked, documents = _request([source for source in left if source.status != STRUCK])
        unit = self.settings["unit"]
        settings = self.settings | {
            "documents": documents,
            "unit": unit if unit is None or isinstance(unit, str) else "sentence",
            "number": answer.number if answer.number == AGREEMENT else None,
        }
        return Reply(Asked(asked, None, settings), tuple(left), struck_names(sources, struck))


@dataclass(eq=False)
class Reply:
    """A reply of the view: what is asked for it, and its explanation, once it is written.

    One that is written again also has the sources of the former one, and the names of those that were struck out.
    """

    asked: Asked
    sources: tuple[Source, ...] = ()
    without: str = ""
    answer: Answer | None = None

    def write(self, explainer: Explainer, watch: Mapping[str, Any], by_size: bool) -> Answer:
        """Let the model write it, and explain it; `watch` are arguments that follow the call.

        With `by_size`, not the explainer's method explains a first reply, but the default for one of its size.
        """
        from nbsal.explain import answering, reply  # import torch

        arguments, subject = {**self.asked.arguments(), **watch}, explainer.subject
        if self.sources:
            asked = arguments.pop("asked")
            del arguments["reply"]
            written: Any = reply.reply_again(explainer, asked, self.sources, **arguments)
        else:
            written = answering.answer(subject, **arguments) if by_size else explainer.reply(**arguments)
        self.answer = written
        return written  # type: ignore[no-any-return]

    def trait(self) -> dict[str, str]:
        """What the page says of it."""
        if self.answer is None:
            return {"title": "", "text": "", "likelihood": ""}
        statistics, content = self.answer.statistics, self.answer.reading.content
        again = f"Written again without {self.without}" if self.without else "Written again"
        return {
            "title": again if self.sources else "First reply",
            "text": reply_text(self.answer.reading),
            "likelihood": likelihood_text(statistics.logprob[content].tolist()),
        }


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


def _request(sources: Sequence[Source]) -> tuple[Any, list[dict[str, Any]]]:
    """Messages or a prompt, and documents, which keep their numbers."""
    documents = [
        {"title": source.title, "text": source.text} | ({"number": source.number} if source.number else {})
        for source in sources
        if source.kind == "document"
    ]
    others = [source for source in sources if source.kind != "document"]
    texts = [source.text if documents else source.text.replace(PLACEHOLDER, "") for source in others]
    if not any(source.role in ("", "user") for source in others):
        raise InputError("Without the question there is nothing to reply to.", argument="struck")
    if others[0].kind == "prompt":
        return texts[0], documents
    return _messages(others, texts), documents


def _messages(sources: Sequence[Source], texts: Sequence[str]) -> list[dict[str, Any]]:
    """The messages of a chat, with the calls of tools that they make."""
    messages = list[dict[str, Any]]()
    for source, text in zip(sources, texts, strict=True):
        if source.kind == CALL:
            messages[-1].setdefault(CALLS, []).append(as_entry(text, source.call))
            continue
        messages.append({"role": source.role, "content": text})
        if source.role == TOOL:
            named = {"name": source.title, "tool_call_id": source.call}
            messages[-1] |= {name: value for name, value in named.items() if value}
    return messages


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


def answer_steps(answer: Answer, selected: Sequence[int]) -> dict[str, Step]:
    """The steps from an answer: the same reply by another method, and the words of the prompt behind selected ones."""
    steps: dict[str, Step] = {}
    subject, asked = answer.running.explainer.subject, Asked.from_answer(answer)  # type: ignore[union-attr]
    other = OCCLUSION if answer.method != OCCLUSION else "ifr"
    if other == OCCLUSION or not isinstance(subject.model, Served):
        arguments = {"asked": asked.asked, "reply": answer.text, **asked.settings, "method": other}
        steps["method"] = Step(f"compare with {label_of(other)}", lambda views: views.Answers(subject, **arguments))
    if selected:
        tokens = slice(selected[0], selected[-1] + 1)
        part = html.label(part_text(answer.reading, range(tokens.start, tokens.stop)))
        steps["part"] = Step(f"the words behind “{part}”", lambda views: views.Highlight(answer.of(tokens, check=True)))
    return steps
