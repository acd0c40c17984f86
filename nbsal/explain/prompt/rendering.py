"""Chat templates, which are programs of whoever made the model, rendered with a limit of steps and of size."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from math import prod
from typing import Any

STEPS = 1_000_000  # lines of a template that are run
SIZE = 2**22  # characters of a rendered chat, beside four times those of the messages
LARGEST = 1_000_000  # whole number in a template
REPEATED = 10_000  # times that a constant may be repeated by another one


class TooLarge(Exception):
    """A template that does, or writes, more than any chat needs."""


def parse_template(text: str) -> Any:
    from jinja2 import Environment

    plain = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", text)
    return Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)


def render(tokenizer: Any, messages: Any, **options: Any) -> str:
    """A chat in the template of its tokenizer, or in the `chat_template` among the options."""
    with suppress(AttributeError, ValueError):  # the tokenizer says it better
        _check_constants(tokenizer.get_chat_template(options.get("chat_template")))
    with _limited_steps():
        text = str(tokenizer.apply_chat_template(messages, tokenize=False, **options))
    if len(text) > SIZE + 4 * len(str((messages, options))):
        raise TooLarge(f"it writes {len(text):,} characters")
    return text


@lru_cache
def _check_constants(template: str) -> None:
    """Refuse numbers that are computed, and texts that are repeated, while a template is compiled."""
    from jinja2 import TemplateSyntaxError, nodes

    with suppress(TemplateSyntaxError):  # which the tokenizer says better
        tree = parse_template(template)
        for product in tree.find_all(nodes.Mul):
            if next(product.find_all(nodes.Name), None) is None and prod(_numbers(product)) > REPEATED:
                raise TooLarge("it repeats a text too often")
        if next(tree.find_all(nodes.Pow), None) is not None or max(_numbers(tree), default=0) > LARGEST:
            raise TooLarge("it has too large numbers")


def _numbers(tree: Any) -> list[int]:
    from jinja2 import nodes

    return [node.value for node in tree.find_all(nodes.Const) if type(node.value) is int]


@contextmanager
def _limited_steps() -> Iterator[None]:
    """Stop a template that runs too many lines, in this thread."""
    before, left = sys.gettrace(), STEPS

    def trace(frame: Any, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename == "<template>" else None

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLarge(f"it takes more than {STEPS:,} steps")
        return count

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
