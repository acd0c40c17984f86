"""What the Answers view shows of citations: what their check would take, then each statement with its verdict."""

from typing import Any

from nbsal.explain.answer import Answer
from nbsal.explain.citations.cited import most_passes
from nbsal.explain.citations.sourced import SourcedRows
from nbsal.explain.sentences import citation_sentences as sentences
from nbsal.support.errors import InputError


def citations_trait(answer: Answer, checked: Answer | None) -> dict[str, Any]:
    """The rows of what is checked, else what the check would take; nothing where nothing can be checked."""
    if checked is not None:
        return rows_trait(checked.sourced)
    offer = offer_of(answer)
    return {"offer": offer} if offer else {}


def offer_of(answer: Answer) -> str:
    """What a check would take; blank without citations, documents or a model."""
    reply = answer.cited()
    try:
        count = 0 if answer.running is None else len(reply.citations)
    except InputError:  # there are no documents
        return ""
    return sentences.offer(count, most_passes(reply)) if count else ""


def rows_trait(rows: SourcedRows) -> dict[str, Any]:
    """The lists of the page below their finding."""
    lists = {"statements": rows.statements, "fields": rows.fields}
    return {"finding": rows.finding, "note": rows.note} | {name: [*map(vars, some)] for name, some in lists.items()}
