"""How the figures and tables of "Better Explain Transformers by Illuminating Important Information" are made."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from nbsal.evaluation._answers import answer_recall_at, precision_at
from nbsal.evaluation._faithfulness import faithfulness
from nbsal.evaluation.report import Groups, corrupted_masks, one_each, random_masks
from nbsal.evaluation.results import Results
from nbsal.explainer import Explainer
from nbsal.figures import checkpoints, flow
from nbsal.figures import mask_lrp as drawing
from nbsal.figures.build import BENCHMARK_TASKS, Build
from nbsal.figures.checkpoints import DATASETS
from nbsal.figures.exhibits import Exhibit, Product, example, footing
from nbsal.model.head_mask import HeadMask

OURS = "mask-lrp"
BASELINES = (
    "raw-attention", "rollout", "lrp", "partial-lrp", "gae", "attention-cam", "attention-gradcam", "attcat",
)  # fmt: skip
CLASSIFIED = ("sst2", "imdb", "yelp_polarity", "mnli", "qqp")
ANSWERED = ("squad", "squad_v2")
POINTING = ("rollout", "raw-attention", "attcat", OURS)
CORRUPTED = 60  # texts: 22 masks are run on each
NEED = "the paper's rows: --model with a checkpoint of Table 6"


def faithful(edition: Build, table: str) -> tuple[Results, str]:
    """AOPC and its kin for all methods on a table, and on what."""
    subject, rows, cache = edition.subject(table), edition.rows(table, least=True), edition.cache(table)
    groups = one_each(subject, [*BASELINES, "alti", OURS]) | random_masks(subject)
    evaluate = partial(faithfulness, texts=rows.texts, cache=cache, progress=False)
    return edition.results("faithfulness", table, len(rows.texts), groups, evaluate), rows.said


def distances(edition: Build) -> Product:
    """Figure 1."""
    study = edition.study("sst2")
    return Product([("", drawing.relation_distances(study))], _parsed(edition, study.rows))


def through(edition: Build) -> Product:
    """Figure 2, at the block with the most selected heads."""
    subject = edition.subject("sst2")
    text = example(edition, "sst2", 1, most=16)
    block = int(subject.mask.selected.sum(1).argmax())
    drawn = flow.relevance_flow(flow.through_block(subject, text, block))
    return Product([(str(text), drawn)], footing(edition, ("sst2", "one text rightly taken for positive")))


def curves(edition: Build) -> Product:
    """Figure 3."""
    found, said = faithful(edition, "sst2")
    names = [OURS, *BASELINES, "random mask"]
    return Product([("", drawing.deletion_curves(found, names))], footing(edition, ("sst2", said)))


def corruption(edition: Build) -> Product:
    """Figure 4; beside the paper's curve the level of GAE, which it says to end at."""
    subject, cache = edition.subject("sst2"), edition.cache("sst2")
    rows = edition.rows("sst2", least=True, most=None if edition.full or not edition.real else CORRUPTED)
    evaluate = partial(faithfulness, texts=rows.texts, cache=cache, progress=False)
    groups = corrupted_masks(subject) | one_each(subject, ["gae"])
    found = edition.results("corruption", "sst2", len(rows.texts), groups, evaluate)
    return Product([("", drawing.corruption_curves(found))], footing(edition, ("sst2", rows.said)))


def head_figure(edition: Build) -> Product:
    """Figure 5."""
    subjects = [edition.subject(table) for table in BENCHMARK_TASKS if edition.has(table)]
    masks: dict[str, HeadMask] = {subject.name: subject.mask for subject in subjects}
    said = "; ".join(f"{name}: {mask!r}" for name, mask in masks.items())
    given = f", those of --model on {_parses(edition)}" if edition.models else ""
    rests = f"Masks of the embedded models were found on the English Web Treebank{given}."
    return Product([(said, drawing.head_maps(masks))], rests)


def difference(table: str, label: int, edition: Build) -> Product:
    """Figures 6 to 13."""
    subject = edition.subject(table)
    text = example(edition, table, label, most=120)
    found = {name: Explainer(subject, name)(text) for name in (OURS, *BASELINES)}
    drawn = drawing.attribution_differences(found.pop(OURS), found)
    said = (
        f"one text rightly taken for {subject.labels[label]}, the first of 8 to 120 words, from {edition.name(table)}"
    )
    return Product([("", drawn)], footing(edition, (table, said)))


def deletion_table(edition: Build, tables: Sequence[str], names: Sequence[str]) -> Product:
    """Tables 1 and 4: the tables that can be shown."""
    both = {table: faithful(edition, table) for table in tables if edition.has(table)}
    panels = {edition.name(table): found for table, (found, _) in both.items()}
    left = [BENCHMARK_TASKS[table].shown for table in tables if table not in both]
    note = f"Not shown without --model, or without tables: {', '.join(left)}." if left else ""
    rested = [(table, said) for table, (_, said) in both.items()]
    return Product([(note, drawing.faithfulness_table(panels, explainers=names))], footing(edition, *rested))


def scores(edition: Build) -> Product:
    """Table 1; with orders by chance, which the paper does not print."""
    return deletion_table(edition, CLASSIFIED, [*BASELINES, "random mask", OURS, "random"])


def decomposition(edition: Build) -> Product:
    """Table 4: ALTI, which the paper calls ALTC."""
    return deletion_table(edition, CLASSIFIED[:3], ["alti", OURS])


