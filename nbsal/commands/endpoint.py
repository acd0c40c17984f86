"""The arguments of `nbsal answer` about a model behind a server; its key is never one of them."""

import argparse
from pathlib import Path

import nbsal
from nbsal.support.errors import InputError

OF_SERVERS = ("budget", "cache", "tokenizer", "plan")


def add_endpoint(parser: argparse._ActionsContainer) -> None:
    """Where a served model is, and how often it may be asked."""
    parser.add_argument(
        "--endpoint", metavar="URL",
        help="address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1, that has the model; its key "
        "is read from NBSAL_API_KEY, or OPENAI_API_KEY for api.openai.com and this machine",
    )  # fmt: skip
    parser.add_argument("--budget", type=int, metavar="N", help="most requests that may be sent (default 1000)")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="file that keeps what the server said (sqlite)")
    parser.add_argument("--tokenizer", help="folder or hub id of the served model's tokenizer (default: words)")
    parser.add_argument("--plan", action="store_true", help="print how many requests would be sent, and send none")


def add_server(parser: argparse.ArgumentParser) -> None:
    """Which server and model are checked."""
    parser.add_argument("--endpoint", metavar="URL", help="address of an OpenAI-compatible server to check instead")
    parser.add_argument("--model", help="name under which the server knows the model (default: the first it lists)")
    parser.add_argument("--tokenizer", help="folder or hub id of the model's tokenizer (default: words)")


def load_replier(options: argparse.Namespace) -> nbsal.Subject:
    """The model of `nbsal answer`: behind a server, or loaded here."""
    if options.endpoint is None:
        for name in OF_SERVERS:
            if getattr(options, name) not in (None, False):
                message = f"--{name} is about a server. Pass its address as --endpoint."
                raise InputError(message, argument=f"--{name}", value=getattr(options, name))
        return nbsal.load(options.model or "demo/notes")
    if not options.model:
        message = "--endpoint needs --model, the name under which the server knows the model."
        raise InputError(message, argument="--model", value=options.model)
    settings = {
        name: value for name in ("budget", "cache", "tokenizer") if (value := getattr(options, name)) is not None
    }
    return nbsal.load(nbsal.Endpoint(options.endpoint, options.model, **settings))
