"""The numbers in the tables of the two papers, and how they compare with numbers computed here.

Rows have the names of nbsal's methods. What Song et al. call GAE is here `transformer-attribution`, which is what their
program ran; ALTC is `alti`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nbsal.evaluation.results import Results
from nbsal.support.errors import InputError
from nbsal.support.validation import checked

if TYPE_CHECKING:
    import pandas

Numbers = Mapping[str, tuple[float, ...]]

AREAS: Mapping[str, Numbers] = {  # Hou and Castanon, Table 1: revealing, hiding
    "SST-2": {
        "Grad-CAM l0": (0.797, 0.713), "decoded Grad-CAM l5": (0.832, 0.640), "decoded Grad-CAM l6": (0.854, 0.617),
        "decoded Grad-CAM l7": (0.867, 0.609), "decoded Grad-CAM l8": (0.836, 0.660),
        "simple@allennlp": (0.799, 0.756), "smooth@allennlp": (0.795, 0.762), "integrated@allennlp": (0.804, 0.756),
        "random": (0.748, 0.770),
    },
    "AG News": {
        "Grad-CAM l0": (0.853, 0.804), "decoded Grad-CAM l6": (0.895, 0.739), "decoded Grad-CAM l8": (0.867, 0.782),
        "decoded Grad-CAM l9": (0.879, 0.774), "shapley@thermostat": (0.905, 0.567),
        "occlusion@thermostat": (0.894, 0.731), "integrated@thermostat": (0.897, 0.661),
        "gradient-shap@thermostat": (0.860, 0.784), "lime@thermostat": (0.851, 0.792),
        "gradxact@thermostat": (0.851, 0.794), "deeplift-shap@thermostat": (0.823, 0.842), "random": (0.829, 0.841),
    },
}  # fmt: skip
SIMPLE_AREAS: Mapping[str, Numbers] = {  # Hou and Castanon, Table 2: revealing, hiding
    "SST-2": {
        "simple@allennlp": (0.799, 0.756), "decoded Simple l5": (0.816, 0.687), "decoded Simple l6": (0.828, 0.694),
        "decoded Simple l7": (0.835, 0.689),
    },
    "AG News": {
        "Simple l0": (0.883, 0.765), "decoded Simple l5": (0.866, 0.762), "decoded Simple l6": (0.891, 0.716),
        "decoded Simple l7": (0.847, 0.774),
    },
}  # fmt: skip
DELETION: Mapping[str, Numbers] = {  # Song et al., Tables 1 and 4: AOPC, log-odds
    "SST-2": {
        "raw-attention": (0.374, -0.992), "rollout": (0.337, -0.911), "lrp": (0.336, -0.888),
        "partial-lrp": (0.396, -1.052), "transformer-attribution": (0.423, -1.171), "attention-cam": (0.399, -1.086),
        "attention-gradcam": (0.341, -0.855), "attcat": (0.405, -1.110), "alti": (0.369, -0.866),
        "random mask": (0.432, -1.205), "mask-lrp": (0.438, -1.208),
    },
    "IMDB": {
        "raw-attention": (0.354, -1.593), "rollout": (0.334, -1.456), "lrp": (0.288, -1.271),
        "partial-lrp": (0.370, -1.726), "transformer-attribution": (0.384, -1.853), "attention-cam": (0.365, -1.883),
        "attention-gradcam": (0.236, -0.974), "attcat": (0.340, -1.697), "alti": (0.342, -0.748),
        "random mask": (0.387, -1.898), "mask-lrp": (0.392, -1.906),
    },
    "Yelp": {
        "raw-attention": (0.376, -1.513), "rollout": (0.244, -0.770), "lrp": (0.163, -0.464),
        "partial-lrp": (0.401, -1.688), "transformer-attribution": (0.404, -1.682), "attention-cam": (0.298, -1.473),
        "attention-gradcam": (0.104, -0.229), "attcat": (0.397, -2.034), "alti": (0.363, -1.428),
        "random mask": (0.426, -1.886), "mask-lrp": (0.434, -1.898),
    },
    "MNLI": {
        "raw-attention": (0.135, -0.399), "rollout": (0.137, -0.396), "lrp": (0.131, -0.395),
        "partial-lrp": (0.136, -0.401), "transformer-attribution": (0.144, -0.421), "attention-cam": (0.132, -0.386),
        "attention-gradcam": (0.126, -0.369), "attcat": (0.138, -0.419), "random mask": (0.142, -0.415),
        "mask-lrp": (0.148, -0.445),
    },
    "QQP": {
        "raw-attention": (0.447, -5.828), "rollout": (0.437, -5.489), "lrp": (0.438, -5.745),
        "partial-lrp": (0.445, -5.718), "transformer-attribution": (0.447, -5.923), "attention-cam": (0.450, -5.988),
        "attention-gradcam": (0.449, -5.953), "attcat": (0.447, -5.897), "random mask": (0.448, -5.998),
        "mask-lrp": (0.451, -6.001),
    },
}  # fmt: skip
DEVIATIONS: Numbers = {  # of the random mask in that table, over five masks
    "SST-2": (0.005, 0.004), "IMDB": (0.004, 0.003), "Yelp": (0.005, 0.007), "MNLI": (0.002, 0.021),
    "QQP": (0.001, 0.012),
}  # fmt: skip
MASK_PARTS: Mapping[str, Numbers] = {  # Song et al., Table 3: AOPC, log-odds
    "SST-2": {
        "mask-lrp": (0.438, -1.208), "without positional heads": (0.438, -1.208),
        "without syntactic heads": (0.437, -1.205),
    },
    "QQP": {
        "mask-lrp": (0.451, -6.001), "without positional heads": (0.450, -6.001),
        "without syntactic heads": (0.449, -5.998),
    },
}  # fmt: skip
ANSWERS: Mapping[str, Numbers] = {  # Song et al., Table 2: Precision@20 in percent, for three models
    "SQuAD v1": {
        "rollout": (4.62, 5.86, 8.04), "raw-attention": (36.33, 28.97, 45.61), "attcat": (31.44, 17.53, 47.32),
        "mask-lrp": (52.97, 51.62, 67.31),
    },
    "SQuAD v2": {
        "rollout": (6.15, 5.54, 5.87), "raw-attention": (4.69, 27.85, 18.09), "attcat": (18.81, 16.99, 23.39),
        "mask-lrp": (27.03, 49.63, 56.41),
    },
}  # fmt: skip
GAMES, LOSSES, ANSWER_MODELS = ("revealing", "hiding"), ("aopc", "log-odds"), ("BERT base", "GPT-2", "RoBERTa")


@checked
def frame(table: Mapping[str, Numbers], measures: tuple[str, ...]) -> "pandas.DataFrame":
    """A table of a paper as a frame: one row per method, columns by data set and measure.

    >>> float(frame(AREAS, GAMES).loc["random", ("AG News", "hiding")])
    0.841
    """
    import pandas

    parts = {name: pandas.DataFrame(dict(rows), index=list(measures)).T for name, rows in table.items()}
    rows = dict.fromkeys(name for numbers in table.values() for name in numbers)
    joined: pandas.DataFrame = pandas.concat(parts, axis=1).loc[list(rows)]
    return joined


@checked
def beside(
    panels: Mapping[str, Results], table: Mapping[str, Numbers], counterparts: Mapping[str, str] | None = None
) -> "pandas.DataFrame":
    """Numbers computed here, those of a paper, and the difference, by data set and measure.

    `panels` has results by the name of the data set in the paper. `counterparts` maps a row of the results to the row
    of the paper that it is compared with, where the two have different names.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "lrp")
    >>> results = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> [float(number) for number in beside({"SST-2": results}, DELETION)["SST-2", "aopc", "paper"]]
    [0.336]
    """
    import pandas

    columns: dict[tuple[str, str, str], pandas.Series] = {}
    for name, results in panels.items():
        if name not in table:
            message = f"The paper's table has no data set {name!r}. It has: {', '.join(table)}."
            raise InputError(message, argument="panels", value=name)
        summary = results.metric.summary
        means = (results.auc() if summary == "auc" else results.mean()).set_index(["explainer", results.metric.measure])
        measures = GAMES if summary == "auc" else LOSSES
        rows = {row: table[name].get((counterparts or {}).get(row, row)) for row in results.explainers}
        for at, measure in enumerate(measures):
            here = pandas.Series({row: means.at[(row, measure), summary] for row in results.explainers})
            paper = pandas.Series({row: numbers[at] if numbers else None for row, numbers in rows.items()}, dtype=float)
            columns |= {(name, measure, "here"): here, (name, measure, "paper"): paper}
            columns[name, measure, "difference"] = here - paper
    return pandas.DataFrame(columns).reindex(
        list(dict.fromkeys(row for part in columns.values() for row in part.index))
    )
