"""How to draw the figures and tables of "Decoding Layer Saliency in Language Transformers", by number."""

from collections.abc import Callable
from functools import partial

from nbsal.evaluation._games import games
from nbsal.evaluation._overlap import overlap
from nbsal.evaluation.clouds import Cloud
from nbsal.evaluation.groups import Groups, game_groups, single_method_groups
from nbsal.evaluation.results import Results
from nbsal.explain.explainer import Explainer
from nbsal.figures import decoding_saliency as drawing
from nbsal.figures import pages
from nbsal.figures.build import Build
from nbsal.figures.exhibits import Exhibit, Product, Source, example, source_note
from nbsal.model.subject import Subject

ALLENNLP = ("simple@allennlp", "smooth@allennlp", "integrated@allennlp")
THERMOSTAT_EXAMPLES = ("shapley@thermostat", "occlusion@thermostat", "integrated@thermostat")
THERMOSTAT = (
    *THERMOSTAT_EXAMPLES, "gradient-shap@thermostat", "lime@thermostat", "gradxact@thermostat",
    "deeplift-shap@thermostat",
)  # fmt: skip
TENTHS = tuple(step / 10 for step in range(11))
BASELINES = {"sst2": ALLENNLP, "ag_news": THERMOSTAT}
CLOUD_METHODS = {"sst2": ALLENNLP, "ag_news": THERMOSTAT_EXAMPLES}
CLASSES = ("World", "Sports", "Business", "Sci/Tech")
CLASS_PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))  # in the order of Tables 3 to 8
CAM, SIMPLE = "decoded Grad-CAM", "decoded Simple"
PAPER_MODELS = "--model sst2=ROBERTA and --model ag_news=ROBERTA, fine-tuned, with --lm roberta-base"


def decoded_layers(subject: Subject) -> list[int]:
    """The default layer and its neighbours, and as in the paper those at three quarters and at the end, 9 and 12 of 12.

    They were chosen before any results were computed.
    """
    near = range(subject.default_layer - 2, subject.default_layer + 2)
    layers = {*near, round(subject.depth * 3 / 4), subject.depth}
    return sorted(layer for layer in layers if 0 <= layer <= subject.depth)


def game_results(build: Build, table: str) -> tuple[Results, Source]:
    """Play both games with every layer and every baseline of a table; return results and their source."""
    subject, rows = build.subject(table), build.rows(table)
    groups = game_groups(subject, subject.default_layer, ["gradcam", "simple", *BASELINES[table]])
    results = build.results("games", rows, groups, games, labels=rows.labels, fractions=TENTHS, random=0)
    return results, rows.source


def cloud_explainers(build: Build, table: str) -> dict[str, Explainer]:
    """The explainers whose class tokens are compared."""
    subject = build.subject(table)
    ours = {f"{CAM} l{subject.default_layer}": Explainer(subject, "decoded-gradcam")}
    return {name: Explainer(subject, name) for name in CLOUD_METHODS[table]} | ours


def class_clouds(build: Build, table: str) -> tuple[dict[str, Cloud], Source]:
    """Class tokens by explainer, and their source."""
    rows = build.rows(table)
    return build.clouds(cloud_explainers(build, table), rows), rows.source


def geometry_figure(build: Build) -> Product:
    """Figure 1 of Hou and Castanon (2023): tokens on the unit sphere, and where each layer is decoded to."""
    subject = build.subject("sst2")
    figure = drawing.toy_geometry(drawing.decoded_path(subject))
    return Product([("", figure)], f"'big dog' in every layer of {subject.name}, decoded by {subject.lm_head.source}.")


def game_figure(table: str, build: Build) -> Product:
    """Figures 2 and 3 of Hou and Castanon (2023): the Hiding and Revealing games."""
    results, source = game_results(build, table)
    ours = [f"{CAM} l{layer}" for layer in decoded_layers(build.subject(table))]
    names = [*ours, "Grad-CAM l0", *BASELINES[table], "random"]
    return Product([("", drawing.game_curves(results, names))], source_note(build, source))


def simple_figure(table: str, build: Build) -> Product:
    """Figures 7 and 8 of Hou and Castanon (2023): the games of decoded Simple."""
    results, source = game_results(build, table)
    figure = drawing.game_curves(results, simple_explainers(build, table))
    return Product([("", figure)], source_note(build, source))


