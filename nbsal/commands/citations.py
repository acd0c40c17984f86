"""`nbsal citations`: whether the replies of a file use the documents that they cite."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbsal
from nbsal.commands.shared import add_layout
from nbsal.render import html
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import file_path, loading, plural

QUESTION = "question"  # column of a log that has questions instead of messages
OUT = ".citations"  # behind the name of the file: the folder of the results
READ = ("asked", "messages", "documents", "reply")
SHOWN = 60  # characters of a statement that is printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)
    purpose = "a .jsonl, .csv or .parquet file with messages (or question), documents and reply"
    parser.add_argument("source", metavar="SOURCE", help=purpose)
    parser.add_argument("--model", default="demo/notes", help="as in `nbsal answer` (default %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help=f"folder of the results; run again to resume (default: SOURCE{OUT})"
    )
    add_layout(parser)
    parser.add_argument(
        "--group", action="append", default=[], metavar="COLUMN", help="compare verdicts between its values"
    )


def run(options: argparse.Namespace) -> int:
    """Explain the replies of a file, and print the shares of the verdicts and the citations that documents fail."""
    rows = _read(options.source)
    for name in options.group:
        if missing := [number for number, row in enumerate(rows) if name not in row]:
            message = f"{options.source} has no {name!r} in row {missing[0]}. Name a column that every row has."
            raise InputError(message, argument="--group", value=name)
    subject = nbsal.load(options.model)
    requests = [_request(row, subject) for row in rows]
    out = options.out or Path(f"{options.source}{OUT}")
    replies: Any = nbsal.corpus.explain(
        nbsal.Explainer(subject, "occlusion"), requests, out, layout=options.layout, citations=True
    )
    frame = replies.citations()
    print(f"{out}: {plural(len(frame), 'citation')} in {plural(replies.rows, 'row')}")
    if replies.failed:
        failures = replies.failures()
        first = html.visible(f"row {failures['text_id'][0]}: {failures['error'][0]}")
        print(f"{replies.failed:,} could not be explained; first: {first}")
    if frame.empty:
        return 0 if not replies.failed else 1
    groups: dict[str, Any] = {"all": None, "position of the document": "position"}
    groups |= {name: [row[name] for row in rows] for name in options.group}
    for title, by in groups.items():
        shares = replies.verdicts(by)
        print(f"\n{title}")
        print(html.visible(shares[shares["share"] > 0].round(3).to_string(index=False)))
    print("\nnot supported")
    wrong = frame[frame["verdict"] != "supported"][["text_id", "statement", "cites", "verdict", "used_instead"]]
    wrong = wrong.assign(statement=wrong["statement"].str.slice(0, SHOWN))
    print(html.visible(wrong.head(10).to_string(index=False)) if len(wrong) else "none")
    return 0


def _read(source: str) -> list[dict[str, Any]]:
    """The rows of a file as dicts."""
    from nbsal.explain.replies import plain  # imports torch

    path = Path(file_path(source, "source"))
    readers: dict[str, Any] = {".csv": pandas.read_csv, ".parquet": pandas.read_parquet}
    if path.suffix != ".jsonl" and path.suffix not in readers:
        raise UnknownName("format", path.suffix, (".jsonl", *readers))
    with loading(path, "file of replies"):
        if path.suffix == ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return [dict(json.loads(line)) for line in lines if line.strip()]
        return [plain(row) for row in readers[path.suffix](path).to_dict("records")]


def _request(row: Mapping[str, Any], subject: "nbsal.Subject") -> dict[str, Any]:
    """What a row of a log asks: its messages, or its question as a message if the model reads chats."""
    request = {name: row[name] for name in READ if row.get(name) is not None}
    if QUESTION not in row or not request.keys().isdisjoint(("asked", "messages")):
        return request
    chats = getattr(subject.tokenizer, "chat_template", None) is not None
    return request | {"asked": [{"role": "user", "content": row[QUESTION]}] if chats else row[QUESTION]}
