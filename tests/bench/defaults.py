"""Which method finds a planted word: `python -m tests.bench defaults`, on tiny models of many kinds, trained here.

Each model decides by one planted word of a text (`tests/planted_kinds.py`). A row has the number of 12 texts in which
that word alone has the highest score, by the default method and by others; the default should miss at most one text
more than the best of them in every kind, and .97 of all. Below, plain sentences such as "The acting is dreadful." on
the embedded models of reviews: the share in which the adjective has the highest score, and in which a word that is
neither it nor the noun has it.
"""

from collections import Counter

import nbsal
from nbsal.support.errors import ModelError
from tests import planted_kinds
from tests.bench import table
from tests.bench.table import Row, at_least

NOUNS = "acting plot film ending".split()
ADJECTIVES = "dreadful thin dull boring awful terrible clumsy lifeless wonderful superb brilliant funny warm".split()
ADJECTIVES += "moving gripping delightful charming".split()
SENTENCES = {f"The {noun} is {adjective}.": (noun, adjective) for noun in NOUNS for adjective in ADJECTIVES}
METHODS = ("attn-lrp", "integrated", "occlusion", "shapley", "lime", "gae", "gradxact", "gradcam")
TEXTS, QUICK = 12, 2
BEHIND, SHARE = 1, 0.97


def results(rounds: int, quick: bool) -> list[Row]:
    """The row of each kind, and that of all; `rounds` do not matter, since nothing is timed."""
    del rounds
    count, kinds = (QUICK, ["QA", "function"]) if quick else (TEXTS, list(planted_kinds.KINDS))
    rows, totals, possible = list[Row](), Counter[str](), Counter[str]()
    for kind in kinds:
        model = planted_kinds.train(kind, count)
        name, first = nbsal.Explainer(model.subject).method.name, found(model)
        rows.append(row(f"{kind}: planted word first in {count} texts", name, first, max(first.values()) - BEHIND))
        totals.update(first | {"default": first[name]})
        possible.update(dict.fromkeys([*first, "default"], count))
    default = totals.pop("default") / possible.pop("default")
    others = ", ".join(f"{name} {totals[name] / possible[name]:.2f}" for name in METHODS if possible[name])
    summary = f"all {len(kinds)} kinds: share of the texts that a method can explain"
    rows.append(Row(summary, f"default {default:.2f}", others, **at_least(SHARE, default)))
    return rows + [plain_sentences(name) for name in ("demo/reviews-small", "demo/reviews")[: 1 if quick else 2]]


def plain_sentences(name: str) -> Row:
    """The row of an embedded model: how often the adjective of a plain sentence comes first."""
    subject = nbsal.load(name)
    default = nbsal.Explainer(subject).method.name
    shares = {method: first_words(subject, method) for method in (*METHODS, "decoded-gradcam")}
    cells = {method: f"{method} {right:.2f} / {wrong:.2f}" for method, (right, wrong) in shares.items()}
    others = ", ".join(cell for method, cell in cells.items() if method != default)
    work = f"{name}: adjective / function word first in {len(SENTENCES)} plain sentences"
    return Row(work, f"default {cells[default]}", others, **at_least(shares["occlusion"][0], shares[default][0]))


def first_words(subject: nbsal.Subject, method: str | None) -> tuple[float, float]:
    """The shares of sentences in which the adjective, and in which neither it nor the noun, has the highest score."""
    explain = nbsal.Explainer(subject, method)
    first = [planted_kinds.strongest(explain(text)) for text in SENTENCES]
    right = sum(words == [adjective] for words, (_, adjective) in zip(first, SENTENCES.values(), strict=True))
    wrong = sum(not {*words} & {*pair} for words, pair in zip(first, SENTENCES.values(), strict=True))
    return right / len(SENTENCES), wrong / len(SENTENCES)


def found(model: planted_kinds.Planted) -> dict[str, int]:
    """In how many texts each method that can explain a model has the planted word first."""
    counts = {}
    for name in METHODS:
        try:
            counts[name] = model.first(name)
        except ModelError:
            continue
    return counts


def row(work: str, default: str, first: dict[str, int], least: int) -> Row:
    """The row of a kind: the default method beside the others."""
    others = ", ".join(f"{name} {count}" for name, count in first.items() if name != default)
    return Row(work, f"default {default} {first[default]}", others, **at_least(least, first[default]))


if __name__ == "__main__":
    table.main(results, __doc__)
