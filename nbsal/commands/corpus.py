"""`nbsal corpus`: explain every text, or the reply to every prompt, of a file."""

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import nbsal
from nbsal.commands.shared import UNITS, add_hops, add_layout, add_max_new_tokens, parse_target
from nbsal.render import html
from nbsal.support.errors import InputError, MissingExtra
from nbsal.support.validation import plural


def add_arguments(corpus: argparse.ArgumentParser) -> None:
    corpus.set_defaults(run=run)
    corpus.add_argument("source", metavar="SOURCE", help="a .parquet, .csv or .jsonl file")
    corpus.add_argument("out", metavar="OUT", help="output folder; run again to resume an interrupted run")
    corpus.add_argument("--text", default="text", metavar="COLUMN", help="column of the texts (default %(default)s)")
    corpus.add_argument("--pair", metavar="COLUMN", help="column of the second text of each pair")
    corpus.add_argument("--model", help="as in `nbsal explain` (for replies, default demo/notes)")
    corpus.add_argument("--lm", help="as in `nbsal explain`")
    corpus.add_argument(
        "--method",
        action="append",
        help="as in `nbsal explain`; repeat it for several (default as there; for replies as in `nbsal answer`)",
    )
    corpus.add_argument("--layer", type=int, help="hidden layer of every method (default: each method's default layer)")
    corpus.add_argument("--target", help="one label for all texts (default: the prediction)")
    corpus.add_argument(
        "--shard-rows", type=int, default=1000, metavar="N", help="texts in each output file (default %(default)s)"
    )
    corpus.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a Dask cluster (default: run in this process)"
    )
    replies = corpus.add_argument_group("replies", "Explain the replies of a language model, if a column is named.")
    replies.add_argument("--asked", metavar="COLUMN", help="column of the prompts or lists of messages")
    replies.add_argument("--documents", metavar="COLUMN", help="column of the lists of documents")
    add_layout(replies)
    replies.add_argument("--reply", metavar="COLUMN", help="column of the replies (default: the model writes them)")
    replies.add_argument("--unit", help=f"one of {UNITS} (default: document with --documents, else sentence)")
    add_hops(replies)
    replies.add_argument("--seed", type=int, help="draw the tokens of reply i from this seed + i (default: likeliest)")
    add_max_new_tokens(replies)


def run(options: argparse.Namespace) -> int:
    from nbsal.corpus.run import default_methods

    columns = {"asked": options.asked, "documents": options.documents, "reply": options.reply}
    asks = any(column is not None for column in columns.values())
    model = options.model or ("demo/notes" if asks else nbsal.samples.default_classifier())
    subject = nbsal.load(model, lm=options.lm)
    text = options.text if options.pair is None else (options.text, options.pair)
    names = options.method
    if names is None:
        names = default_methods(subject, options.source, options.out, text, columns, _reply_settings(options)) or [None]
    if len(set(names)) < len(names):
        message = f"--method names a method twice: {', '.join(names)}. Name each once."
        raise InputError(message, argument="--method", value=names)
    layers = {} if options.layer is None else {"layer": options.layer}
    explainers = [nbsal.Explainer(subject, name, **layers) for name in names]
    settings = {"shard_rows": options.shard_rows} | columns | _reply_settings(options)
    if options.asked is None:
        settings |= {"text": text, "target": parse_target(options.target, subject)}
    try:
        with _client(options.scheduler) as client:
            corpus = nbsal.corpus.explain(explainers, options.source, options.out, client=client, **settings)
    except KeyboardInterrupt:
        print(f"Interrupted. Run the same command again to resume from {options.out}.", file=sys.stderr)
        raise
    replies = isinstance(corpus, nbsal.corpus.Replies)  # a source may say so without --asked
    noun = "reply" if replies else "text"
    counts = ((corpus.rows, "row" if replies else "text"), (corpus.tokens, "token"), (corpus.size, "byte"))
    print(f"{options.out}: {', '.join(plural(*count) for count in counts)}")
    truncated = "" if replies else f", {corpus.truncated:,} truncated to the model's length"
    print(f"{corpus.failed:,} could not be explained{truncated}")
    if corpus.failed:
        failures = corpus.failures()
        first = html.visible(f"first failure: text {failures['text_id'][0]}: {failures['error'][0]}")
        print(first)
    if len(corpus):
        return 0
    problem = f"no {noun} was explained; {first}" if corpus.failed else f"{options.source} has no texts to explain"
    print(f"nbsal: {' '.join(problem.split())}", file=sys.stderr)
    return 1


def _reply_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Settings of replies that differ from the defaults; texts have none."""
    from nbsal.explain.reply_settings import DEFAULTS

    settings: dict[str, Any] = {} if options.unit is None else {"unit": options.unit}
    settings |= {} if options.layout == "plain" else {"layout": options.layout}
    settings |= {"hops": options.hops} if options.hops else {}
    if options.max_new_tokens != DEFAULTS["max_new_tokens"]:
        settings["max_new_tokens"] = options.max_new_tokens
    return settings if options.seed is None else settings | {"seed": options.seed, "do_sample": True}


def _client(address: str | None) -> AbstractContextManager[Any]:
    """A client of the Dask cluster at that address; without an address, a context that yields None."""
    if address is None:
        return nullcontext()
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError:
        raise MissingExtra("Explaining on a cluster", "scale") from None
    try:
        get_address_host_port(address)
    except ValueError as error:
        message = f"--scheduler must be an address such as tcp://127.0.0.1:8786, not {address!r}: {error}."
        raise InputError(message, argument="scheduler", value=address) from None
    client: AbstractContextManager[Any] = Client(address, timeout=10)
    return client
