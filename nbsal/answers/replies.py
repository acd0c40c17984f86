"""Replies to many prompts, read, written and explained with the same settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from nbsal.answers.answer import Answer
from nbsal.answers.batch_generate import generate_batch, writes_each_alone
from nbsal.answers.explain import explain_reading, read, read_asked
from nbsal.answers.generate import Generated, check_settings
from nbsal.answers.reading import Prompt
from nbsal.answers.running import Explains
from nbsal.model.subject import Subject
from nbsal.support.errors import Cancelled, InputError, ModelError, NbsalError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, is_iterable, positive_number, seed_number

ASKED = ("asked", "messages")  # names of what is asked, in a row
WRITTEN = 8  # replies that are written together


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
        self,
        explainers: Mapping[str, Explains],
        row: Any,
        at: int,
        meter: Meter | None = None,
        written: Generated | None = None,
    ) -> dict[str, Answer]:
        """Answers of row number `at` by each explainer; `meter` counts to 1.

        `written` is what the model wrote together with other replies, if it did. What it would not write by itself,
        since padding has an effect in some models, is written again.
        """
        if written is not None:
            try:
                answers = self._explain(explainers, row, at, meter, written)
                if (next(iter(answers.values())).statistics.rank == 1).all():
                    return answers
            except (InputError, ModelError):
                pass
        return self._explain(explainers, row, at, meter, None)

    def _explain(
        self, explainers: Mapping[str, Explains], row: Any, at: int, meter: Meter | None, written: Generated | None
    ) -> dict[str, Answer]:
        asked, documents, reply = parse_row(row)
        seed = None if self.seed is None else seed_number(self.seed) + at
        subject, settings = next(iter(explainers.values())).subject, dict(self.generate)
        reading, origin = read(
            subject, asked, reply, documents, self.template, self.tools, seed, None, None, settings, written
        )
        total = len(reading.reply_ids) * len(explainers)
        part = None if meter is None else meter.part(1, total)
        return explain_reading(explainers, reading, origin, self.unit, self.number, self.batch_size, part)

    def write(self, subject: Subject, rows: Sequence[Any], meter: Meter) -> Iterator[tuple[Any, Generated | None]]:
        """Each row, with its reply if the model can write it together with those of the rows beside it."""
        size = positive_number(self.batch_size, "batch_size") if self.batch_size is not None else WRITTEN
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            yield from zip(some, self._write_batch(subject, some, meter), strict=True)

    def _write_batch(self, subject: Subject, rows: Sequence[Any], meter: Meter) -> list[Generated | None]:
        replies: list[Generated | None] = [None] * len(rows)
        prompts = {
            place: prompt for place, row in enumerate(rows) if (prompt := self._prompt(subject, row)) is not None
        }
        if len(prompts) > 1:
            settings = check_settings(dict(self.generate))
            try:
                written = generate_batch(subject, list(prompts.values()), settings, meter.check)
            except Cancelled:
                raise
            except Exception:  # a model may raise anything for several texts, and still write the reply to one
                return replies
            for place, reply in zip(prompts, written, strict=True):
                replies[place] = reply
        return replies

    def _prompt(self, subject: Subject, row: Any) -> Prompt | None:
        """The prompt of a row whose reply can be written together with others."""
        try:
            asked, documents, reply = parse_row(row)
            settings = dict(self.generate)
            if reply is not None or not writes_each_alone(subject, settings):
                return None
            return read_asked(subject, asked, documents, self.template, self.tools, settings)
        except Exception:  # what is wrong with a row, its own explanation says
            return None


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
        at = 0
        try:
            for at, (row, written) in enumerate(settings.write(explainer.subject, rows, meter)):
                meter.check()
                answers.append(settings.explain({"": explainer}, row, at, meter, written)[""])
                meter.reach(at + 1)
        except NbsalError as error:
            if not isinstance(error, Cancelled):
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
