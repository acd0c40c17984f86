"""How to draw the figures and tables of "Better Explain Transformers by Illuminating Important Information"."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from nbsal.evaluation._answers import answer_recall_at, precision_at
from nbsal.evaluation._faithfulness import faithfulness
from nbsal.evaluation.groups import Groups, corrupted_masks, random_masks, single_method_groups
from nbsal.evaluation.results import Results
from nbsal.explain.explainer import Explainer
from nbsal.figures import checkpoints, flow
from nbsal.figures import mask_lrp as drawing
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.build import Build
from nbsal.figures.checkpoints import DATASETS
from nbsal.figures.exhibits import Exhibit, Product, Source, example, source_note
from nbsal.model.head_mask import HeadMask

OURS = "mask-lrp"
GAE = "transformer-attribution"  # what the paper's program runs under this name; it cites the simpler method `gae`
BASELINES = (
    "raw-attention", "rollout", "lrp", "partial-lrp", GAE, "attention-cam", "attention-gradcam", "attcat",
)  # fmt: skip
CLASSIFICATION_TABLES = ("sst2", "imdb", "yelp_polarity", "mnli", "qqp")
ANSWER_TABLES = ("squad", "squad_v2")
ANSWER_METHODS = ("rollout", "raw-attention", "attcat", OURS)
MAX_CORRUPTION_TEXTS = 60  # 47 masks are evaluated on each text
PAPER_MODELS = "--model with a checkpoint of Table 6"


def faithfulness_results(build: Build, table: str) -> tuple[Results, Source]:
    """Evaluate the faithfulness of all methods on a table; return results and their source."""
    subject, rows = build.subject(table), build.rows(table, skip_short=True)
    groups = single_method_groups(subject, [*BASELINES, "alti", OURS]) | random_masks(subject)
    return build.results("faithfulness", rows, groups, faithfulness), rows.source


def distance_figure(build: Build) -> Product:
    """Figure 1 of Song et al. (2024): distances of dependents to their heads."""
    study = build.study("sst2")
    note = f"Gold parses of {_parse_source(build)}, {study.rows} positions; the paper uses automatic parses of SST-2."
    return Product([("", drawing.relation_distances(study))], note)


def flow_figure(build: Build) -> Product:
    """Figure 2 of Song et al. (2024): relevance through the block with the most selected heads."""
    subject = build.subject("sst2")
    text = example(build, "sst2", 1, max_words=16)
    block = int(subject.mask.selected.sum(1).argmax())
    figure = flow.relevance_flow(flow.through_block(subject, text, block))
    return Product([(str(text), figure)], source_note(build, ("sst2", "one text correctly classified as positive")))


def deletion_figure(build: Build) -> Product:
    """Figure 3 of Song et al. (2024): AOPC and log-odds as tokens are hidden."""
    results, source = faithfulness_results(build, "sst2")
    names = [OURS, *BASELINES, "random mask"]
    return Product([("", drawing.deletion_curves(results, names))], source_note(build, source))


def corruption_figure(build: Build) -> Product:
    """Figure 4 of Song et al. (2024): Mask-LRP with random heads added to its mask.

    GAE is a level line, because the paper says that the curve ends at it. So is Mask-LRP with the reasons of its heads,
    which the corrupted masks do not have.
    """
    subject = build.subject("sst2")
    most = min(MAX_CORRUPTION_TEXTS, build.texts.get("sst2", MAX_CORRUPTION_TEXTS))
    limit = None if build.full or not build.has_benchmarks else most
    rows = build.rows("sst2", skip_short=True, max_texts=limit)
    groups = corrupted_masks(subject) | single_method_groups(subject, [OURS, GAE])
    results = build.results("corruption", rows, groups, faithfulness)
    return Product([("", drawing.corruption_curves(results))], source_note(build, rows.source))


def head_figure(build: Build) -> Product:
    """Figure 5 of Song et al. (2024): the selected heads of each model."""
    shown = [table for table in BENCHMARK_TASKS if build.can_show(table)]
    subjects = [variant.subject(table) for table in shown for variant in build.variants(table)]
    masks: dict[str, HeadMask] = {subject.name: subject.mask for subject in subjects}
    caption = "; ".join(f"{name}: {mask!r}" for name, mask in masks.items())
    note = "The masks of the embedded models come from the English Web Treebank."
    if build.models:
        note += f" The masks of --model come from {_parse_source(build)}."
    return Product([(caption, drawing.head_maps(masks))], note)


def difference_figure(table: str, label: int, build: Build) -> Product:
    """Figures 6 to 13 of Song et al. (2024): the scores of Mask-LRP and its differences to the baselines."""
    subject = build.subject(table)
    text = example(build, table, label, max_words=120)
    saliencies = {name: Explainer(subject, name)(text) for name in (OURS, *BASELINES)}
    figure = drawing.attribution_differences(saliencies.pop(OURS), saliencies)
    description = (
        f"the first text correctly classified as {subject.labels[label]} with 8 to 120 words, from {build.name(table)}"
    )
    return Product([("", figure)], source_note(build, (table, description)))


def evaluate_models(
    build: Build, tables: Iterable[str], evaluate: Callable[[Build, str], tuple[Results, Source]]
) -> tuple[dict[str, Results], list[Source]]:
    """Evaluate every model of the data sets that have a model and texts; return results by panel, and their sources."""
    panels, sources = {}, []
    for table in filter(build.can_show, tables):
        variants = list(build.variants(table))
        for variant in variants:
            panels[variant.panel(table, len(variants) > 1)], source = evaluate(variant, table)
        sources.append(source)
    return panels, sources


def deletion_table(build: Build, tables: Sequence[str], names: Sequence[str]) -> Product:
    """Tables 1 and 4 of Song et al. (2024), for the data sets that have a model and texts."""
    panels, sources = evaluate_models(build, tables, faithfulness_results)
    missing = [BENCHMARK_TASKS[table].title for table in tables if not build.can_show(table)]
    note = f"Without a model (--model) or a benchmark table: {', '.join(missing)}." if missing else ""
    return Product([(note, drawing.faithfulness_table(panels, explainers=names))], source_note(build, *sources))


def score_table(build: Build) -> Product:
    """Table 1 of Song et al. (2024), with one more row: the random order, which the paper leaves out."""
    return deletion_table(build, CLASSIFICATION_TABLES, [*BASELINES, "random mask", OURS, "random"])


def alti_table(build: Build) -> Product:
    """Table 4 of Song et al. (2024); the paper calls ALTI "ALTC"."""
    return deletion_table(build, CLASSIFICATION_TABLES[:3], ["alti", OURS])


def mask_part_table(build: Build) -> Product:
    """Table 3 of Song et al. (2024): the mask with one kind of heads at a time."""
    panels, sources = evaluate_models(build, ("sst2", "qqp"), mask_part_results)
    return Product([("", drawing.faithfulness_table(panels, ()))], source_note(build, *sources))


def mask_part_results(build: Build, table: str) -> tuple[Results, Source]:
    """Evaluate the whole mask and each part of it on a table; return results and their source."""
    subject, rows = build.subject(table), build.rows(table, skip_short=True)
    no_heads = np.zeros_like(subject.mask.positional)
    masks = {
        OURS: subject.mask,
        f"{OURS} without positional heads": HeadMask(no_heads, subject.mask.relations),
        f"{OURS} without syntactic heads": HeadMask(subject.mask.positional),
    }
    groups: Groups = {name: {name: Explainer(subject, OURS, mask=mask)} for name, mask in masks.items()}
    return build.results("parts", rows, groups, faithfulness), rows.source


def answer_table(build: Build) -> Product:
    """Table 2 of Song et al. (2024): Precision@20 as its program computes it, and as usually defined."""
    recalls, precisions, sources = {}, {}, []
    for table in filter(build.can_show, ANSWER_TABLES):
        for variant in build.variants(table):
            name = variant.panel(table, True)
            recalls[name], precisions[name], source = answer_results(variant, table)
            sources.append(source)
    recall_caption = "Precision@20 as the paper's program computes it: the share of the answer's tokens in the top 20"
    precision_caption = "Precision@20 as usually defined: the share of the top 20 context tokens in the answer"
    parts = [(recall_caption, drawing.answer_table(recalls)), (precision_caption, drawing.answer_table(precisions))]
    return Product(parts, source_note(build, *sources))


def answer_results(build: Build, table: str) -> tuple[Results, Results, Source]:
    """Both forms of Precision@20 on a table, and their source."""
    subject, rows = build.subject(table), build.rows(table)
    complete = [number for number, row in enumerate(subject.encode(rows.texts)) if not row.dropped]
    answers = [(rows.answers or [])[number] for number in complete]
    description = f"{rows.description}, {len(complete)} of them within the model's maximum length"
    rows = replace(rows, texts=[rows.texts[number] for number in complete], description=description)
    groups = single_method_groups(subject, ANSWER_METHODS)
    recalls = build.results("answers", rows, groups, answer_recall_at, answers=answers, variant="published")
    precisions = build.results("precision", rows, groups, precision_at, answers=answers)
    return recalls, precisions, rows.source


def dataset_table(build: Build) -> Product:
    """Table 5 of Song et al. (2024): the data sets."""
    counts = {table: build.count(table) for table in DATASETS}
    available = {table: count for table, count in counts.items() if count is not None}
    return Product([("", checkpoints.dataset_table(available))], "The numbers in the paper, and the rows found here.")


def checkpoint_table(build: Build) -> Product:
    """Table 6 of Song et al. (2024): the models."""
    used = {table: [task.demo] for table, task in BENCHMARK_TASKS.items() if task.demo}
    used |= {table: [named.model for named in models] for table, models in build.models.items()}
    return Product([("", checkpoints.checkpoint_table(used))], "The models of the paper; --model takes these names.")


def _parse_source(build: Build) -> str:
    return "the English Web Treebank (development split)" if build.treebank else "the sentences bundled with nbsal"


_exhibit = partial(Exhibit, needs=PAPER_MODELS)
_DIFFERENCES = (
    (6, "sst2", 1, "positive, SST-2"), (7, "mnli", 0, "entailment, MNLI"), (8, "mnli", 1, "neutral, MNLI"),
    (9, "mnli", 2, "contradiction, MNLI"), (10, "imdb", 0, "negative, IMDB"), (11, "imdb", 1, "positive, IMDB"),
    (12, "yelp_polarity", 0, "negative, Yelp"), (13, "yelp_polarity", 1, "positive, Yelp"),
)  # fmt: skip
EXHIBITS = [
    Exhibit(
        "Figure 1", "Distance from a dependent to its head, by relation", "each relation has one most common distance",
        distance_figure, "automatic parses of SST-2",
    ),
    Exhibit("Figure 2", "Relevance through one block", "a sketch", flow_figure, ""),
    _exhibit(
        "Figure 3", "AOPC and log-odds as tokens are hidden, SST-2", "Mask-LRP leads at every share", deletion_figure,
    ),
    _exhibit(
        "Figure 4", "Mask-LRP with a corrupted mask, SST-2", "falls with corruption, down to GAE", corruption_figure,
    ),
    _exhibit(
        "Figure 5", "Syntactic and positional heads by model", "positional heads in low blocks, syntactic ones in high",
        head_figure,
    ),
    *(
        _exhibit(
            f"Figure {number}", f"Mask-LRP minus each baseline: {description}",
            "higher scores on words that are linked by syntax", partial(difference_figure, table, label),
        )
        for number, table, label, description in _DIFFERENCES
    ),
    _exhibit(
        "Table 1", "Mean AOPC and log-odds",
        "SST-2: Mask-LRP .438 / -1.208, random mask .432 / -1.205, GAE .423 / -1.171, LRP .336 / -.888",
        score_table,
    ),
    _exhibit(
        "Table 2", "Precision@20 on SQuAD",
        "v1, BERT, in percent: Mask-LRP 52.97, raw attention 36.33, AttCAT 31.44, rollout 4.62", answer_table,
    ),
    _exhibit(
        "Table 3", "Mask-LRP without one part of the mask",
        "SST-2: .438 / -1.208 with the whole mask; leaving out a part changes little", mask_part_table,
    ),
    _exhibit("Table 4", "Mask-LRP and ALTI", "SST-2: .438 against .369", alti_table),
    Exhibit("Table 5", "Data sets", "", dataset_table, ""),
    Exhibit("Table 6", "Checkpoints", "", checkpoint_table, ""),
]  # fmt: skip