def simple_explainers(build: Build, table: str) -> list[str]:
    """The explainers of Table 2 of Hou and Castanon (2023)."""
    original = "simple@allennlp" if table == "sst2" else "Simple l0"
    return [original, *(f"{SIMPLE} l{layer}" for layer in decoded_layers(build.subject(table))[:3])]


def layer_figure(table: str, build: Build) -> Product:
    """Figures 5 and 6 of Hou and Castanon (2023): the games at every layer of decoded Grad-CAM."""
    results, source = game_results(build, table)
    return Product([("", drawing.layer_curves(results, CAM))], source_note(build, source))


def area_tables(build: Build) -> Product:
    """Table 1 of Hou and Castanon (2023), with one more row: the same layer without decoding.

    The difference is the effect of decoding alone.
    """
    parts, sources = [], []
    for table in BASELINES:
        results, source = game_results(build, table)
        subject = build.subject(table)
        ours = [f"{CAM} l{layer}" for layer in decoded_layers(subject)]
        undecoded = f"Grad-CAM l{subject.default_layer}"
        names = [*ours, undecoded, "Grad-CAM l0", *BASELINES[table], "random"]
        styler = drawing.area_table({build.name(table): results}, [*ours, undecoded], names)
        parts.append((f"{undecoded} is the same layer without decoding; it is not in the paper.", styler))
        sources.append(source)
    return Product(parts, source_note(build, *sources))


def simple_area_tables(build: Build) -> Product:
    """Table 2 of Hou and Castanon (2023): areas of the simple methods."""
    parts, sources = [], []
    for table in BASELINES:
        results, source = game_results(build, table)
        names = simple_explainers(build, table)
        parts.append(("", drawing.area_table({build.name(table): results}, explainers=names)))
        sources.append(source)
    return Product(parts, source_note(build, *sources))


def overlap_figure(build: Build) -> Product:
    """Figure 4 of Hou and Castanon (2023): the share of tokens in several classes."""
    panels, sources = {}, []
    for table in BASELINES:
        subject, rows = build.subject(table), build.rows(table)
        groups: Groups = single_method_groups(subject, CLOUD_METHODS[table])
        groups["decoded"] = {f"{CAM} l{subject.default_layer}": Explainer(subject, "decoded-gradcam")}
        panels[build.name(table)] = build.results("overlap", rows, groups, overlap)
        sources.append(rows.source)
    return Product([("", drawing.overlap_shares(panels))], source_note(build, *sources))


def overlap_count_figure(build: Build) -> Product:
    """Figure 12 of Hou and Castanon (2023): the number of tokens in several classes."""
    panels, sources = {}, []
    for table in BASELINES:
        panels[build.name(table)], source = class_clouds(build, table)
        sources.append(source)
    return Product([("", drawing.overlap_counts(panels))], source_note(build, *sources))


def cloud_figure(table: str, build: Build) -> Product:
    """Figures 9 and 11 of Hou and Castanon (2023): word clouds of each class."""
    clouds, source = class_clouds(build, table)
    figure = drawing.word_clouds(clouds, classes=build.subject(table).labels)
    return Product([("", figure)], source_note(build, source))


def simple_cloud_figure(build: Build) -> Product:
    """Figure 10 of Hou and Castanon (2023): word clouds of decoded Simple."""
    subject, rows = build.subject("sst2"), build.rows("sst2")
    layers = decoded_layers(subject)[:3]
    explainers = {f"{SIMPLE} l{layer}": Explainer(subject, "decoded-simple", layer=layer) for layer in layers}
    figure = drawing.word_clouds(build.clouds(explainers, rows), classes=subject.labels)
    return Product([("", figure)], source_note(build, rows.source))


def shared_token_table(table: str, pair: tuple[int, int], build: Build) -> Product:
    """Tables 3 to 9 of Hou and Castanon (2023): the top tokens that two classes share."""
    clouds, source = class_clouds(build, table)
    first, second = (build.subject(table).labels[label] for label in pair)
    return Product([("", drawing.shared_tokens(clouds, first, second))], source_note(build, source))


