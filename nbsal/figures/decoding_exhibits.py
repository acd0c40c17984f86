"""How the figures and tables of "Decoding Layer Saliency in Language Transformers" are made, by number."""

from collections.abc import Callable
from functools import partial

from nbsal.clouds import Cloud
from nbsal.evaluation._games import games
from nbsal.evaluation._overlap import overlap
from nbsal.evaluation.report import TENTHS, Groups, game_groups, one_each
from nbsal.evaluation.results import Results
from nbsal.explainer import Explainer
from nbsal.figures import decoding_saliency as drawing
from nbsal.figures import pages
from nbsal.figures.build import Build
from nbsal.figures.exhibits import Exhibit, Product, example, footing, labelled
from nbsal.model.subject import Subject

ALLEN = ("simple@allennlp", "smooth@allennlp", "integrated@allennlp")
SHOWN = ("shapley@thermostat", "occlusion@thermostat", "integrated@thermostat")
THERMOSTAT = (*SHOWN, "gradient-shap@thermostat", "lime@thermostat", "gradxact@thermostat", "deeplift-shap@thermostat")
BASELINES = {"sst2": ALLEN, "ag_news": THERMOSTAT}
CLOUDED = {"sst2": ALLEN, "ag_news": SHOWN}
PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))  # World, Sports, Business, Sci/Tech, as Tables 3 to 8 go
CAM, SIMPLE = "decoded Grad-CAM", "decoded Simple"
NEED = "the paper's rows: --model sst2=ROBERTA, --model ag_news=ROBERTA, fine-tuned, with --lm roberta-base"


def layers(subject: Subject) -> list[int]:
    """The default layer and its neighbours, 5 to 8 of 12: chosen before anything was seen."""
    return [layer for layer in range(subject.default_layer - 2, subject.default_layer + 2) if layer <= subject.depth]


def played(edition: Build, table: str) -> tuple[Results, str]:
    """Both games for every layer and every baseline of a table, and on what."""
    subject, rows, cache = edition.subject(table), edition.rows(table), edition.cache(table)
    groups = game_groups(subject, subject.default_layer, ["gradcam", "simple", *BASELINES[table]])
    found = edition.results(
        "games",
        table,
        len(rows.texts),
        groups,
        lambda some: games(some, rows.texts, rows.labels, fractions=TENTHS, random=0, cache=cache, progress=False),
    )
    return found, rows.said


def clouded(edition: Build, table: str) -> dict[str, Explainer]:
    """The explainers whose class tokens are compared."""
    subject = edition.subject(table)
    ours = {f"{CAM} l{subject.default_layer}": Explainer(subject, "decoded-gradcam")}
    return {name: Explainer(subject, name) for name in CLOUDED[table]} | ours


def clouds(edition: Build, table: str) -> tuple[dict[str, Cloud], str]:
    """Class tokens by explainer, and of which texts."""
    rows = edition.rows(table)
    return edition.clouds(table, clouded(edition, table), rows), rows.said


def geometry(edition: Build) -> Product:
    """Figure 1."""
    subject = edition.subject("sst2")
    drawn = drawing.toy_geometry(drawing.decoded_path(subject))
    return Product(
        [("", drawn)], f"The LM head of {subject.lm_head.source} on 'big dog', block by block of {subject.name}."
    )


def game_figure(table: str, edition: Build) -> Product:
    """Figures 2 and 3."""
    found, said = played(edition, table)
    ours = [f"{CAM} l{layer}" for layer in layers(edition.subject(table))]
    names = [*ours, "Grad-CAM l0", *BASELINES[table], "random"]
    return Product([("", drawing.game_curves(found, names))], footing(edition, (table, said)))


def simple_figure(table: str, edition: Build) -> Product:
    """Figures 7 and 8."""
    found, said = played(edition, table)
    return Product([("", drawing.game_curves(found, simple_rows(edition, table)))], footing(edition, (table, said)))


