"""Scored text as HTML without scripts and as coloured terminal text.

This is the only module that escapes text for HTML. Orange marks evidence for the target and blue evidence against it,
a pair that every kind of colour vision can tell apart. Evidence against the target is also underlined, so that the
sign never depends on colour alone.
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbsal.render.colours import FAINT, STRONGEST, colour, scale_label

UNREAD = "not read by the model"  # the tooltip of truncated text
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class ScoredSpan:
    """A span of text with its score and tooltip; `score` is None where there is no token."""

    text: str
    score: float | None = None
    tip: str = ""


def scored_spans(text: str, tokens: Iterable[tuple[int, int, float, str]], truncated: bool = False) -> list[ScoredSpan]:
    """Cut the whole text into spans at its tokens, each given as (start, end, score, name).

    Tokens that share a character share a span, and their scores are added. If the text was `truncated`, what follows
    the last token is marked as not read.

    >>> [span.text for span in scored_spans("a joy!", [(2, 5, 1.0, "joy")])]
    ['a ', 'joy', '!']
    """
    spans: list[ScoredSpan] = []
    at = 0
    for start, end, score, name in tokens:
        tip = f"{name}: {score:+.4g}"
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


def visible(text: str) -> str:
    """Replace control characters, and those that change the direction of writing, by visible ones.

    >>> visible("red\\x1b[31m")
    'red␛[31m'
    """
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


def span_html(span: ScoredSpan, largest: float) -> str:
    """A span as HTML with inline styles; a score as large as `largest` gets full colour."""
    if span.score is None:
        text = escape(span.text)
        return f'<span style="opacity:.6" title="{escape(span.tip)}">{text}</span>' if span.tip else text
    (r, g, b), alpha = colour(span.score, largest)
    style = f"background-color:rgba({r},{g},{b},{alpha:.3f});border-radius:3px;padding:1px 0"
    if span.score < 0 and alpha >= FAINT:
        style += ";text-decoration:underline dotted"
    return f'<span style="{style}" title="{escape(span.tip)}">{escape(span.text)}</span>'


def text_html(parts: Sequence[Sequence[ScoredSpan]], largest: float) -> str:
    """A text, or both texts of a pair, as one paragraph each."""
    style = "margin:4px 0;line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere"
    return "".join(
        f'<p dir="auto" style="{style}">{"".join(span_html(s, largest) for s in part)}</p>' for part in parts
    )


def legend_html(largest: float, signed: bool) -> str:
    """The legend of the colours with their scores; `signed` includes the colours of negative scores."""
    boxes = ""
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0) if signed else (0.0, 0.5, 1.0):
        (r, g, b), alpha = colour(share, 1.0)
        style = f"background-color:rgba({r},{g},{b},{alpha:.3f});padding:1px 8px"
        boxes += f'<span style="{style}">{scale_label(share * largest)}</span>'
    return f"{boxes} orange: for the target, blue: against it" if signed else boxes


def block_html(title: str, body: str, notes: Sequence[str]) -> str:
    """A block of HTML with a title above and notes below; `title` and `notes` are plain text, `body` is HTML."""
    foot = "".join(f"<div>{escape(note)}</div>" for note in notes)
    style = "max-width:60em;font-family:sans-serif;print-color-adjust:exact"
    return (
        f'<div role="figure" aria-label="{escape(title)}" style="{style}">'
        f'<div style="font-size:90%"><b>{escape(title)}</b></div>{body}'
        f'<div style="font-size:80%;opacity:.75">{foot}</div></div>'
    )


def page_html(title: str, body: str) -> str:
    """A complete HTML document around `body`, for light and dark themes; `title` is plain text."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<body style="margin:1.5em">{body}</body></html>'
    )


def terminal(parts: Sequence[Sequence[ScoredSpan]], largest: float, colours: bool = True) -> str:
    """The text with coloured backgrounds for a terminal; without colours, large scores follow in brackets."""
    return "\n".join("".join(_span_terminal(span, largest, colours) for span in part) for part in parts)


def _span_terminal(span: ScoredSpan, largest: float, colours: bool) -> str:
    text = visible(span.text)
    score = span.score or 0.0
    hue, alpha = colour(score, largest)
    if alpha < FAINT:
        return text
    if not colours:
        return f"{text}[{score:+.2g}]" if alpha >= STRONGEST / 4 else text
    r, g, b = (round(255 - (255 - channel) * alpha) for channel in hue)
    underline = "\x1b[4m" if score < 0 else ""
    return f"\x1b[48;2;{r};{g};{b}m\x1b[30m{underline}{text}\x1b[0m"