def example_figures(build: Build) -> Product:
    """Section A.5 of Hou and Castanon (2023): highlighted texts.

    The paper shows two texts per class of SST-2; here it is one text per class of both tables.
    """
    parts, sources = [], []
    for table in BASELINES:
        explainers = cloud_explainers(build, table)
        for label, class_name in enumerate(build.subject(table).labels):
            text = example(build, table, label)
            saliencies = {name: explain(text) for name, explain in explainers.items()}
            parts.append((f"{build.name(table)}, {class_name}", drawing.highlights(saliencies)))
        sources.append((table, "the first correctly classified text of each class with 8 to 60 words"))
    return Product(parts, source_note(build, *sources))


def supplement_pages(build: Build) -> Product:
    """The supplement of Hou and Castanon (2023): every text highlighted, for both tables."""
    parts, sources = [], []
    for table in BASELINES:
        build.check_time()
        rows = build.rows(table)
        saliencies = build.explanations(cloud_explainers(build, table), rows)
        labels = [build.subject(table).labels[label] for label in rows.labels or []]
        page = pages.supplement(saliencies, labels, f"Every text of {rows.description}")
        parts.append((build.name(table), page))
        sources.append(rows.source)
    return Product(parts, source_note(build, *sources))


def _two_figures(number: int, title: str, paper: str, make: Callable[[str, Build], Product]) -> list[Exhibit]:
    """The same figure for SST-2 and, under the next number, for AG News."""
    return [
        _exhibit(f"Figure {number}", f"{title}, SST-2", paper, partial(make, "sst2")),
        _exhibit(f"Figure {number + 1}", f"{title}, AG News", paper, partial(make, "ag_news")),
    ]


_exhibit = partial(Exhibit, needs=PAPER_MODELS)
EXHIBITS = [
    Exhibit(
        "Figure 1", "Tokens on the unit sphere, and where each layer is decoded to", "a sketch for 'big dog'",
        geometry_figure, "",
    ),
    *_two_figures(
        2, "Hiding and revealing games",
        "decoded layers rise and fall fastest on SST-2; Shapley leads on AG News", game_figure,
    ),
    _exhibit(
        "Figure 4", "Share of tokens in several classes", "decoded Grad-CAM shares almost no tokens", overlap_figure,
    ),
    *_two_figures(5, "Games at every layer of decoded Grad-CAM", "middle layers are best", layer_figure),
    *_two_figures(7, "Games of decoded Simple", "a middle layer is better than the embedding layer", simple_figure),
    _exhibit(
        "Figure 9", "Top 50 tokens by class, SST-2", "baselines include tokens that are hard to interpret",
        partial(cloud_figure, "sst2"),
    ),
    _exhibit("Figure 10", "Top 50 tokens by class, decoded Simple, SST-2", "class-specific words", simple_cloud_figure),
    _exhibit("Figure 11", "Top 50 tokens by class, AG News", "class-specific words", partial(cloud_figure, "ag_news")),
    _exhibit("Figure 12", "Number of tokens in several classes", "like Figure 4, in counts", overlap_count_figure),
    _exhibit(
        "Table 1", "Areas under the curves of Figures 2 and 3",
        "SST-2 revealing / hiding: decoded l7 .867 / .609, l0 .797 / .713, random .748 / .770; "
        "AG News: decoded l6 .895 / .739, Shapley .905 / .567, random .829 / .841",
        area_tables,
    ),
    _exhibit(
        "Table 2", "Areas under the curves of Figures 7 and 8",
        "SST-2: Simple .799 / .756, decoded l7 .835 / .689; AG News: Simple .883 / .765, decoded l6 .891 / .716",
        simple_area_tables,
    ),
    *(
        _exhibit(
            f"Table {number}", f"Top-50 tokens shared by {CLASSES[first]} and {CLASSES[second]}, AG News",
            "baselines share 3 to 24 tokens, decoded Grad-CAM 0 to 6",
            partial(shared_token_table, "ag_news", (first, second)),
        )
        for number, (first, second) in enumerate(CLASS_PAIRS, 3)
    ),
    _exhibit(
        "Table 9", "Top-50 tokens shared by both classes, SST-2", "decoded Grad-CAM shares none",
        partial(shared_token_table, "sst2", (0, 1)),
    ),
    _exhibit(
        "Examples", "Highlighted explanations (section A.5)", "decoded Grad-CAM highlights the fewest tokens",
        example_figures,
    ),
    _exhibit("Supplement", "Every text highlighted", "all validation and test texts", supplement_pages),
]  # fmt: skip