def simple_rows(edition: Build, table: str) -> list[str]:
    """The explainers of Table 2."""
    original = "simple@allennlp" if table == "sst2" else "Simple l0"
    return [original, *(f"{SIMPLE} l{layer}" for layer in layers(edition.subject(table))[:3])]


def layer_figure(table: str, edition: Build) -> Product:
    """Figures 5 and 6."""
    found, said = played(edition, table)
    return Product([("", drawing.layer_curves(found, CAM))], footing(edition, (table, said)))


def areas(edition: Build) -> Product:
    """Table 1; beside the paper's rows the layer undecoded, which is the honest comparison."""
    parts, rested = [], []
    for table in BASELINES:
        found, said = played(edition, table)
        subject = edition.subject(table)
        ours = [f"{CAM} l{layer}" for layer in layers(subject)]
        undecoded = f"Grad-CAM l{subject.default_layer}"
        names = [*ours, undecoded, "Grad-CAM l0", *BASELINES[table], "random"]
        styled = drawing.area_table({edition.name(table): found}, [*ours, undecoded], names)
        parts.append((f"{undecoded} is the same layer undecoded, not in the paper.", styled))
        rested.append((table, said))
    return Product(parts, footing(edition, *rested))


def simple_areas(edition: Build) -> Product:
    """Table 2."""
    both = {table: played(edition, table) for table in BASELINES}
    parts = [
        ("", drawing.area_table({edition.name(table): found}, explainers=simple_rows(edition, table)))
        for table, (found, _) in both.items()
    ]
    return Product(parts, footing(edition, *((table, said) for table, (_, said) in both.items())))


def shares(edition: Build) -> Product:
    """Figure 4."""
    panels, rested = {}, []
    for table in BASELINES:
        subject, rows, cache = edition.subject(table), edition.rows(table), edition.cache(table)
        decoded = f"{CAM} l{subject.default_layer}"
        groups: Groups = one_each(subject, CLOUDED[table]) | {
            "decoded": {decoded: Explainer(subject, "decoded-gradcam")}
        }
        shared = partial(overlap, texts=rows.texts, cache=cache, progress=False)
        panels[edition.name(table)] = edition.results("overlap", table, len(rows.texts), groups, shared)
        rested.append((table, rows.said))
    return Product([("", drawing.overlap_shares(panels))], footing(edition, *rested))


def counts(edition: Build) -> Product:
    """Figure 12."""
    both = {table: clouds(edition, table) for table in BASELINES}
    drawn = drawing.overlap_counts({edition.name(table): found for table, (found, _) in both.items()})
    return Product([("", drawn)], footing(edition, *((table, said) for table, (_, said) in both.items())))


def cloud_figure(table: str, edition: Build) -> Product:
    """Figures 9 and 11."""
    found, said = clouds(edition, table)
    return Product([("", drawing.word_clouds(found))], footing(edition, (table, said)))


def simple_clouds(edition: Build) -> Product:
    """Figure 10."""
    subject, rows = edition.subject("sst2"), edition.rows("sst2")
    some = {f"{SIMPLE} l{at}": Explainer(subject, "decoded-simple", layer=at) for at in layers(subject)[:3]}
    return Product(
        [("", drawing.word_clouds(edition.clouds("sst2", some, rows)))], footing(edition, ("sst2", rows.said))
    )


def shared(table: str, pair: tuple[int, int], edition: Build) -> Product:
    """Tables 3 to 9."""
    found, said = clouds(edition, table)
    first, second = labelled(edition, table, pair)
    return Product([("", drawing.shared_tokens(found, first, second))], footing(edition, (table, said)))


def examples(edition: Build) -> Product:
    """Section A.5: two texts a class of SST-2 would fill the page; one a class of either table is shown."""
    parts, rested = [], []
    for table in BASELINES:
        subject = edition.subject(table)
        for label, name in enumerate(subject.labels):
            text = example(edition, table, label)
            found = {name: explain(text) for name, explain in clouded(edition, table).items()}
            parts.append((f"{edition.name(table)}, {name}", drawing.highlights(found)))
        rested.append((table, "one rightly predicted text a class, the first of 8 to 60 words"))
    return Product(parts, footing(edition, *rested))


