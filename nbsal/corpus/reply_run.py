"""Replies to a whole table of prompts, read or written, explained shard by shard and resumed after interruptions."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any

from nbsal.corpus.folder.destination import open_destination
from nbsal.corpus.folder.manifest import RunSettings, Shard
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.replies import Replies, open_replies
from nbsal.corpus.reply_table import ASKED, Answers, to_table
from nbsal.corpus.run import check_explainers, run_shards
from nbsal.corpus.shards import Pending, Task, error_text, shard_of
from nbsal.corpus.sources.open import RowStream, UnreadableRow, open_columns
from nbsal.evaluation.cache import Explainers
from nbsal.explain.prompt.generate import Generated
from nbsal.explain.replies import check_budget, explain_row, plain, write_rows
from nbsal.explain.reply_settings import OF_ALL_ROWS, ReplySettings
from nbsal.explain.scoring.hops import Count
from nbsal.explain.scoring.served import server_of
from nbsal.support.errors import Cancelled, InputError, OverBudget, ServerError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, positive_number

if TYPE_CHECKING:
    from distributed import Client


@checked
def explain_replies(
    explainers: Explainers,
    source: Any,
    out: str | os.PathLike[str],
    asked: str = ASKED,
    documents: str | None = None,
    reply: str | None = None,
    client: "Client | None" = None,
    *,
    unit: Any = None,
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    hops: Count = 0,
    shard_rows: int = 100,
    resume: bool = True,
    overwrite: bool = False,
    progress: Progress = True,
    cancel: Event | None = None,
    **generate: Any,
) -> Replies:
    """Explain the reply to every row of a source, store the results as Parquet files in a folder, and open it.

    `asked`, `documents` and `reply` are names of columns: of prompts or lists of messages, of lists of documents, and
    of replies as texts or token ids. Without a reply, the model writes one, with the settings of `generate` that are
    passed; where these draw tokens, row i draws them from `seed` + i. All other arguments are those of `nbsal.answer`
    and of `nbsal.corpus.explain`, whose runs are interrupted and resumed alike; the manifest holds them.

    >>> import tempfile, nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/notes"), "occlusion")
    >>> rows = [{"asked": [{"role": "user", "content": "Where does Mara live?"}], "notes": ["Mara lives in Oslo."]}]
    >>> with tempfile.TemporaryDirectory() as out:
    ...     replies = explain_replies(explain, rows, out, documents="notes", unit="document", progress=False)
    ...     replies.sources(k=1)[["reply", "text"]].values.tolist()
    [[' Mara lives in Oslo.', 'Where does Mara live?']]
    """
    members, storage = check_explainers(explainers), open_destination(out, source)
    names = {"asked": asked, "documents": documents, "reply": reply}
    columns = {key: name for key, name in names.items() if name is not None}
    settings = ReplySettings.from_settings(
        next(iter(members.values())).subject.tokenizer, generate, unit=unit, number=number, template=template,
        tools=tools, seed=seed, batch_size=batch_size, hops=hops,
    )  # fmt: skip
    if seed is None and settings.generate.get("do_sample") and reply is None:
        message = "do_sample=True draws tokens, which a resumed run must draw again. Pass a seed."
        raise InputError(message, argument="seed", value=seed)
    shard_rows, recorded = positive_number(shard_rows, "shard_rows"), _plan_settings(settings, columns)

    def create_task(tokens: int | None) -> Task:
        plan = RunSettings.create(members, shard_rows, asked, None, "float32", tokens)
        plan = replace(plan, replies=recorded)
        return ReplyTask(explainers=members, plan=plan, settings=settings, columns=tuple(columns))

    opened = open_columns(source, list(columns.values()), texts=False)
    plain_rows = (tuple(map(plain, row)) if isinstance(row, tuple) else plain(row) for row in opened.rows)
    rows = RowStream(plain_rows, opened.total)
    run_shards(create_task, rows, storage, Replies, client, resume, overwrite, progress, cancel)
    return open_replies(out)


@dataclass(frozen=True, kw_only=True)
class ReplyTask(Task):
    """Explain the reply to every row; `columns` says what the values of a row are, if it has several."""

    settings: ReplySettings
    columns: Sequence[str]

    def prepared(self, pending: Iterable[Pending]) -> Iterable[Pending]:
        """The shards that are to be run; a server's budget must allow all of their calls."""
        if server_of(self.subject) is None:
            return pending
        shards = list(pending)  # as many as are paid for
        rows = {
            number * self.plan.shard_rows + at: self._row(v) for number, values in shards for at, v in enumerate(values)
        }
        check_budget(self.explainers, rows, self.settings)
        return shards

    def run(self, storage: Storage, number: int, values: Sequence[Any], meter: Meter) -> Shard:
        first = number * self.plan.shard_rows
        rows = [self._row(value) for value in values]
        written = enumerate(write_rows(self.subject, rows, self.settings, meter))
        results = [self._explain(row, first + place, meter, reply) for place, (row, reply) in written]
        asked = [row.get(ASKED) if isinstance(row, Mapping) else None for row in rows]
        data = to_table(self.plan, first, asked, results)
        sizes = [len(next(iter(result.values())).ids) for result in results if not isinstance(result, str)]
        shard = shard_of(self.plan, number, values, data, sizes)
        storage.write(shard.name, data)
        return shard

    def _row(self, value: Any) -> Any:
        if isinstance(value, UnreadableRow):
            return value
        values = value if isinstance(value, tuple) and len(value) == len(self.columns) else (value,)
        row = dict(zip(self.columns, values, strict=False))
        return row | {"documents": row.get("documents") or None}  # an empty cell holds no documents

    def _explain(self, row: Any, at: int, meter: Meter, written: Generated | None) -> Answers:
        """The answers of a row, or the text of the error that prevented them."""
        done = meter.done
        try:
            meter.check()
            if isinstance(row, UnreadableRow):
                return row.reason
            return explain_row(self.explainers, row, at, self.settings, meter, written)
        except (Cancelled, ServerError, OverBudget):  # these are about all rows
            raise
        except Exception as error:  # a model may raise anything for a text: store the error and continue
            return error_text(error)
        finally:
            meter.reach(done + 1)


def _plan_settings(settings: ReplySettings, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the manifest holds of the settings; a template and tools as checksums."""
    entries = {name: getattr(settings, name) for name in (*OF_ALL_ROWS, "generate")} | {"columns": dict(columns)}
    if settings.template_settings:
        entries["template_settings"] = settings.template_settings
    for name in ("template", "tools"):
        if entries[name] is not None:
            entries[name] = hashlib.sha256(repr(entries[name]).encode()).hexdigest()
    stored: dict[str, Any] = json.loads(json.dumps(entries, default=repr))
    return stored
