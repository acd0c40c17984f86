"""Griffe extension that turns docstrings into Markdown: examples into code blocks, and lists into lists."""

import re
from typing import Any

from griffe import Docstring, Extension, Object

LIST = re.compile(r"^(?! *- )(.*\S)\n(?=- )", re.MULTILINE)  # a list that begins right after a line of text
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *\n).*)*", re.MULTILINE)


class Examples(Extension):
    """Change the docstring of every object."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """A docstring with its examples in code blocks, and a blank line before each list.

    >>> to_markdown("One of:\\n- a\\n- b").splitlines()
    ['One of:', '', '- a', '- b']
    >>> to_markdown("Add.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    fenced = EXAMPLE.sub(lambda match: f"{match[1]}```pycon\n{match[0]}\n{match[1]}```", text)
    return LIST.sub(r"\1\n\n", fenced)