def supplements(edition: Build) -> Product:
    """The supplement of both tables."""
    parts, rested = [], []
    for table in BASELINES:
        edition.check()
        rows = edition.rows(table)
        found = edition.explained(table, clouded(edition, table), rows)
        labels = labelled(edition, table, rows.labels or [])
        parts.append((edition.name(table), pages.supplement(found, labels, f"Every text of {rows.said}")))
        rested.append((table, rows.said))
    return Product(parts, footing(edition, *rested))


def _both(number: int, title: str, paper: str, make: Callable[[str, Build], Product]) -> list[Exhibit]:
    """The same figure for SST-2 and, under the next number, for AG News."""
    return [
        Exhibit(f"Figure {number + at}", f"{title}, {name}", paper, partial(make, table), NEED)
        for at, (table, name) in enumerate((("sst2", "SST-2"), ("ag_news", "AG News")))
    ]


_CLASSES = ("World", "Sports", "Business", "Sci/Tech")
EXHIBITS = [
    Exhibit(
        "Figure 1",
        "Tokens on the sphere, and where layers are decoded to",
        "a sketch of 'big dog'",
        geometry,
        "nothing",
    ),
    *_both(
        2,
        "Hiding and Revealing game",
        "decoded layers rise and fall fastest on SST-2; on AG News Shapley leads",
        game_figure,
    ),
    Exhibit("Figure 4", "Share of tokens in several classes", "decoded Grad-CAM shares next to none", shares, NEED),
    *_both(5, "Games at every layer of decoded Grad-CAM", "middle layers do best", layer_figure),
    *_both(7, "Games of decoded Simple", "a middle layer passes the embedding layer", simple_figure),
    Exhibit(
        "Figure 9",
        "Top 50 tokens by class, SST-2",
        "baselines hold puzzling tokens",
        partial(cloud_figure, "sst2"),
        NEED,
    ),
    Exhibit("Figure 10", "Top 50 tokens by class, decoded Simple, SST-2", "class-specific words", simple_clouds, NEED),
    Exhibit(
        "Figure 11", "Top 50 tokens by class, AG News", "class-specific words", partial(cloud_figure, "ag_news"), NEED
    ),
    Exhibit("Figure 12", "Number of tokens in several classes", "as Figure 4, in counts", counts, NEED),
    Exhibit(
        "Table 1",
        "Areas under the curves of Figures 2 and 3",
        "SST-2 revealing / hiding: decoded l7 .867 / .609, l0 .797 / .713, random .748 / .770; "
        "AG News: decoded l6 .895 / .739, Shapley .905 / .567, random .829 / .841",
        areas,
        NEED,
    ),
    Exhibit(
        "Table 2",
        "Areas under the curves of Figures 7 and 8",
        "SST-2: Simple .799 / .756, decoded l7 .835 / .689; AG News: Simple .883 / .765, decoded l6 .891 / .716",
        simple_areas,
        NEED,
    ),
    *(
        Exhibit(
            f"Table {3 + at}",
            f"Top-50 tokens of {_CLASSES[pair[0]]} and {_CLASSES[pair[1]]}, AG News",
            "baselines share 3 to 24 tokens, decoded Grad-CAM none to 6",
            partial(shared, "ag_news", pair),
            NEED,
        )
        for at, pair in enumerate(PAIRS)
    ),
    Exhibit(
        "Table 9",
        "Top-50 tokens of both classes, SST-2",
        "decoded Grad-CAM shares none",
        partial(shared, "sst2", (0, 1)),
        NEED,
    ),
    Exhibit("Examples", "Highlighted explanations (section A.5)", "decoded Grad-CAM is the sparsest", examples, NEED),
    Exhibit("Supplement", "Every text highlighted", "all validation and test texts", supplements, NEED),
]
