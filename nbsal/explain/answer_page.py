"""An answer as static HTML and as a picture: headline, reply, the sources shaded by what they add, the matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.sentences import reply_facts
from nbsal.explain.sentences import reply_sentences as sentences
from nbsal.explain.sentences.phrases import PhraseMatrix
from nbsal.explain.sentences.reply_facts import PartFacts, SourceName
from nbsal.render import html, text_lines
from nbsal.render.headline import Phrase, percent, plain
from nbsal.render.html import ScoredSpan
from nbsal.render.text_lines import ScoredText
from nbsal.support.arrays import Floats

CARD = "border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:4px 12px;margin:6px 0"
REPLY = "background-color:rgba(128,128,128,.1);border-radius:8px;padding:6px 14px;margin:6px 0;font-size:115%"
CHOSEN = "border-bottom:2px solid currentColor;font-weight:bold"
CELL = "border:0;padding:2px 8px;text-align:{}"
ROUNDED = 0.005  # share that is shown as 0
LEAST = 0.02  # share from which the matrix prints a number
UNREAD = {
    "not read": "The chat template leaves this out, so the model does not read it.",
    "struck out": "Struck out: this reply was written without it.",
}
COLUMN = "so far"
SCORES = "% of the scores of each phrase"


@dataclass(frozen=True, eq=False)
class AnswerPicture:
    """What is drawn: the facts of what the headline speaks of, `total` with its scores, and the phrases by sources.

    `chosen` are the tokens of the reply that the headline speaks of, if not of all, `fallen` what is left of them
    without each source, by its number, and `struck` the positions of the prompt that are taken out.
    """

    reading: PromptWithReply
    total: Floats
    facts: PartFacts
    matrix: PhraseMatrix
    notes: Sequence[str]
    chosen: frozenset[int] = frozenset()
    fallen: Mapping[int, float] = field(default_factory=dict)
    struck: frozenset[int] = frozenset()

    @property
    def names(self) -> list[SourceName]:
        return reply_facts.source_names(self.reading.prompt.sources)

    @property
    def headline(self) -> list[Phrase]:
        """The sentences above it."""
        return sentences.headline(self.facts)

    @property
    def sentence(self) -> str:
        """The headline as plain text."""
        return plain(self.headline)

    def cards(self) -> list[tuple[str, str, list[ScoredSpan]]]:
        """Of each source its name, its numbers in words, and its own words with their scores."""
        cards = []
        for number, (name, source) in enumerate(zip(self.names, self.reading.prompt.sources, strict=True)):
            title = f", {name.title}" if name.title else ""
            share = UNREAD.get(source.status) or self._numbers(number)
            units = [unit for unit in self.reading.units("word") if unit.source == number]
            scored = [(*unit.span, float(self.total[list(unit.tokens)].sum()), unit.text) for unit in units]
            spans = html.scored_spans(source.text, scored)
            taken = {unit.span[0] for unit in units if self.struck.intersection(unit.tokens)}
            starts = np.cumsum([0, *(len(span.text) for span in spans)])
            words = [
                ScoredSpan(span.text, span.score, span.tip, struck=int(start) in taken)
                for span, start in zip(spans, starts, strict=False)
            ]
            cards.append((f"{name.label}{title}", share, words))
        return cards

    def _numbers(self, number: int) -> str:
        """The share of a source, and the probability without it, if that changes."""
        size = self.facts.shares[number]
        share = f"{percent(size if abs(size) >= ROUNDED else 0.0, 0)} of the scores"
        change = sentences.notable_change(self.facts, self.fallen.get(number))
        return f"{share} · {change} without it" if change else share

    def special_share(self) -> float:
        """The share of all absolute scores that lies on tokens of the template, and on special ones."""
        sizes = np.abs(self.total)
        total = float(sizes.sum())
        return float(sizes[np.array(self.reading.row.special)].sum()) / total if total else 0.0


def answer_html(picture: AnswerPicture) -> str:
    """An answer as HTML without scripts."""
    sources = picture.cards()
    largest, carriers = html.largest_score([words for *_, words in sources]), sentences.carriers_text(picture.facts)
    cards = "".join(
        f'<div style="{CARD}"><div style="font-size:85%"><b>{html.escape(title)}</b> · {html.escape(share)}</div>'
        f"{html.text_html([words], largest)}</div>"
        for title, share, words in sources
    )
    body = [
        html.headline_html(picture.headline),
        f'<p dir="auto" style="{REPLY}">{_reply_html(picture)}</p>',
        f'<p dir="auto" style="{html.SMALL}">{html.escape(carriers)}</p>' if carriers else "",
        html.legend_html(bool((picture.total < 0).any())),
        cards,
        html.share_html(picture.special_share()),
        _matrix_html(picture),
    ]
    return html.block_html(picture.sentence, "".join(body), picture.notes, titled=False)


def answer_png(picture: AnswerPicture) -> bytes:
    reading, cards = picture.reading, picture.cards()
    largest = html.largest_score([words for *_, words in cards])
    spans = [reading.reply_spans[token] for token in reading.content]
    reply = reading.reply[spans[0][0] : spans[-1][1]].strip()
    drawn = [ScoredText(picture.sentence, [[ScoredSpan(reply)]], 1.0)]
    drawn += [ScoredText(f"{title} · {share}", [words], largest) for title, share, words in cards]
    matrix = picture.matrix
    rows = [
        f"{phrase}: {_shares_in_words(row, picture.names)}"
        for phrase, row in zip(matrix.names, matrix.shares, strict=True)
    ]
    finding = ScoredText(matrix.finding, [], 1.0)
    rows += filter(None, [sentences.carriers_text(picture.facts)])
    return text_lines.png(text_lines.draw([*drawn, finding], notes=[*rows, " · ".join(picture.notes)]))


def _reply_html(picture: AnswerPicture) -> str:
    """The reply, with a frame around the words that the headline speaks of."""
    reading, pieces, at = picture.reading, [], 0
    for token, (start, end) in enumerate(reading.reply_spans):
        text = html.escape(reading.reply[max(start, at) : end])  # tokens may share a character
        if text and not reading.reply_special[token]:
            pieces.append(f'<span style="{CHOSEN}">{text}</span>' if token in picture.chosen else text)
        at = max(at, end)
    return "".join(pieces).strip()


def _shares_in_words(row: Floats, names: Sequence[SourceName]) -> str:
    columns = [*(name.short for name in names), COLUMN]
    parts = [f"{column} {percent(share, 0)}" for column, share in zip(columns, row, strict=True) if abs(share) >= LEAST]
    return ", ".join(parts)


def _matrix_html(picture: AnswerPicture) -> str:
    """The shares of the sources in each phrase, as a table."""
    read = [number for number, source in enumerate(picture.reading.prompt.sources) if source.status not in UNREAD]
    columns = [*(picture.names[number].short for number in read), COLUMN]
    small = f"font-weight:normal;{html.SMALL}"
    head = "".join(f'<th style="{CELL.format("center")};{small}">{html.escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th style="{CELL.format("left")};font-weight:normal">{html.escape(html.label(phrase, 60))}</th>'
        f"{''.join(_cell_html(row[number]) for number in [*read, -1])}</tr>"
        for phrase, row in zip(picture.matrix.names, picture.matrix.shares, strict=True)
    )
    finding = html.escape(picture.matrix.finding)
    style = "border-collapse:separate;border-spacing:2px;font-size:90%"
    return (
        f'<div style="margin-top:12px"><b>{finding}</b><div style="{html.SMALL}">{SCORES}</div></div>'
        f'<table style="{style}"><tr><td style="border:0"></td>{head}</tr>{body}</table>'
    )


def _cell_html(share: float) -> str:
    number = str(round(100 * share)).replace("-", "\N{MINUS SIGN}") if abs(share) >= LEAST else ""
    span = html.span_html(ScoredSpan(number, share), 1.0) if number else ""
    return f'<td style="{CELL.format("center")}">{span}</td>'
