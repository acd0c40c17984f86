"""Scored text as HTML without scripts and as coloured terminal text.

This is the only module that escapes text for HTML. Orange marks evidence for the target and blue evidence against it,
a pair that every kind of colour vision can tell apart. Evidence against the target is also underlined, so that the
sign never depends on colour alone.
"""

import html
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from nbsal.render.colours import AGAINST, FAINT, FOR, STRONGEST, colour
from nbsal.render.headline import Phrase, percent
from nbsal.render.scores import exponent, power_text, score_text, score_texts

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


def span_html(span: ScoredSpan, largest: float) -> str:
    """A span as HTML with inline styles; a score as large as `largest` gets full colour."""
    if span.score is None:
        text = escape(span.text)
        return f'<span style="opacity:.6" title="{escape(span.tip)}">{text}</span>' if span.tip else text
    (r, g, b), alpha = colour(span.score, largest)
    style = f"background-color:rgba({r},{g},{b},{alpha:.3f});border-radius:3px;padding:1px 0"
    if span.struck:
        style = f"{STRUCK};text-decoration:line-through"
    elif span.score < 0 and alpha >= FAINT:
        style += ";text-decoration:underline dashed"
    return f'<span style="{style}" title="{escape(span.tip)}">{escape(span.text)}</span>'


def text_html(parts: Sequence[Sequence[ScoredSpan]], largest: float, bold: Collection[str] = ()) -> str:
    """A text, or both texts of a pair, as one paragraph each; `bold` are words, without their case, in bold type."""
    style = "margin:4px 0;line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere"
    return "".join(
        f'<p dir="auto" style="{style}">{"".join(_weighted_html(s, largest, bold) for s in part)}</p>' for part in parts
    )


def _weighted_html(span: ScoredSpan, largest: float, bold: Collection[str]) -> str:
    """A span, in bold type if it is one of some words."""
    content = span_html(span, largest)
    return f"<b>{content}</b>" if span.text.casefold() in bold else content


def headline_html(phrases: Sequence[Phrase], notes: Sequence[str] = ()) -> str:
    """The headline above its notes; words for the target are underlined, words against it with dashes."""
    tags = {
        "text": "{}",
        "class": "<b>{}</b>",
        "struck": '<s style="opacity:.75">{}</s>',
        "for": f'<span style="border-bottom:2px solid {_rgb(FOR)}">{{}}</span>',
        "against": f'<span style="border-bottom:2px dashed {_rgb(AGAINST)}">{{}}</span>',
    }
    sentence = "".join(tags[kind].format(escape(text)) for kind, text in phrases)
    lines = "".join(map(line_html, notes))
    return f'<p style="margin:0 0 4px;font-size:125%;line-height:1.45;overflow-wrap:anywhere">{sentence}</p>{lines}'


def legend_html(negative: bool, signed: bool = True) -> str:
    """How to read the colours, of scores that are `negative` too, or of a method that is not `signed`."""
    against = f'<span style="border-bottom:2px dashed {_rgb(AGAINST)}">against</span> ' if negative else "0 "
    boxes = ""
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0) if negative else (0.0, 0.5, 1.0):
        (r, g, b), alpha = colour(share, 1.0)
        boxes += f'<span style="background-color:rgba({r},{g},{b},{alpha:.3f});padding:0 8px">&#8203;</span>'
    end = f'<span style="border-bottom:2px solid {_rgb(FOR)}">for</span>{"" if signed else " only"}'
    return f'<div style="{SMALL}">{against}{boxes} {end}</div>'


def heading_html(title: str, note: str) -> str:
    """A title with a note beside it."""
    return f'<p><b>{escape(title)}</b> <span style="{SMALL}">{escape(note)}</span></p>'


def share_html(special: float) -> str:
    """How the score divides between words and special tokens, with a warning if most lies on the latter."""
    warning = " ▲ Most of the score lies on special tokens. Colours compare the words alone." if special > 0.5 else ""
    shares = f"{percent(1 - special, 0)} of the score on words, {percent(special, 0)} on special tokens."
    return f'<div style="{SMALL}">{shares}{warning}</div>'


def ranking_html(ranked: Sequence[tuple[str, float]]) -> str:
    """The strongest words with bars, which differ for the target and against it."""
    most = max((abs(score) for _, score in ranked), default=0.0)
    if not most:
        return ""
    numbers, power = score_texts([score for _, score in ranked])
    head = f'<tr><td colspan="3" style="text-align:right;border:0;padding:0;{SMALL}">{power}</td></tr>' if power else ""
    rows = (_ranking_row(*row, number, abs(row[1]) / most) for row, number in zip(ranked, numbers, strict=True))
    return f'<table style="border-collapse:collapse;margin:6px 0;font-size:90%">{head}{"".join(rows)}</table>'


def _ranking_row(word: str, score: float, number: str, share: float) -> str:
    hue, border = (FOR, "solid") if score >= 0 else (AGAINST, "dashed")
    bar = f"display:inline-block;width:{round(120 * share)}px;height:.7em;background-color:rgba{(*hue, 0.85)}"
    line = f"border-bottom:2px {border} {_rgb(hue)}"
    cells = (
        f'<td style="text-align:left;border:0;padding:0 8px 0 0">{escape(word)}</td>',
        f'<td style="text-align:left;border:0;padding:0"><span style="{bar};{line}"></span></td>',
        f'<td style="text-align:right;border:0;padding:0 0 0 8px">{number}</td>',
    )
    return f"<tr>{''.join(cells)}</tr>"


def block_html(title: str, body: str, notes: Sequence[str], titled: bool = True) -> str:
    """A figure of HTML with notes below; `title` and `notes` are plain text, `body` is HTML.

    Without `titled` the title only names the figure, for screen readers.
    """
    head = f'<div style="font-size:90%"><b>{escape(title)}</b></div>' if titled else ""
    foot = " · ".join(escape(note) for note in notes)
    style = "max-width:60em;print-color-adjust:exact"
    return (
        f'<div role="figure" aria-label="{escape(title)}" style="{style}">{head}{body}'
        f'<div style="{SMALL};margin-top:6px">{foot}</div></div>'
    )


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


def _rgb(hue: tuple[int, int, int]) -> str:
    return "rgb({},{},{})".format(*hue)


def page_html(title: str, body: str) -> str:
    """A complete HTML document around `body`, for light and dark themes; `title` is plain text."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<body style="margin:1.5em;font-family:system-ui,sans-serif">{body}</body></html>'
    )


def terminal(parts: Sequence[Sequence[ScoredSpan]], largest: float, colours: bool = True) -> str:
    """The text with coloured backgrounds for a terminal; without colours, large scores follow in brackets."""
    text = "\n".join("".join(_span_terminal(span, largest, colours) for span in part) for part in parts)
    power = power_text(exponent(largest))
    return text if colours or not power else f"{text}\n[scores {power}]"


def _span_terminal(span: ScoredSpan, largest: float, colours: bool) -> str:
    text = visible(span.text)
    score = span.score or 0.0
    hue, alpha = colour(score, largest)
    if alpha < FAINT:
        return text
    if not colours:
        return f"{text}[{score / 10.0 ** exponent(largest):+.2g}]" if alpha >= STRONGEST / 4 else text
    r, g, b = (round(255 - (255 - channel) * alpha) for channel in hue)
    underline = "\x1b[4m" if score < 0 else ""
    return f"\x1b[48;2;{r};{g};{b}m\x1b[30m{underline}{text}\x1b[0m"