def parts(edition: Build) -> Product:
    """Table 3: one kind of heads at a time."""
    panels, rested = {}, []
    for table in ("sst2", "qqp"):
        if not edition.has(table):
            continue
        subject, rows, cache = edition.subject(table), edition.rows(table, least=True), edition.cache(table)
        nothing = np.zeros_like(subject.mask.positional)
        masks = {
            OURS: subject.mask,
            f"{OURS} without positional heads": HeadMask(nothing, subject.mask.relations),
            f"{OURS} without syntactic heads": HeadMask(subject.mask.positional),
        }
        groups: Groups = {name: {name: Explainer(subject, OURS, mask=mask)} for name, mask in masks.items()}
        evaluate = partial(faithfulness, texts=rows.texts, cache=cache, progress=False)
        panels[edition.name(table)] = edition.results("parts", table, len(rows.texts), groups, evaluate)
        rested.append((table, rows.said))
    return Product([("", drawing.faithfulness_table(panels, ()))], footing(edition, *rested))


def answers(edition: Build) -> Product:
    """Table 2, as the paper's program counts and in the word's own sense."""
    recalls, precisions, rested = {}, {}, []
    for table in ANSWERED:
        if not edition.has(table):
            continue
        subject, rows, cache = edition.subject(table), edition.rows(table), edition.cache(table)
        whole = [at for at, row in enumerate(subject.encode(rows.texts)) if not row.dropped]
        texts = [rows.texts[at] for at in whole]
        gold = [(rows.answers or [])[at] for at in whole]
        shared: dict[str, Any] = {"texts": texts, "answers": gold, "memory": cache, "progress": False}
        groups, name = one_each(subject, POINTING), f"{edition.name(table)}, {subject.name}"
        as_published = partial(answer_recall_at, variant="published", **shared)
        recalls[name] = edition.results("answers", table, len(texts), groups, as_published)
        precisions[name] = edition.results("precision", table, len(texts), groups, partial(precision_at, **shared))
        rested.append((table, f"{rows.said}, {len(texts)} of them within the model's length"))
    return Product(
        [
            (
                "What the paper's program calls Precision@20: a share of the answer's tokens",
                drawing.answer_table(recalls),
            ),
            ("The share of the 20 best context tokens that lie in the answer", drawing.answer_table(precisions)),
        ],
        footing(edition, *rested),
    )


def datasets(edition: Build) -> Product:
    """Table 5."""
    counts = {table: edition.count(table) for table in DATASETS}
    here = {table: count for table, count in counts.items() if count is not None}
    return Product([("", checkpoints.dataset_table(here))], "The paper's own numbers, and what is at hand.")


def registry(edition: Build) -> Product:
    """Table 6."""
    used = {table: named.model for table, named in edition.models.items()}
    used |= {table: bench.demo for table, bench in BENCHMARK_TASKS.items() if bench.demo and table not in used}
    return Product([("", checkpoints.checkpoint_table(used))], "The paper's registry; --model takes these names.")


def _parsed(edition: Build, rows: int) -> str:
    return f"Gold parses of {_parses(edition)}, {rows} positions; the paper parses SST-2 by machine."


def _parses(edition: Build) -> str:
    return "the English Web Treebank's development part" if edition.treebank else "the sentences shipped with nbsal"


def _differences() -> list[Exhibit]:
    shown = (
        (6, "sst2", 1, "positive, SST-2"), (7, "mnli", 0, "entailment, MNLI"), (8, "mnli", 1, "neutral, MNLI"),
        (9, "mnli", 2, "contradiction, MNLI"), (10, "imdb", 0, "negative, IMDB"), (11, "imdb", 1, "positive, IMDB"),
        (12, "yelp_polarity", 0, "negative, Yelp"), (13, "yelp_polarity", 1, "positive, Yelp"),
    )  # fmt: skip
    return [
        Exhibit(f"Figure {number}", f"Mask-LRP less every baseline: {said}", "more on words that are linked by syntax",
                partial(difference, table, label), NEED)
        for number, table, label, said in shown
    ]  # fmt: skip


EXHIBITS = [
    Exhibit(
        "Figure 1",
        "How far from a dependent its head stands",
        "each relation has a commonest place",
        distances,
        "SST-2, parsed",
    ),
    Exhibit("Figure 2", "Relevance on its way through a block", "a sketch", through, "nothing"),
    Exhibit("Figure 3", "AOPC and log-odds as tokens are hidden, SST-2", "Mask-LRP leads at every share", curves, NEED),
    Exhibit(
        "Figure 4", "Mask-LRP with a corrupted mask, SST-2", "falls with corruption, down to GAE", corruption, NEED
    ),
    Exhibit(
        "Figure 5",
        "Syntactic and positional heads by model",
        "positional heads below, syntactic ones above",
        head_figure,
        NEED,
    ),
    *_differences(),
    Exhibit(
        "Table 1",
        "Mean AOPC and log-odds",
        "SST-2: Mask-LRP .438 / -1.208, random mask .432 / -1.205, GAE .423 / -1.171, LRP .336 / -.888",
        scores,
        NEED,
    ),
    Exhibit(
        "Table 2",
        "Precision@20 on SQuAD",
        "v1, BERT, in percent: Mask-LRP 52.97, raw attention 36.33, AttCAT 31.44, rollout 4.62",
        answers,
        NEED,
    ),
    Exhibit(
        "Table 3",
        "One part of the mask alone",
        "SST-2: .438 / -1.208 whole; leaving out a part changes little",
        parts,
        NEED,
    ),
    Exhibit("Table 4", "Mask-LRP and ALTI", "SST-2: .438 against .369", decomposition, NEED),
    Exhibit("Table 5", "Data sets", "", datasets, "nothing"),
    Exhibit("Table 6", "Checkpoints", "", registry, "nothing"),
]
