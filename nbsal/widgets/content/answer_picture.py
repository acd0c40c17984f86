"""What copies show of the Answers view: what is on display, as its page draws it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nbsal.explain.answer_page import AnswerPicture
from nbsal.explain.citations.sourced import NOT_CHECKED
from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.widgets.content.answer_parts import AnswerResult, Struck, struck_trait


def picture(
    result: AnswerResult, selected: Sequence[int], struck: Sequence[Any], replies: Sequence[dict[str, str]], at: int
) -> AnswerPicture:
    """A result as a static picture: of the selected words, of a token rather than its rival, or of the whole reply.

    `replies` are all replies in words, of which the one numbered `at` is drawn.
    """
    answer, own = result.answer, result.span
    if own is not None and own.rival:
        selected, drawn = own.tokens, answer.picture_of(own.tokens, own.scores, result.contrast)
    else:
        fits = own is not None and list(own.tokens) == (list(selected) or answer.reading.content)
        drawn = answer.picture_of(selected, own.scores if own and fits else None)
    plain, tokens = answer.facts.part(selected), list(selected) or answer.reading.content
    left = struck_trait(result.struck, plain, answer.facts.measured(tokens))
    others = [
        (reply["title"], reply["likelihood"], reply["text"])
        for number, reply in enumerate(replies)
        if number != at and reply["text"]
    ]
    taken = {position for entry in struck for position in struck_tokens(answer.reading, Struck.parse(entry))}
    curve = () if result.curve is None else result.curve.blocks
    sourced = NOT_CHECKED if result.citations is None else result.citations.sourced
    drawn = replace(drawn, name=replies[at]["title"]) if at else drawn
    return replace(drawn, left=left, others=others, curve=curve, sourced=sourced, struck=frozenset(taken))


def struck_tokens(reading: PromptWithReply, struck: Struck) -> list[int]:
    """The positions that are taken out."""
    units = [unit.tokens for unit in reading.units("sentence") if unit.source == struck.source]
    chosen = units if struck.sentence is None else units[struck.sentence :][:1]
    return [token for tokens in chosen for token in tokens]
