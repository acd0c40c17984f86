"""What the Answers view shows of an answer: its tokens by source, its matrix, and what hiding sources changes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.answers import findings
from nbsal.answers.answer import Answer
from nbsal.answers.findings import Contribution
from nbsal.answers.hiding import Hiding
from nbsal.answers.judgement import BAND, Judgement
from nbsal.answers.page import AnswerPicture
from nbsal.answers.reading import Reading
from nbsal.answers.sources import Source
from nbsal.methods.labels import label_of
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from nbsal.widgets import wire

Floats = NDArray[np.float64]
CARRIES = 0.5  # share of the whole drop that makes the first sentences the ones that carry the reply
RANDOM_ORDER = "random order"


@dataclass(frozen=True)
class Struck:
    """A source that is taken out, or one sentence of it."""

    source: int
    sentence: int | None = None

    @classmethod
    def parse(cls, entry: Any) -> "Struck":
        """From a source's number, or from [source, sentence]."""
        numbers = [entry] if isinstance(entry, int) else entry
        plain = isinstance(numbers, list | tuple) and len(numbers) in (1, 2)
        if not plain or not all(type(number) is int and number >= 0 for number in numbers):
            message = f"struck holds {entry!r:.40}. Pass numbers of sources, or [source, sentence] for a sentence."
            raise InputError(message, argument="struck", value=entry)
        return cls(*numbers)


@dataclass(frozen=True, eq=False)
class HiddenSources:
    """The log-probability of every token of the reply with everything, with nothing, and without each source.

    `struck` is with what is struck out taken away, or None; `way` is how it is hidden.
    """

    every: Floats
    nothing: Floats
    without: dict[int, Floats]
    struck: Floats | None
    way: str

    def change(self, tokens: Sequence[int]) -> float:
        """By what share the probability of a token changes without any source."""
        return 1.0 - float(np.exp((self.nothing - self.every)[list(tokens)].mean()))


@dataclass(frozen=True, eq=False)
class SpanScores:
    """The scores of some tokens of the reply as one target, or of one rather than its rival."""

    scores: Floats  # of every token of prompt and reply
    tokens: tuple[int, ...]
    rival: str = ""


