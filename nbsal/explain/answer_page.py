"""An answer as static HTML and as a picture: headline, reply, the sources shaded by what they add, the matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbsal.explain.citations.sourced import NOT_CHECKED, SourcedRows
from nbsal.explain.explained import NOTABLE_GAP, gap_advice
from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.scoring.hops import ALL
from nbsal.explain.sentences import reply_facts
from nbsal.explain.sentences import reply_sentences as sentences
from nbsal.explain.sentences.phrases import PhraseMatrix
from nbsal.explain.sentences.reply_facts import PartFacts, SourceName
from nbsal.explain.text_sheet import share_blocks
from nbsal.render import html
from nbsal.render.headline import Phrase, percent, plain
from nbsal.render.html import ScoredSpan
from nbsal.render.names import model_name
from nbsal.render.sheet import (
    Bar,
    Block,
    Card,
    Cell,
    CellTable,
    Choice,
    Heading,
    Legend,
    Line,
    Marked,
    Note,
    Sentence,
    Sheet,
)
from nbsal.support.arrays import Floats
from nbsal.support.validation import plural

ROUNDED = 0.005  # share that is shown as 0
LEAST = 0.02  # share from which the matrix prints a number
HOPS = 2  # hops whose words are shown
LISTED = 3  # other tokens in the place of one
SHORT = 24  # characters of the strongest word
UNREAD = {
    "not read": "The chat template leaves this out, so the model does not read it.",
    "struck out": "Struck out: this reply was written without it.",
}
COLUMN = "So far"
SCORES = "% of each phrase’s score, by source"
SUMMED = "scores of the reply's tokens, added up; the view Answers explains the whole reply as one target"


Rival = tuple[str, str, str]  # the name of a token, its text, and its probability, if that is known


@dataclass(frozen=True, eq=False)
class AnswerPicture:
    """What is drawn: the facts of what the headline speaks of, `total` with its scores, and the phrases by sources.

    `chosen` are the tokens of the reply that the headline speaks of, if not of all, `fallen` what is left of them
    without each source, by its number, and `struck` the positions of the prompt that are taken out. `likelihood` is
    that of the reply in words, and `rivals` stand in place of the token `at`. Of a view, `level` is the part of a
    source that is shaded as one, `name` that of the reply, `left` what is left of it without what is struck out, and
    `others` the name, the probability and the text of each other reply.
    """

    reading: PromptWithReply
    total: Floats
    facts: PartFacts
    matrix: PhraseMatrix
    notes: Sequence[str]
    likelihood: str
    at: str = ""
    rivals: Sequence[Rival] = ()
    chosen: frozenset[int] = frozenset()
    fallen: Mapping[int, float] = field(default_factory=dict)
    struck: frozenset[int] = frozenset()
    level: str = "word"
    name: str = "Reply"
    left: Sequence[Phrase] = ()
    others: Sequence[tuple[str, str, str]] = ()
    curve: Sequence[Block] = ()
    sourced: SourcedRows = NOT_CHECKED
    hidden_units: Sequence[Unit] = ()  # larger than words: parts that are shaded as one are no smaller

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

    def words(self) -> list[list[ScoredSpan]]:
        """The own words of each source, or other parts of it, with their scores."""
        chosen = self.reading.units(self.level)
        if len(self.hidden_units) in range(1, len(chosen)):
            chosen = list(self.hidden_units)
        units = [unit for unit in chosen if unit.span[1] > unit.span[0]]
        return [
            self._words(source.text, [unit for unit in units if unit.source == number])
            for number, source in enumerate(self.reading.prompt.sources)
        ]

    def _words(self, text: str, units: Sequence[Unit]) -> list[ScoredSpan]:
        scored = [(*unit.span, float(self.total[list(unit.tokens)].sum()), unit.text) for unit in units]
        spans = html.scored_spans(text, scored)
        taken = {unit.span[0] for unit in units if self.struck.intersection(unit.tokens)}
        starts = np.cumsum([0, *(len(span.text) for span in spans)])
        return [
            ScoredSpan(span.text, span.score, span.tip, struck=int(start) in taken)
            for span, start in zip(spans, starts, strict=False)
        ]

    def sheet(self) -> Sheet:
        """The headline, the reply, the sources in cards, and the sources of each phrase as a table."""
        words = self.words()
        blocks: list[Block] = [
            Sentence(self.headline),
            self._reply_card(),
            self._legend(words),
            *self.sourced.blocks,
            *self._cards(words),
            *share_blocks(self.reading.row, self.total),
            *self.curve,
            *([self._compared()] if self.at else []),
            Heading([("text", self.matrix.finding)], SCORES),
            self._matrix(),
        ]
        return Sheet(self.sentence, blocks, self.notes)

    def _reply_card(self) -> Card:
        """The reply, what is left of it, through which of its words scores came, and the other replies."""
        lead, then, hops = route_words(self.facts)
        blocks: list[Block] = [Marked([self._reply()], 1.0)]
        blocks += [Line([self.left])] if self.left else []
        for number, hop in enumerate(hops):
            blocks.append(Line([then if number else lead, *(Choice(text, None, share) for _, text, share in hop)]))
        for title, likelihood, text in self.others:
            blocks.append(Card([Marked([[ScoredSpan(text)]], 1.0, large=False)], title, end=[likelihood]))
        return Card(blocks, self.name, end=[self.likelihood], filled=True)

    def _compared(self) -> Line:
        """A token compared with nothing, or with its rival."""
        others = [(text, chance) for _, text, chance in self.rivals]
        rival = self.facts.rival
        typed = [(rival, "")] if rival and rival not in dict(others) else []
        choices = [Choice(text, None, chance, text == rival) for text, chance in [*others, *typed]]
        return Line([f"Compare “{self.at}” with", Choice("nothing", None, "", not rival), *choices])

    def _legend(self, words: Sequence[Sequence[ScoredSpan]]) -> Legend:
        """From against to for, or of a token rather than its rival from the one to the other."""
        spans = [(number, span) for number, part in enumerate(words) for span in part if span.score is not None]
        against = any((span.score or 0.0) < 0 for _, span in spans)
        number, best = max(spans, key=lambda pair: abs(pair[1].score or 0.0), default=(0, ScoredSpan("")))
        whole = best.text == self.reading.prompt.sources[number].text
        name = self.names[number].sentence if whole else f"“{html.label(best.text.strip(), SHORT)}”"
        unit = f"100\u202f% = {name}" if best.score else ""
        if not self.facts.rival:
            return Legend(against, "for", unit)
        return Legend(against, f"for “{self.facts.part}”", unit, f"for “{self.facts.rival}”")

    def _cards(self, words: Sequence[Sequence[ScoredSpan]]) -> list[Card]:
        """Each source with its share of the scores, and what leaving it out changes."""
        largest, low = html.largest_score(words), min(0.0, *self.facts.shares)
        texts, cards, roles = share_texts(self.facts), [], self.sourced.roles(self.chosen)
        for number, (name, source) in enumerate(zip(self.names, self.reading.prompt.sources, strict=True)):
            if not source.text:
                continue  # a message that only calls tools
            marked = Marked([words[number]], largest, large=False)
            if unread := UNREAD.get(source.status):
                cards.append(Card([marked, Note(unread)], name.label, name.title))
                continue
            change = sentences.notable_change(self.facts, self.fallen.get(number))
            end: list[Cell] = [
                *filter(None, [roles.get(number, ""), change]),
                Bar(self.facts.shares[number], low),
                texts[number],
            ]
            cards.append(Card([marked], name.label, name.title, end))
        return cards

    def _reply(self) -> list[ScoredSpan]:
        """The reply, in which the words are chosen that the headline speaks of."""
        spans: list[ScoredSpan] = []
        at = 0
        for token, (start, end) in enumerate(self.reading.reply_spans):
            text = self.reading.reply[max(start, at) : end]  # tokens may share a character
            if text and not self.reading.reply_special[token]:
                word = text.lstrip()
                gap = text[: len(text) - len(word)] if spans else ""
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
        chosen = (row for row, tokens in enumerate(self.matrix.tokens) if self.chosen.intersection(tokens))
        return CellTable(rows, head, range(1, len(head)), next(chosen, None))


def reply_likelihood(answer: Any) -> str:
    """How likely the model finds the reply, and of how many tokens, unless words stand for them."""
    content = answer.reading.content
    likely = sentences.likelihood_text([answer.statistics.logprob[token] for token in content])
    if "tokens" in answer.provenance:
        return likely
    return f"{likely} \N{MIDDLE DOT} {plural(len(content), 'token')}"


def rivals_of(answer: Any, at: int) -> list[Rival]:
    """What the model would write in place of a token without a source, and its own next choice."""
    known = dict(answer.statistics.rivals[at])
    without = [row[at] for row in answer.evidence.instead] if answer.evidence is not None else []
    names = dict.fromkeys([*without, *list(known)[:1]])
    listed = [
        (name, reply_facts.plain_token(name), sentences.likelihood(known[name]) if name in known else "")
        for name in names
        if any(map(str.isalnum, name))
    ]
    return listed[:LISTED]


def share_texts(facts: PartFacts) -> list[str]:
    """The shares of the sources, and last of the reply so far, in words."""
    return [percent(share if abs(share) >= ROUNDED else 0.0, 0) for share in facts.shares]


def route_words(facts: PartFacts) -> tuple[str, str, list[list[tuple[list[int], str, str]]]]:
    """How much came through earlier words of the reply, and by hop the tokens, the text and the share of each."""
    route = facts.through
    if route is None:
        return "", "", []
    part = f"“{facts.part}”" if facts.part else "the reply"
    hops = [[(list(word.tokens), word.text, percent(word.share, 0)) for word in hop] for hop in route.hops if hop]
    return f"{percent(route.share, 0)} of the scores of {part} came through", "and from there through", hops[:HOPS]


def _matrix_cell(share: float) -> ScoredSpan | str:
    number = cell_text(share)
    return ScoredSpan(f" {number} ", float(share)) if number else ""


def cell_text(share: float) -> str:
    """A share as a number of a percentage, or nothing for a small one."""
    return str(round(100 * share)).replace("-", "\N{MINUS SIGN}") if abs(share) >= LEAST else ""


def notes_of(answer: Any) -> list[str]:
    """See `Answer.notes`."""
    layer = answer.provenance.get("parameters", {}).get("layer")
    place = f", layer {layer}" if isinstance(layer, int) else ""
    written = "reply written by the model" if answer.provenance.get("reply") == "generated" else "given reply"
    model = model_name(str(answer.provenance.get("model", "")))
    model += ", behind a server" if str(answer.provenance.get("server", "")).startswith("http") else ""
    lines = [*filter(None, [model]), f"{answer.label}{place}, {answer.number}", written]
    if changes := answer.provenance.get("change"):
        gaps, sizes = np.abs(answer.provenance["gap"]).sum(), np.abs(changes).sum()
        share = gaps / sizes if sizes else 0.0
        warning, advice = ("▲ ", gap_advice(answer.provenance)) if share > NOTABLE_GAP else ("", "")
        lines.append(f"{warning}scores miss the changes of the {answer.number} by {percent(share)}{advice}")
    if answer.hops != 0:
        lines.append(f"followed through the reply: {'all hops' if answer.hops == ALL else plural(answer.hops, 'hop')}")
    if answer.explained < len(answer.ids):
        lines.append(f"cancelled: the first {answer.explained} of {plural(len(answer.ids), 'token')} have scores")
    return lines
