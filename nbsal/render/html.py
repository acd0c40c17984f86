"""Rendering: scored stretches of text as HTML without scripts, and as terminal text.

The only place that escapes and colours. Orange speaks for the target and blue against it (told apart by every kind of
colour vision); what speaks against is also underlined, so that no reading rests on colour alone.
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbsal.render.colours import FAINT, STRONGEST, colour, scale_label

UNREAD = "not read"  # what hovering says of a rest without tokens
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class ScoredSpan:
    """A stretch of text; `score` is None where no token lies, `tip` is what hovering says."""

    text: str
    score: float | None = None
    tip: str = ""


def scored_spans(text: str, tokens: Iterable[tuple[int, int, float, str]], cut: bool = False) -> list[ScoredSpan]:
    """The whole text as typed, cut at tokens (start, end, score, name); tokens of one character share its stretch.

    More than space after the last token of a `cut` text is what the model did not read.

    >>> [s.text for s in scored_spans("a joy!", [(2, 5, 1.0, "joy")])]
    ['a ', 'joy', '!']
    """
    found: list[ScoredSpan] = []
    at = 0
    for start, end, score, name in tokens:
        tip = f"{name}: {score:+.4g}"
        if end <= at and found and found[-1].score is not None:
            last = found.pop()
            found.append(ScoredSpan(last.text, (last.score or 0.0) + score, f"{last.tip}, {tip}"))
            continue
        if start > at:
            found.append(ScoredSpan(text[at:start]))
            at = start
        if end > at:
            found.append(ScoredSpan(text[at:end], score, tip))
            at = end
    rest = text[at:]
    return [*found, ScoredSpan(rest, tip=UNREAD if cut and rest.strip() else "")] if rest else found


def visible(text: str) -> str:
    """The text with control characters, and those that would turn the reading direction, made harmless."""
    return _CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", text)


def label(text: str, longest: int = 24) -> str:
    """A token or word as a figure names it: harmless, in one line, and not too long.

    >>> label("pneumonoultramicroscopic", longest=8)
    'pneumon…'
    """
    shown = visible(" ".join(text.split()) or text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def escape(text: str) -> str:
    """The text as it may stand in a page, in an attribute too."""
    return html.escape(visible(text), quote=True)


def span_html(stretch: ScoredSpan, largest: float) -> str:
    """One stretch as an inline-styled span."""
    if stretch.score is None:
        text = escape(stretch.text)
        return f'<span style="opacity:.6" title="{escape(stretch.tip)}">{text}</span>' if stretch.tip else text
    (r, g, b), alpha = colour(stretch.score, largest)
    style = f"background-color:rgba({r},{g},{b},{alpha:.3f});border-radius:3px;padding:1px 0"
    if stretch.score < 0 and alpha >= FAINT:
        style += ";text-decoration:underline dotted"
    return f'<span style="{style}" title="{escape(stretch.tip)}">{escape(stretch.text)}</span>'


def text_html(parts: Sequence[Sequence[ScoredSpan]], largest: float) -> str:
    """A text, or both members of a pair, each a paragraph."""
    style = "margin:4px 0;line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere"
    return "".join(
        f'<p dir="auto" style="{style}">{"".join(span_html(s, largest) for s in part)}</p>' for part in parts
    )


def legend_html(largest: float, signed: bool) -> str:
    """What the colours mean, in numbers."""
    boxes = ""
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0) if signed else (0.0, 0.5, 1.0):
        (r, g, b), alpha = colour(share, 1.0)
        style = f"background-color:rgba({r},{g},{b},{alpha:.3f});padding:1px 8px"
        boxes += f'<span style="{style}">{scale_label(share * largest)}</span>'
    return f"{boxes} orange speaks for, blue against" if signed else boxes


def block_html(title: str, body: str, notes: Sequence[str]) -> str:
    """A titled block with notes below; `title` and `notes` are plain text, `body` is HTML."""
    foot = "".join(f"<div>{escape(note)}</div>" for note in notes)
    style = "max-width:60em;font-family:sans-serif;print-color-adjust:exact"
    return (
        f'<div role="figure" aria-label="{escape(title)}" style="{style}">'
        f'<div style="font-size:90%"><b>{escape(title)}</b></div>{body}'
        f'<div style="font-size:80%;opacity:.75">{foot}</div></div>'
    )


def page_html(title: str, body: str) -> str:
    """A page of its own around a block, right in light and dark."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<body style="margin:1.5em">{body}</body></html>'
    )


def terminal(parts: Sequence[Sequence[ScoredSpan]], largest: float, colours: bool = True) -> str:
    """The text with coloured backgrounds for a terminal; without colours, scores of note stand in brackets."""
    return "\n".join("".join(_terminal_stretch(s, largest, colours) for s in part) for part in parts)


def _terminal_stretch(stretch: ScoredSpan, largest: float, colours: bool) -> str:
    text = visible(stretch.text)
    score = stretch.score or 0.0
    hue, alpha = colour(score, largest)
    if alpha < FAINT:
        return text
    if not colours:
        return f"{text}[{score:+.2g}]" if alpha >= STRONGEST / 4 else text
    r, g, b = (round(255 - (255 - channel) * alpha) for channel in hue)
    mark = "\x1b[4m" if score < 0 else ""
    return f"\x1b[48;2;{r};{g};{b}m\x1b[30m{mark}{text}\x1b[0m"
