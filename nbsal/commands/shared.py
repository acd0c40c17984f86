"""Arguments that several commands have."""

import argparse
from pathlib import Path
from typing import Any

import nbsal
from nbsal.support.validation import file_errors

UNITS = "token, word, sentence, paragraph, document, message"


def add_max_new_tokens(parser: argparse._ActionsContainer) -> None:
    purpose = "longest reply that the model may write, in tokens (default %(default)s)"
    parser.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help=purpose)


def add_layout(parser: argparse._ActionsContainer) -> None:
    purpose = 'how documents are written in the prompt; numbered ones begin with "[1] " (default %(default)s)'
    parser.add_argument("--layout", choices=("plain", "numbered"), default="plain", help=purpose)


def add_hops(parser: argparse._ActionsContainer) -> None:
    purpose = 'follow scores through the reply this often, a number or "all" (default %(default)s)'
    parser.add_argument("--hops", type=lambda text: int(text) if text.isdecimal() else text, default=0, help=purpose)


def parse_target(text: str | None, subject: "nbsal.Subject") -> Any:
    """A target from the command line: a label, or numbers with commas for spans, token classes and token ids."""
    from nbsal.model.loading.usage import PREDICTS_TOKENS

    if text is None or text in subject.labels:
        return text
    parts = [int(part) if part.strip().isdecimal() and part.isascii() else part for part in text.split(",")]
    if subject.task in PREDICTS_TOKENS and not isinstance(parts[0], int):
        return text
    return tuple(parts) if len(parts) > 1 else parts[0]


def write_page(path: Path, page: str) -> None:
    """Write the page of a result; an error names the option."""
    with file_errors("--html", path):
        path.write_text(page, encoding="utf-8")
