"""A prompt without some of its units: written, rendered and tokenized as if they had never been there."""

from collections.abc import Sequence

from nbsal.answers.reading import Prompt, Unit, encode, renderer
from nbsal.answers.sources import cut_spans
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError


def check_shortens(prompt: Prompt, units: Sequence[Unit]) -> None:
    """Refuse units whose characters are not known, because the template rewrote them."""
    rewritten = next((unit for unit in units if prompt.sources[unit.source].status == "rewritten"), None)
    if rewritten is not None:
        message = f'The template rewrote {rewritten.name}, so way="text" cannot cut it out. Use way="remove".'
        raise InputError(message, argument="way", value="text")


def ids_without(subject: Subject, prompt: Prompt, units: Sequence[Unit]) -> tuple[int, ...]:
    """The tokens of the prompt that a user would send without those units; never none at all."""
    assert prompt.origin is not None, "prompts from files have no model"
    request, template, tools = prompt.origin
    shorter = cut_spans(request, _spans(prompt, units))
    chat = shorter.messages is not None
    text = renderer(subject, shorter, template, tools)(shorter.texts) if chat else shorter.texts[0]
    ids = encode(subject.tokenizer, text, "asked", add_special_tokens=not chat)["input_ids"]
    return tuple(ids) or prompt.ids[:1]


def _spans(prompt: Prompt, units: Sequence[Unit]) -> dict[int, list[Span]]:
    """The characters of units by source; a message that holds documents takes them along."""
    spans: dict[int, list[Span]] = {}
    for unit in units:
        spans.setdefault(unit.source, []).append(unit.span)
        for number in {prompt.owners[token] for token in unit.tokens} - {unit.source}:
            spans.setdefault(number, []).append((0, len(prompt.sources[number].text)))
    return spans