@dataclass(frozen=True)
class Draft:
    """The sources, while the model writes its reply."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Rewritten:
    """A new reply without what was struck out."""

    text: str
    without: tuple[str, ...]
    logprob: float
    count: int


@dataclass(frozen=True, eq=False)
class AnswerResult:
    """An answer with those parts that are computed."""

    answer: Answer
    span: SpanScores | None = None
    hidden: HiddenSources | None = None
    curve: Judgement | str | None = None
    rewritten: Rewritten | None = None


def content_tokens(reading: Reading) -> list[int]:
    """The tokens of a reply that are text."""
    return [i for i, special in enumerate(reading.reply_special) if not special]


def hide_sources(hiding: Hiding, struck: Iterable[Struck], meter: Meter) -> HiddenSources:
    """Score the reply without each source; `hiding` is of sentences."""
    sources = [unit.source for unit in hiding.units]
    numbers = sorted(set(sources))
    table = [np.ones(len(sources), bool), np.zeros(len(sources), bool)]
    table += [np.array(sources) != number for number in numbers]
    taken = [is_struck(hiding, entry) for entry in struck]
    if taken:
        table.append(~np.logical_or.reduce(taken))
    values = hiding.values(np.array(table), meter)
    without = dict(zip(numbers, values[2:], strict=False))
    return HiddenSources(values[0], values[1], without, values[-1] if taken else None, hiding.way)


def is_struck(hiding: Hiding, struck: Struck) -> NDArray[np.bool_]:
    """Which sentences are taken out."""
    mine: NDArray[np.bool_] = np.array([unit.source for unit in hiding.units]) == struck.source
    if struck.sentence is not None:
        mine &= mine.cumsum() - 1 == struck.sentence
    if not mine.any():
        message = f"struck={struck} names no source or sentence that the model reads."
        raise InputError(message, argument="struck", value=struck)
    return mine


def sources_trait(sources: Sequence[Source], reading: Reading | None = None) -> list[dict[str, Any]]:
    """The cards: names, and the first token of each sentence."""
    starts: dict[int, list[int]] = {}
    for unit in reading.units("sentence") if reading is not None else ():
        starts.setdefault(unit.source, []).append(unit.tokens[0])
    return [
        {
            "label": name.label,
            "short": name.short,
            "name": name.sentence,
            "title": name.title,
            "status": source.status,
            "sentences": starts.get(number, []),
        }
        for number, (source, name) in enumerate(zip(sources, findings.source_names(sources), strict=True))
    ]


def tokens_trait(reading: Reading) -> dict[str, Any]:
    """The tokens of prompt and reply, each in the text of its source; the reply is the last text."""
    prompt, start = reading.prompt, reading.start
    texts = [source.text for source in prompt.sources]
    first, last = reply_span(reading)
    begins = {unit.tokens[0] for unit in reading.units("word")}
    begins |= {start + unit.tokens[0] for unit in reading.reply_units("word")}
    places = []
    for i, (owner, place) in enumerate(zip(prompt.owners, prompt.places, strict=True)):
        special = owner < 0 or prompt.special[i]
        part = max(owner, 0)
        span = (0, 0) if special else place or (0, len(texts[part]))
        places.append(wire.Place(part, *span, i in begins, special, prompt.tokens[i] if special else None))
    for i, span in enumerate(reading.reply_spans):
        special = reading.reply_special[i]
        piece = reading.reply[slice(*span)]
        left = span[0] + len(piece) - len(piece.lstrip()) if piece.strip() else span[0]
        low, high = (min(max(at - first, 0), last - first) for at in (left, span[1]))
        name = reading.reply_tokens[i] if special else None
        places.append(wire.Place(len(texts), low, high, start + i in begins, special, name))
    return wire.pack([*texts, reading.reply[first:last]], places)


def without_special(text: str, tokenizer: Any) -> str:
    """What a model has written so far, without the marks of its end."""
    for token in tokenizer.all_special_tokens:
        text = text.replace(token, "")
    return text


def reply_text(reading: Reading) -> str:
    """The text of a reply, without special tokens and white space around it."""
    return reading.reply[slice(*reply_span(reading))]


def reply_span(reading: Reading) -> tuple[int, int]:
    """The characters of the reply that are text, without special tokens and white space around it."""
    spans = [reading.reply_spans[i] for i in content_tokens(reading)]
    text = reading.reply[spans[0][0] : spans[-1][1]]
    start = spans[0][0] + len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def reply_trait(answer: Answer) -> dict[str, Any]:
    """The reply: how likely its tokens are, their rivals, its phrases and sentences, and the matrix."""
    reading, statistics = answer.reading, answer.statistics
    table = findings.matrix(reading, answer.scores)
    names = findings.source_names(reading.prompt.sources)
    return {
        "start": reading.start,
        "logprobs": np.asarray(statistics.logprob).round(4).tolist(),
        "rivals": [[[name, float(chance)] for name, chance in rivals] for rivals in statistics.rivals],
        "sentences": [unit.tokens[0] for unit in reading.reply_units("sentence")],
        "phrases": [list(tokens) for tokens in findings.phrases(reading)],
        "matrix": np.asarray(table).round(5).tolist(),
        "finding": findings.matrix_finding(table, names),
        "linear": answer.linear,
        "about_target": answer.about_target,
        "generated": answer.provenance.get("reply") == "generated",
    }


def span_scores(answer: Answer, tokens: Sequence[int]) -> SpanScores:
    """The explanation of some tokens as one target, by another run of the model."""
    running = answer.running
    assert running is not None
    return SpanScores(running.score_sum(tokens), tuple(tokens))


def rival_scores(answer: Answer, rival: str, at: int) -> SpanScores:
    """The explanation of a token rather than another one in its place."""
    running, (token,) = answer.running, answer.tokens_of(at)
    assert running is not None
    target = running.rival_target(token, rival)
    return SpanScores(running.score_rival(token, target), (token,), target.label)


def picture(result: AnswerResult, selected: Sequence[int], struck: Sequence[Struck]) -> AnswerPicture:
    """A result as a static picture: of the selected words, of a token rather than its rival, or of the whole reply."""
    answer, own = result.answer, result.span
    reading = answer.reading
    content = content_tokens(reading)
    if (own is not None and own.rival) or (own is not None and list(own.tokens) == (list(selected) or content)):
        tokens, total = list(own.tokens), own.scores
    else:
        tokens = list(selected) or content
        total = answer.scores[tokens].sum(0)
    is_part = bool(selected) or bool(own and own.rival)
    change = None if result.hidden is None else result.hidden.change(tokens)
    contribution = Contribution(
        part_text(reading, tokens) if is_part else "",
        own.rival if own is not None else "",
        tuple(findings.shares(reading, total).tolist()),
        change,
        answer.about_target,
    )
    taken = {position for entry in struck for position in struck_tokens(reading, entry)}
    chosen = frozenset(tokens if is_part else ())
    return AnswerPicture(reading, answer.scores, total, contribution, answer.notes(), chosen, frozenset(taken))


def part_text(reading: Reading, tokens: Sequence[int]) -> str:
    """Some tokens of a reply as text; those apart are joined by an ellipsis."""
    runs: list[list[int]] = []
    for token in tokens:
        if runs and token == runs[-1][-1] + 1:
            runs[-1].append(token)
        else:
            runs.append([token])
    spans = reading.reply_spans
    return " \N{HORIZONTAL ELLIPSIS} ".join(reading.reply[spans[run[0]][0] : spans[run[-1]][1]].strip() for run in runs)


def struck_tokens(reading: Reading, struck: Struck) -> list[int]:
    """The positions that are taken out."""
    units = [unit for unit in reading.units("sentence") if unit.source == struck.source]
    chosen = units if struck.sentence is None else units[struck.sentence : struck.sentence + 1]
    return [token for unit in chosen for token in unit.tokens]


def span_trait(span: SpanScores | None) -> dict[str, Any]:
    """The scores of a target of their own."""
    if span is None:
        return {}
    return {"tokens": list(span.tokens), "rival": span.rival, "scores": wire.scores([span.scores])}


def hidden_trait(hidden: HiddenSources | None) -> dict[str, Any]:
    """Rows of log-probabilities: with everything, with nothing, with what is struck out taken away, without each."""
    if hidden is None:
        return {}
    struck = hidden.every if hidden.struck is None else hidden.struck
    rows = [hidden.every, hidden.nothing, struck, *hidden.without.values()]
    return {"sources": list(hidden.without), "values": wire.scores(rows)}


def curve_trait(curve: Judgement | str | None, answer: Answer) -> dict[str, Any]:
    """The hiding curve as lines of a chart, or why there is none."""
    if curve is None:
        return {}
    if isinstance(curve, str):
        return {"why": curve}
    count = len(curve.tokens)
    own, others = np.round(curve.curve / count, 2) + 0.0, np.round(curve.random_curves / count, 2)
    low, high = np.percentile(others, BAND, axis=0)
    at = (np.arange(len(own)) / max(1, len(own) - 1)).tolist()
    order = np.argsort(-curve.scores[list(curve.tokens)].sum(0), kind="stable")
    lines = [
        {"name": label_of(curve.method), "at": at, "values": own.tolist(), "area": float(own.mean())},
        {
            "name": RANDOM_ORDER,
            "at": at,
            "values": others.mean(0).tolist(),
            "area": float(others.mean()),
            "low": low.tolist(),
            "high": high.tolist(),
            "random": True,
        },
    ]
    unit = str(answer.provenance.get("unit", "sentence"))
    return {
        "lines": lines,
        "order": [list(answer.units[i].tokens) for i in order],
        "unit": "part" if unit == "spans" else unit,
        "finding": curve_finding(curve, "part" if unit == "spans" else unit),
        "band": f"95\u202f% of {len(curve.random)} random orders",
    }


def curve_finding(curve: Judgement, unit: str) -> str:
    """How many units carry the reply, if their order is better than chance."""
    if not curve.beats_chance:
        return "Hiding in this order is no better than in random ones"
    drops = curve.curve[0] - curve.curve
    steps = int(np.argmax(drops >= CARRIES * drops.max()))
    count = findings.NUMBERS[steps] if steps < len(findings.NUMBERS) else str(steps)
    return f"{count} {unit}{'' if steps == 1 else 's'} {'carries' if steps == 1 else 'carry'} the reply"


def rewritten_trait(rewritten: Rewritten | None) -> dict[str, Any]:
    """The new reply, and what it was written without."""
    if rewritten is None:
        return {}
    without = findings.joined(rewritten.without)
    return {"text": rewritten.text, "without": without, "logprob": rewritten.logprob, "count": rewritten.count}
