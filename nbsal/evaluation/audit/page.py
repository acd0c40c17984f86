"""An audit as static HTML: a summary for a notebook's cell, and a report that can be sent."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from nbsal.evaluation.audit.word_table import KINDS, adjusted_p, speaks_for
from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.render.html import ScoredSpan
from nbsal.render.names import word_name

WORDS, SLICES, MISTAKES, EXAMPLES = 20, 12, 50, 3  # rows of each table, and texts of a word
BEYOND_CHANCE = "\N{BLACK DIAMOND} beyond chance"
CELL = "border:0;border-bottom:1px solid rgba(128,128,128,.4);padding:4px 12px 4px 0;text-align:left;vertical-align:top"


def summary_html(audit: Any) -> str:
    """The finding, and the words that matter most."""
    body = html.headline_html([("text", audit.sentence)]) + words_html(audit, count=WORDS // 2)
    return html.block_html(audit.sentence, body, audit.notes, titled=False)


def report_html(audit: Any) -> str:
    """Everything, for a page of its own."""
    parts = [html.headline_html([("text", audit.sentence)]), words_html(audit)]
    parts += [_examples_html(audit)]
    if audit.labels is not None:
        parts += [slices_html(audit), mistakes_html(audit)]
    return html.block_html(audit.sentence, "".join(parts), audit.notes, titled=False)


def words_html(audit: Any, title: str = "Words", count: int = WORDS) -> str:
    """The words that were hidden, those that correct most first; of another model the numbers are after a bar."""
    frame, judged = audit.words.head(count), audit.labels is not None
    ends = [""] if audit.other is None else ["", "_other"]
    head = ["Word", "Speaks for", "Texts", "Pull (95 %)"]
    head += [*(["Corrects", "Breaks", "Excess"] if judged else []), "Flips", "Flips of a random word", "p (Holm)"]
    rows = []
    for row in frame.to_dict("records"):
        pulls = [tuple(row[f"{name}{end}"] for name in ("pull", "low", "high")) for end in ends]
        pull = " | ".join(f"{mean:+.2f}{_interval(*ends)}" for mean, *ends in pulls)
        names = ("corrects", "breaks", "excess", "flips") if judged else ("flips",)
        rest = [
            " | ".join(
                percent(row[f"{name}{end}"], 0) if name == "excess" else str(row[f"{name}{end}"]) for end in ends
            )
            for name in names
        ]
        named = [word_name(row["word"]), speaks_for(row), row["texts"]]
        rows.append([*named, pull, *rest, row["flips_random"], _p(adjusted_p(row), KINDS[row["kind"]])])
    tried = f"{len(audit.words)} words were hidden in every text that has them; {len(frame)} are shown."
    return _section(title, tried, head, rows)


def slices_html(audit: Any, title: str = "Slices", count: int = SLICES) -> str:
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
    return f" ({low:+.2f} to {high:+.2f})" if isfinite(low) else ""


def _p(value: float, kind: str) -> str:
    """An adjusted p-value, and what it says."""
    return f"{value:.3f} {kind}".rstrip()


def mistakes_html(audit: Any, count: int = MISTAKES) -> str:
    """The mistakes, with the words behind each."""
    frame = audit.mistakes
    rows = [
        [row.number, _plain(row.text), row.label, f"{row.prediction} {percent(row.confidence)}",
         ", ".join(row.words) if row.corrected else "not corrected"]
        for row in frame.head(count).itertuples()
    ]  # fmt: skip
    counts = f"{len(frame)} mistakes, {int(frame.corrected.sum())} of which hiding some words corrects."
    return _section("Mistakes", counts, ["No.", "Text", "Label", "Prediction", "Words behind it"], rows)


def _examples_html(audit: Any) -> str:
    """Texts with the first words, with their scores; mistakes first."""
    blocks = []
    for word in dict.fromkeys(audit.words.head(EXAMPLES).word):
        texts = audit.without(word).number.head(EXAMPLES)
        shaded = "".join(f'<div style="margin:4px 0;line-height:1.75">{text_html(audit, int(i))}</div>' for i in texts)
        blocks.append(f"<p><b>Texts with “{html.escape(word)}”</b></p>{shaded}")
    return "".join(blocks)


def text_html(audit: Any, number: int, bold: Sequence[str] = ()) -> str:
    """A text with the scores of its words for the class that was decided, and some words in bold type."""
    scored = spans_of(audit, number)
    return html.text_html(scored, html.largest_score(scored), [word.casefold() for word in bold])


def spans_of(audit: Any, number: int) -> list[list[ScoredSpan]]:
    """The parts of a text, cut at its words."""
    words = list(zip(audit.spans[number], audit.scores[number], strict=True))
    scored: list[list[tuple[int, int, float, str]]] = [[] for _ in audit.parts(number)]
    for (part, start, end), score in words:
        scored[part].append((start, end, score, audit.parts(number)[part][start:end]))
    return [html.scored_spans(*pair) for pair in zip(audit.parts(number), scored, strict=True)]


def _section(title: str, note: str, head: list[str], rows: list[list[Any]]) -> str:
    cells = "".join(f'<th style="{CELL}">{html.escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{html.escape(html.visible(str(cell)))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    table = f'<table style="border-collapse:collapse;font-size:90%"><tr>{cells}</tr>{body}</table>'
    return f'{html.heading_html(title, note)}<div style="overflow-x:auto">{table}</div>'


def _plain(text: Any) -> str:
    return text if isinstance(text, str) else " | ".join(text)
