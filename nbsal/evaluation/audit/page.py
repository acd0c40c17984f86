"""What an audit shows: a summary for a notebook's cell, and a report that can be sent."""

from math import isfinite
from typing import Any

from nbsal.evaluation.audit.word_table import KINDS, adjusted_p, speaks_for
from nbsal.render import html
from nbsal.render.headline import percent, phrases
from nbsal.render.html import ScoredSpan
from nbsal.render.names import quoted_word, word_name
from nbsal.render.scores import p_text
from nbsal.render.sheet import Block, CellTable, Heading, Marked, Sentence, Sheet

WORDS, SLICES, MISTAKES, EXAMPLES = 20, 12, 50, 3  # rows of each table, and texts of a word
SIGNS = "\N{BLACK DIAMOND} and \N{WHITE DIAMOND}: beyond chance. Random flips: without a random other word."
ROUNDED = 0.005  # pull that is shown as 0
BEYOND_CHANCE = "\N{BLACK DIAMOND} beyond chance"


def summary(audit: Any) -> Sheet:
    """The finding, and the words that matter most."""
    return Sheet(
        audit.sentence, [Sentence(phrases(audit.sentence)), *words_table(audit, count=WORDS // 2)], audit.notes
    )


def report(audit: Any) -> Sheet:
    """Everything, for a page of its own."""
    blocks = [Sentence(phrases(audit.sentence)), *words_table(audit), *_examples(audit)]
    if audit.labels is not None:
        blocks += [*slices_table(audit), *mistakes_table(audit)]
    return Sheet(audit.sentence, blocks, audit.notes)


def words_table(audit: Any, title: str = "Words", count: int = WORDS) -> list[Block]:
    """The words that were hidden, those that correct most first; of another model the numbers are after a bar."""
    frame, judged = audit.words.head(count), audit.labels is not None
    ends = [""] if audit.other is None else ["", "_other"]
    head = ["Word", "Speaks for", "Texts", "Pull (95 %)"]
    head += [*(["Corrects", "Breaks", "Excess"] if judged else []), "Flips", "Random flips", "p (Holm)"]
    rows = []
    for row in frame.to_dict("records"):
        pulls = [tuple(row[f"{name}{end}"] for name in ("pull", "low", "high")) for end in ends]
        pull = " | ".join(f"{_pull(mean)}{_interval(*ends)}" for mean, *ends in pulls)
        names = ("corrects", "breaks", "excess", "flips") if judged else ("flips",)
        rest = [
            " | ".join(
                percent(row[f"{name}{end}"], 0) if name == "excess" else str(row[f"{name}{end}"]) for end in ends
            )
            for name in names
        ]
        named = [word_name(row["word"]), speaks_for(row), row["texts"]]
        rows.append(
            [*named, pull, *rest, row["flips_random"], _p(adjusted_p(row), f"{KINDS[row['kind']][:1]} {row['kind']}")]
        )
    tried = f"{len(audit.words)} words were hidden in every text that has them; {len(frame)} are shown. {SIGNS}"
    return _section(title, tried, head, rows)


def slices_table(audit: Any, title: str = "Slices", count: int = SLICES) -> list[Block]:
    """Where errors are, what is beyond chance first."""
    beyond_chance = set(audit.beyond_chance[1].index)
    rows = [
        [row.slice, row.value, row.texts, f"{percent(row.rate)} ({percent(row.low)} to {percent(row.high)})",
         percent(row.rest), row.toward, _p(row.p_holm, BEYOND_CHANCE if row.Index in beyond_chance else "")]
        for row in audit.slices.head(count).itertuples()
    ]  # fmt: skip
    head = ["Slice", "", "Texts", "Errors (95 %)", "Elsewhere", "Too often", "p (Holm)"]
    return _section(title, f"{len(audit.slices)} parts of the texts were compared with all others.", head, rows)


def _interval(low: float, high: float) -> str:
    """The interval of a mean; one text has none."""
    return f" ({_pull(low)} to {_pull(high)})" if isfinite(low) else ""


def _pull(value: float) -> str:
    """A pull with its sign, none if it is rounded to 0."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") if abs(value) >= ROUNDED else "0.00"


def _p(value: float, kind: str) -> str:
    """An adjusted p-value, and what it says."""
    return f"{p_text(value)} {kind}".rstrip()


def mistakes_table(audit: Any, count: int = MISTAKES) -> list[Block]:
    """The mistakes, with the words whose hiding corrects each."""
    frame = audit.mistakes
    rows = [
        [row.number, _plain(row.text), row.label, f"{row.prediction} {percent(row.confidence)}",
         ", ".join(row.words) if row.corrected else "not corrected"]
        for row in frame.head(count).itertuples()
    ]  # fmt: skip
    counts = f"{len(frame)} mistakes, {int(frame.corrected.sum())} of which hiding some words corrects."
    return _section("Mistakes", counts, ["No.", "Text", "Label", "Prediction", "Words that correct it"], rows)


def _examples(audit: Any) -> list[Block]:
    """Texts with the first words, with their scores; mistakes first."""
    blocks: list[Block] = []
    for word in dict.fromkeys(audit.words.head(EXAMPLES).word):
        blocks.append(Heading(phrases(f"Texts with {quoted_word(word)}")))
        spans = [spans_of(audit, int(number)) for number in audit.without(word).number.head(EXAMPLES)]
        blocks += [Marked(parts, html.largest_score(parts), large=False) for parts in spans]
    return blocks


def spans_of(audit: Any, number: int) -> list[list[ScoredSpan]]:
    """The parts of a text, cut at its words."""
    words = list(zip(audit.spans[number], audit.scores[number], strict=True))
    scored: list[list[tuple[int, int, float, str]]] = [[] for _ in audit.parts(number)]
    for (part, start, end), score in words:
        scored[part].append((start, end, score, audit.parts(number)[part][start:end]))
    return [html.scored_spans(*pair) for pair in zip(audit.parts(number), scored, strict=True)]


def _section(title: str, note: str, head: list[str], rows: list[list[Any]]) -> list[Block]:
    return [Heading(phrases(title), note), CellTable([list(map(str, row)) for row in rows], head)]


def _plain(text: Any) -> str:
    return text if isinstance(text, str) else " | ".join(text)
