"""Replies to many prompts, read, written and explained with the same settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nbsal.explain.answer import Answer
from nbsal.explain.citations.subsets import citable
from nbsal.explain.prompt.generate import Generated, generate_batch, writes_each_alone
from nbsal.explain.prompt.reading import Prompt
from nbsal.explain.prompt.requests import read_asked
from nbsal.explain.prompt.sources import uses_tools
from nbsal.explain.reply import explain_reading, needs_of, read, size_before, size_of
from nbsal.explain.reply_settings import ASKED, OF_ALL_ROWS, ReplySettings
from nbsal.explain.scoring import served
from nbsal.explain.scoring.running import Explains
from nbsal.methods.base import Method
from nbsal.methods.default import ReplySize, check_reply_fits, default_for_reply
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.subject import Subject
from nbsal.support.errors import Cancelled, InputError, ModelError, NbsalError
from nbsal.support.progress import Meter
from nbsal.support.validation import is_iterable

WRITTEN = 8  # replies that are written together


def explain_rows(explainer: Explains, rows: Any, **arguments: Any) -> list[Answer]:
    """Answers of all rows, in order, by an explainer; the arguments are those of `nbsal.answer`.

    Each row is a prompt, a list of messages, or a dict (or a row of a data frame) with "asked" or "messages", and
    perhaps "documents" and "reply". Row i draws tokens from `seed` + i. An error keeps the answers before it as
    `partial`.
    """
    settings = ReplySettings.parse(explainer.subject.tokenizer, arguments, (*OF_ALL_ROWS, "progress", "cancel"))
    rows, answers = list_rows(rows), list[Answer]()
    check_budget({"": explainer}, dict(enumerate(rows)), settings)
    with Meter(len(rows), settings.progress, settings.cancel) as meter:
        at = 0
        try:
            for at, (row, written) in enumerate(write_rows({"": explainer}, rows, settings, meter)):
                meter.check()
                answers.append(explain_row({"": explainer}, row, at, settings, meter, written)[""])
                meter.reach(at + 1)
        except NbsalError as error:
            if not isinstance(error, Cancelled):
                error.add_note(f"This is about row {at} of rows.")
            error.partial = answers
            raise
    return answers


def check_budget(explainers: Mapping[str, Explains], rows: Mapping[int, Any], settings: ReplySettings) -> None:
    """Refuse to begin with rows, by their numbers, that need more calls than the budget of a server has."""
    server = served.server_of(next(iter(explainers.values())).subject)
    if server is None or server.endpoint.budget is None:
        return
    needs = []
    for at, row in rows.items():
        with suppress(Exception):  # what is wrong with a row, its own explanation says
            asked, reply, own = _row_settings(row, at, settings)
            needs.append(needs_of(server, explainers, asked, reply, replace(own, check=False)))
    server.caller.check(server.plan(needs).calls)


def explain_row(
    explainers: Mapping[str, Explains],
    row: Any,
    at: int,
    settings: ReplySettings,
    meter: Meter,
    written: Generated | None = None,
) -> dict[str, Answer]:
    """Answers of row number `at` by each explainer; `meter` counts to 1.

    `written` is what the model wrote together with other replies, if it did. What it would not write by itself, since
    padding has an effect in some models, is written again.
    """
    asked, reply, settings = _row_settings(row, at, settings)
    subject, methods = _parts(explainers)

    def explain(written: Generated | None) -> dict[str, Answer]:
        reading, origin = read(subject, asked, reply, settings, written, methods)
        part = meter.part(1, len(reading.reply_ids) * len(explainers))
        answers = explain_reading(explainers, reading, origin, settings, part)
        cites = settings.citations and citable(reading.prompt)
        return {name: each.check_citations(progress=False) for name, each in answers.items()} if cites else answers

    if written is not None:
        try:
            answers = explain(written)
            if (next(iter(answers.values())).statistics.rank == 1).all():
                return answers
        except (InputError, ModelError):
            pass
    return explain(None)


def default_for_rows(subject: Subject, rows: Iterable[Any], settings: ReplySettings) -> str:
    """The method for the replies to all rows where none is named, which the longest one decides."""
    longest, size, has_documents = 0, None, False
    for row in rows:
        with suppress(Exception):  # what is wrong with a row, its own explanation says
            asked, reply, own = _row_settings(row, 0, settings)
            has_documents = has_documents or bool(own.documents) or uses_tools(asked)
            length = len(f"{asked}{own.documents}{reply}")
            if length > longest and not isinstance(subject.model, StandIn):
                size, longest = _size_of(subject, asked, reply, own), length
    return default_for_reply(subject, has_documents, settings.unit, settings.hops, size)


def _size_of(subject: Subject, asked: Any, reply: Any, settings: ReplySettings) -> ReplySize:
    if reply is None:
        return size_before(read_asked(subject, asked, settings), settings)
    return size_of(read(subject, asked, reply, settings)[0])


def write_rows(
    explainers: Mapping[str, Explains], rows: Sequence[Any], settings: ReplySettings, meter: Meter
) -> Iterator[tuple[Any, Generated | None]]:
    """Each row, with its reply if the model can write it together with those of the rows beside it."""
    size = settings.batch_size or WRITTEN
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        written = _write_batch(explainers, some, settings, meter)
        yield from ((row, written.get(place)) for place, row in enumerate(some))


def _write_batch(
    explainers: Mapping[str, Explains], rows: Sequence[Any], settings: ReplySettings, meter: Meter
) -> dict[int, Generated]:
    """The replies, by place, that the model can write together."""
    subject, methods = _parts(explainers)
    prompts = {
        place: prompt
        for place, row in enumerate(rows)
        if (prompt := _prompt(subject, methods, row, settings)) is not None
    }
    try:
        return generate_batch(subject, prompts, settings.generate, meter.check)
    except Cancelled:
        raise
    except Exception:  # a model may raise anything for several texts, and still write the reply to one
        return {}


def _prompt(subject: Subject, methods: Sequence[Method], row: Any, settings: ReplySettings) -> Prompt | None:
    """The prompt of a row whose reply can be written together with others."""
    try:
        asked, reply, settings = _row_settings(row, 0, settings)
        if reply is not None or not writes_each_alone(subject, settings.generate):
            return None
        prompt = read_asked(subject, asked, settings)
        check_reply_fits(subject, methods, size_before(prompt, settings))
        return prompt
    except Exception:  # what is wrong with a row, its own explanation says
        return None


def _parts(explainers: Mapping[str, Explains]) -> tuple[Subject, list[Method]]:
    """The model that all explainers explain, and their methods."""
    methods = [explainer.method for explainer in explainers.values()]
    return next(iter(explainers.values())).subject, methods


def _row_settings(row: Any, at: int, settings: ReplySettings) -> tuple[Any, Any, ReplySettings]:
    """What is asked in row number `at`, the reply (None: the model writes it), and the settings of that row."""
    asked, documents, reply = parse_row(row)
    seed = None if settings.seed is None else settings.seed + at
    return asked, reply, replace(settings, documents=documents, seed=seed)


def list_rows(rows: Any) -> list[Any]:
    """The rows of a data frame, or of any list of texts, messages or dicts."""
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        rows = rows.to_dict("records")
    if isinstance(rows, Mapping | bytes) or not is_iterable(rows):
        message = f'rows must be a list of prompts or of dicts with "asked", or a data frame, not {rows!r:.60}.'
        raise InputError(message, argument="rows", value=rows)
    return list(rows)


def parse_row(row: Any) -> tuple[Any, Any, Any]:
    """What is asked, the documents and the reply (None: the model writes it) of one row."""
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
    """A value of a table as Python's own lists, dicts, texts and numbers; what is missing as None."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value
