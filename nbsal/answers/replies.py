"""Replies to many prompts, read, written and explained with the same settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from nbsal.answers.answer import Answer
from nbsal.answers.explain import explain_reading, read
from nbsal.answers.running import Explains
from nbsal.errors import InputError, NbsalError
from nbsal.progress import Meter, Progress
from nbsal.validation import checked, is_iterable, seed_number

ASKED = ("asked", "messages")  # names of what is asked, in a row


@dataclass(frozen=True)
class ReplySettings:
    """Arguments of `nbsal.answer` that hold for every row of a table; `seed` is that of the first row.

    Row i draws from `seed` + i, so that rows can be explained in any order.
    """

    unit: Any = "sentence"
    number: str | None = None
    template: str | None = None
    tools: Any = None
    seed: int | None = None
    batch_size: int | None = None
    generate: Mapping[str, Any] = field(default_factory=dict)

    def explain(
        self, explainers: Mapping[str, Explains], row: Any, at: int, meter: Meter | None = None
    ) -> dict[str, Answer]:
        """Answers of row number `at` by each explainer; `meter` counts to 1."""
        asked, documents, reply = parse_row(row)
        seed = None if self.seed is None else seed_number(self.seed) + at
        subject = next(iter(explainers.values())).subject
        reading, origin = read(
            subject, asked, reply, documents, self.template, self.tools, seed, None, None, dict(self.generate)
        )
        total = len(reading.reply_ids) * len(explainers)
        part = None if meter is None else meter.part(1, total)
        return explain_reading(explainers, reading, origin, self.unit, self.number, self.batch_size, part)


@checked
def explain_rows(
    explainer: Any,
    rows: Any,
    *,
    unit: Any = "sentence",
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
    **generate: Any,
) -> list[Answer]:
    """Answers of all rows, in order, by an explainer; the arguments are those of `nbsal.answer`.

    Each row is a prompt, a list of messages, or a dict (or a row of a data frame) with "asked" or "messages", and
    perhaps "documents" and "reply". An error keeps the answers before it as `partial`.
    """
    settings = ReplySettings(unit, number, template, tools, seed, batch_size, generate)
    rows, answers = list_rows(rows), list[Answer]()
    with Meter(len(rows), progress, cancel) as meter:
        for at, row in enumerate(rows):
            try:
                meter.check()
                answers.append(settings.explain({"": explainer}, row, at, meter)[""])
            except NbsalError as error:
                error.add_note(f"This is about row {at} of rows.")
                error.partial = answers
                raise
    return answers


def list_rows(rows: Any) -> list[Any]:
    """The rows of a data frame, or of any list of texts, messages or dicts.

    >>> list_rows([{"asked": "Who?"}, "What?"])
    [{'asked': 'Who?'}, 'What?']
    """
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        rows = rows.to_dict("records")
    if isinstance(rows, Mapping | bytes) or not is_iterable(rows):
        message = f'rows must be a list of prompts or of dicts with "asked", or a data frame, not {rows!r:.60}.'
        raise InputError(message, argument="rows", value=rows)
    return list(rows)


def parse_row(row: Any) -> tuple[Any, Any, Any]:
    """What is asked, the documents and the reply (None: the model writes it) of one row.

    >>> parse_row({"asked": "Who?", "documents": None, "reply": "Ada."})
    ('Who?', None, 'Ada.')
    """
    row = plain(row)
    if not isinstance(row, Mapping):
        return row, None, None
    present = [name for name in ASKED if row.get(name) is not None]
    if len(present) != 1:
        problem = "has both" if present else "has neither"
        message = f"A row needs a prompt as asked, or messages; this one {problem}. It has {', '.join(map(str, row))}."
        raise InputError(message, argument="rows", value=row)
    return row[present[0]], row.get("documents"), row.get("reply")


def plain(value: Any) -> Any:
    """A value of a table as Python's own lists, dicts, texts and numbers; what is missing as None.

    >>> plain({"asked": "Who?", "reply": float("nan")})
    {'asked': 'Who?', 'reply': None}
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value
