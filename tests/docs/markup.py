"""Markdown extension of the site: formulas become MathML, which needs no script, and tables lose an empty header."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor

# What pymdownx.arithmatex writes around a formula.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
EMPTY_HEADER = re.compile(r"<thead>\s*<tr>(?:\s*<th[^>]*></th>)+\s*</tr>\s*</thead>")
UNKNOWN = (r"\arg\min", r"\operatorname{argmin}")  # a command of LaTeX that the converter does not know
EMPTY_CELL = re.compile(r"<th([^>]*)></th>")
LAST = 0  # priority: after the formulas are back in their places


class Markup(Postprocessor):
    """Replace the formulas of a page; a header of a table without text is no header."""

    def run(self, text: str) -> str:
        return FORMULA.sub(_formula, EMPTY_CELL.sub(r"<td\1></td>", EMPTY_HEADER.sub("", text)))


def _formula(match: re.Match[str]) -> str:
    display = "block" if match[1] == "div" else "inline"
    formula = convert(unescape(match[2]).replace(*UNKNOWN).strip(), display=display)
    if "\\" in formula:
        raise ValueError(f"The converter to MathML does not know a command in {match[2]!r}. Write it otherwise.")
    return f'<div class="formula">{formula}</div>' if display == "block" else formula


class MarkupExtension(Extension):
    """Add the postprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Python-Markdown's name
        md.postprocessors.register(Markup(md), "nbsal", LAST)


def makeExtension(**settings: Any) -> Extension:  # noqa: N802 - Python-Markdown's name
    """The extension, as Python-Markdown asks for it."""
    return MarkupExtension(**settings)
