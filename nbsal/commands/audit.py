"""`nbsal audit`: what a classifier relies on over a file of texts, and which words are behind its mistakes."""

import argparse
from pathlib import Path
from typing import Any

import nbsal
from nbsal.commands.shared import write_page
from nbsal.render import html
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.validation import plural

SHOWN = 10  # words that are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)
    parser.add_argument("source", metavar="SOURCE", help="a .parquet, .csv or .jsonl file")
    parser.add_argument("--text", default="text", metavar="COLUMN", help="column of the texts (default %(default)s)")
    parser.add_argument("--label", metavar="COLUMN", help="column of the labels (default: none, so no mistakes)")
    parser.add_argument(
        "--group", action="append", default=[], metavar="COLUMN", help="compare errors between its values"
    )
    parser.add_argument("--model", help="as in `nbsal explain`")
    parser.add_argument("--lm", help="as in `nbsal explain`")
    parser.add_argument("--method", help="method whose scores propose words (default as in `nbsal explain`)")
    parser.add_argument(
        "--least", type=int, default=5, metavar="N", help="texts in which scores must name a word (default %(default)s)"
    )
    parser.add_argument(
        "--words", type=int, default=200, metavar="N", help="words that are tried (default %(default)s)"
    )
    parser.add_argument("--plan", action="store_true", help="print how much would be run, and run nothing")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as an HTML page")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the audit, as `Audit.save` does")


def run(options: argparse.Namespace) -> int:
    """Audit the texts of a file, and print the words that matter most."""
    from nbsal.evaluation.audit.plan import plan_audit

    values = _read_columns(options)
    texts, settings = values[options.text], {"least": options.least, "candidates": options.words}
    subject = nbsal.load(options.model or nbsal.samples.default_classifier(), lm=options.lm)
    explain = nbsal.Explainer(subject, options.method)
    print(plan_audit(explain, texts, **settings), flush=True)
    if options.plan:
        return 0
    groups = {name: values[name] for name in options.group}
    audit = nbsal.audit(explain, texts, values.get(options.label), groups=groups, **settings)
    if options.html:
        write_page(options.html, audit.to_html())
    if options.save:
        audit.save(options.save)
    print(html.visible(audit.sentence))
    words, slices = audit.beyond_chance
    for note in audit.notes:
        print(html.visible(note))
    print(html.visible(audit.words.head(SHOWN).round(3).to_string(index=False)))
    print(f"beyond chance: {plural(len(words), 'word')}, {plural(len(slices), 'slice')}")
    return 0


def _read_columns(options: argparse.Namespace) -> dict[str, list[Any]]:
    """The columns that the options name; the error about a missing one says which option names another."""
    from nbsal.corpus.sources.open import UnreadableRow, open_columns

    named = {options.text: "--text"} | dict.fromkeys(options.group, "--group")
    named |= {options.label: "--label"} if options.label else {}
    try:
        rows = list(open_columns(options.source, list(named), texts=False).rows)
    except UnknownName as error:
        if error.value not in named:  # the format of the file
            raise
        choice = f"Its columns: {', '.join(map(str, error.valid))}. Pass {named[error.value]} NAME."
        problem = f"{options.source} has no column {error.value!r}."
        raise UnknownName(named[error.value], error.value, error.valid, problem, choice) from None
    for row in rows:
        if isinstance(row, UnreadableRow):
            advice = f"{' NAME, '.join(dict.fromkeys(named.values()))} NAME"
            message = f"{row.reason} Name columns that every row has: {advice}."
            raise InputError(message, argument="source", value=options.source)
    columns = zip(*(row if isinstance(row, tuple) else (row,) for row in rows), strict=True)
    return dict(zip(named, map(list, columns), strict=True)) if rows else {name: [] for name in named}
