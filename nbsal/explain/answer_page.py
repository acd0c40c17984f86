"""An answer as static HTML and as a picture: headline, reply, the sources shaded by what they add, the matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.sentences import reply_facts
from nbsal.explain.sentences import reply_sentences as sentences
from nbsal.explain.sentences.phrases import PhraseMatrix
from nbsal.explain.sentences.reply_facts import PartFacts, SourceName
from nbsal.explain.text_sheet import share_line
from nbsal.render import html
from nbsal.render.headline import Phrase, percent, plain
from nbsal.render.html import ScoredSpan
from nbsal.render.sheet import (
    Block,
    Card,
    CellTable,
    Heading,
    Legend,
    Marked,
    Note,
    Sentence,
    Sheet,
)
from nbsal.support.arrays import Floats

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

    def sheet(self) -> Sheet:
        """The headline, the reply, the sources in cards, and the sources of each phrase as a table."""
        sources, carriers = self.cards(), sentences.carriers_text(self.facts)
        largest = html.largest_score([words for *_, words in sources])
        blocks: list[Block] = [
            Sentence(self.headline),
            Card([Marked([self._reply()], 1.0)], filled=True),
            *([Note(carriers)] if carriers else []),
            Legend(bool((self.total < 0).any()), "for"),
            *(Card([Marked([words], largest, large=False)], title, share) for title, share, words in sources),
            share_line(self.special_share()),
            Heading([("text", self.matrix.finding)], SCORES),
            self._matrix(),
        ]
        return Sheet(self.sentence, blocks, self.notes)

    def _reply(self) -> list[ScoredSpan]:
        """The reply, in which the words are chosen that the headline speaks of."""
        spans: list[ScoredSpan] = []
        at = 0
        for token, (start, end) in enumerate(self.reading.reply_spans):
            text = self.reading.reply[max(start, at) : end]  # tokens may share a character
            if text and not self.reading.reply_special[token]:
                word = text.lstrip()
                gap = text[: -len(word)] if word and spans else ""
                spans += [ScoredSpan(gap), ScoredSpan(word, chosen=token in self.chosen)]
            at = max(at, end)
        return spans

    def _matrix(self) -> CellTable:
        """The shares of the sources in each phrase."""
        read = [number for number, source in enumerate(self.reading.prompt.sources) if source.status not in UNREAD]
        head = ["", *(self.names[number].short for number in read), COLUMN]
        rows = [
            [html.label(phrase, 60), *(_matrix_cell(shares[number]) for number in [*read, -1])]
            for phrase, shares in zip(self.matrix.names, self.matrix.shares, strict=True)
        ]
        return CellTable(rows, head, right=range(1, len(head)))


def _matrix_cell(share: float) -> ScoredSpan | str:
    number = str(round(100 * share)).replace("-", "\N{MINUS SIGN}")
    return ScoredSpan(f" {number} ", float(share)) if abs(share) >= LEAST else ""
