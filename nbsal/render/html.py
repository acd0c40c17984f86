"""Scored text as HTML without scripts and as coloured terminal text.

This is the only module that escapes text for HTML. Orange marks evidence for the target and blue evidence against it,
a pair that every kind of colour vision can tell apart. Evidence against the target is also underlined, so that the
sign never depends on colour alone.
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from nbsal.render.colours import FAINT, LINEAR, STRONGEST, Scale, colour
from nbsal.render.scores import exponent, power_text, score_text

UNREAD = "beyond what the model reads"  # the tooltip of truncated text
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
SMALL = "font-size:12px;opacity:.75"
STRUCK = "background-color:rgba(128,128,128,.18);border:1px dashed rgba(128,128,128,.5);opacity:.65"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class ScoredSpan:
    """A span of text with its score and tooltip; `score` is None where there is no token.

    A `struck` span is hidden from the model, a `chosen` one is what the sentence is about.
    """

    text: str
    score: float | None = None
    tip: str = ""
    struck: bool = False
    chosen: bool = False


def scored_spans(text: str, tokens: Iterable[tuple[int, int, float, str]], truncated: bool = False) -> list[ScoredSpan]:
    """Cut the whole text into spans at its tokens, each given as (start, end, score, name).

    Tokens that share a character share a span, and their scores are added. If the text was `truncated`, what follows
    the last token is marked as not read.
    """
    spans: list[ScoredSpan] = []
    at = 0
    for start, end, score, name in tokens:
        tip = f"{name}: {score_text(score)}"
        if end <= at and spans and spans[-1].score is not None:
            last = spans.pop()
            spans.append(ScoredSpan(last.text, (last.score or 0.0) + score, f"{last.tip}, {tip}"))
            continue
        if start > at:
            spans.append(ScoredSpan(text[at:start]))
            at = start
        if end > at:
            spans.append(ScoredSpan(text[at:end], score, tip))
            at = end
    rest = text[at:]
    return [*spans, ScoredSpan(rest, tip=UNREAD if truncated and rest.strip() else "")] if rest else spans


def largest_score(parts: Iterable[Iterable[ScoredSpan]]) -> float:
    """The largest absolute score of a text's spans, which gets full colour."""
    return max((abs(span.score) for part in parts for span in part if span.score is not None), default=0.0)


def visible(text: str) -> str:
    """Replace control characters, and those that change the direction of writing, by visible ones."""
    return _CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", text)


def label(text: str, longest: int = 24) -> str:
    """A token or word as a label in a figure: without control characters, on one line, and at most `longest` long.

    >>> label("pneumonoultramicroscopic", longest=8)
    'pneumon…'
    """
    line = visible(" ".join(text.split()) or text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def escape(text: str) -> str:
    """Escape plain text for HTML, as content or as the value of an attribute."""
    return html.escape(visible(text), quote=True)


def today() -> str:
    """The date as views print it, such as 22 Nov 2026."""
    now = date.today()
    return f"{now.day} {MONTHS[now.month - 1]} {now.year}"


def snapshot_line(in_cell: bool) -> str:
    """The date of a picture, and how to change it: in a notebook by its cell, in a page of its own not at all."""
    change = "run the cell to change it" if in_cell else "changing it needs Python"
    return f"Snapshot of {today()} \N{MIDDLE DOT} {change}"


def snapshot_html(body: str, in_cell: bool = True) -> str:
    """A picture of a view, with the date of the picture."""
    return f'<div class="nbsal-snapshot" style="padding:16px">{body}{line_html(snapshot_line(in_cell))}</div>'


def line_html(text: str) -> str:
    """A line of plain text in small type."""
    return f'<div style="{SMALL}">{escape(text)}</div>'


def page_html(title: str, body: str) -> str:
    """A complete HTML document around `body`, for light and dark themes; `title` is plain text."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<body style="margin:1.5em;font-family:system-ui,sans-serif">{body}</body></html>'
    )


def terminal(parts: Sequence[Sequence[ScoredSpan]], largest: float, colours: bool = True, scale: Scale = LINEAR) -> str:
    """The text with coloured backgrounds for a terminal; without colours, large scores follow in brackets."""
    text = "\n".join("".join(_span_terminal(span, largest, colours, scale) for span in part) for part in parts)
    power = power_text(exponent(largest))
    return text if colours or not power else f"{text}\n[scores {power}]"


def _span_terminal(span: ScoredSpan, largest: float, colours: bool, scale: Scale) -> str:
    text = visible(span.text)
    score = span.score or 0.0
    hue, alpha = colour(score, largest, scale)
    if alpha < FAINT:
        return text
    if not colours:
        return f"{text}[{score / 10.0 ** exponent(largest):+.2g}]" if alpha >= STRONGEST / 4 else text
    r, g, b = (round(255 - (255 - channel) * alpha) for channel in hue)
    underline = "\x1b[4m" if score < 0 else ""
    return f"\x1b[48;2;{r};{g};{b}m\x1b[30m{underline}{text}\x1b[0m"
