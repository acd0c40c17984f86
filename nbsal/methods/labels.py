"""How methods are named and described on screen: a label, a sentence, the cost in words, and which to try first."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbsal.methods.cost import evaluate

if TYPE_CHECKING:
    from nbsal.methods.base import Method

# The methods to try first, in this order: label, what it shows.
RECOMMENDED = {
    "decoded-gradcam": (
        "Decoded Grad-CAM",
        "Reads one hidden layer: which words it holds, and how much they count. A good start.",
    ),
    "decoded-gradxact": (
        "Decoded gradient × activation",
        "Like decoded Grad-CAM, also with words against.",
    ),
    "gradxact": (
        "Gradient × input",
        "Effect of each word on the target, to first order. Fastest; noisy on long texts.",
    ),
    "integrated": (
        "Integrated gradients",
        "Gradients averaged from a baseline to your text; the scores sum to the change of the output.",
    ),
    "occlusion": ("Occlusion", "Takes each word away and measures what changes."),
    "shapley": ("Shapley values", "Shares the change fairly among the words, over random orders. Thorough and slow."),
    "lime": ("LIME", "Fits a linear model to 100 versions of the text with words missing."),
    "mask-lrp": (
        "Mask-LRP",
        "Passes relevance through the attention heads you choose; use it with the heads view.",
    ),
}
# These take the first places for models without an LM head.
WITHOUT_LM_HEAD = {
    "gradxact": (
        "Gradient × input",
        "Effect of each word on the target, to first order. A good start; noisy on long texts.",
    ),
    "gradcam": ("Grad-CAM", "Evidence for the target in each position of one hidden layer. Positive scores only."),
    "transformer-attribution": (
        "Attention relevance",
        "Follows relevance and attention through all blocks to the words. Positive scores only.",
    ),
}
LABELS = {
    "raw-attention": "Attention of the last block",
    "rollout": "Attention rollout",
    "attention-cam": "Attention CAM",
    "attention-gradcam": "Attention Grad-CAM",
    "attcat": "AttCAT",
    "gae": "GAE",
    "alti": "ALTI",
    "ifr": "Information flow routes",
    "decompx": "DecompX",
    "simple": "Gradient",
    "decoded-simple": "Decoded gradient",
    "smooth": "SmoothGrad",
    "gradient-shap": "GradientShap",
    "deeplift-shap": "DeepLiftShap",
    "kernel-shap": "Kernel SHAP",
    "contextcite": "ContextCite (lasso)",
    "ridge": "Ridge regression",
    "random": "Random (to compare with)",
    "lrp": "LRP",
    "attn-lrp": "AttnLRP",
    "pa-lrp": "PA-LRP (tokens and positions)",
    "gim": "GIM",
    "partial-lrp": "Partial LRP",
}
SUFFIXES = {
    "published": "Song et al. 2024",
    "equations": "by the equations",
    "chefer": "Chefer et al. 2021",
    "allennlp": "AllenNLP",
    "thermostat": "ThermoStat",
    "flashtrace": "FlashTrace",
}

# What the first sentence and the legend need of nbsal's own methods, without importing them; tests compare it with the
# catalogue. A name without its suffix stands for the variants too.
NONNEGATIVE = frozenset({
    "gradcam", "simple", "smooth", "decoded-gradcam", "decoded-simple", "raw-attention", "rollout", "attention-cam",
    "attention-gradcam", "gae", "alti", "partial-lrp", "transformer-attribution", "mask-lrp", "random",
    "integrated@allennlp", "ifr",
})  # fmt: skip
NOT_ABOUT_TARGET = frozenset({"raw-attention", "rollout", "alti", "ifr", "random"})


@dataclass(frozen=True)
class Label:
    """How one method appears in a list of methods; `group` is recommended, more or published."""

    label: str
    summary: str
    group: str


def describe(method: "Method", decodes: bool = True) -> Label:
    """How a method appears on screen, for a model with an LM head (`decodes`) or without one."""
    first = recommended(decodes)
    if method.name in first:
        return Label(*first[method.name], "recommended")
    summary = (inspect.getdoc(type(method)) or "").split("\n\n")[0].replace("\n", " ")
    return Label(label_of(method.name), summary, "published" if "@" in method.name else "more")


def recommended(decodes: bool) -> dict[str, tuple[str, str]]:
    """The methods to try first, in order, for a model with an LM head (`decodes`) or without one."""
    return (
        RECOMMENDED
        if decodes
        else WITHOUT_LM_HEAD | {name: texts for name, texts in RECOMMENDED.items() if name not in WITHOUT_LM_HEAD}
    )


def label_of(name: str) -> str:
    """The name of a method on screen; a name that is not in the catalogue stays as it is."""
    base, _, variant = name.partition("@")
    label_by_name = {key: label for key, (label, _) in (WITHOUT_LM_HEAD | RECOMMENDED).items()} | LABELS
    label = label_by_name.get(base, base)
    return f"{label} · {SUFFIXES.get(variant, variant)}" if variant else label


def cost_words(method: "Method") -> str:
    """The cost of a method in passes through the model, or "": a pass is a forward with its backward one."""
    if not hasattr(method, "cost"):  # a method that was not registered
        return ""
    sizes = {name: value for name, value in method.parameters().items() if isinstance(value, int)}
    words = {"tokens": 0, "content tokens": 0, "units": 0, "baselines": 1, "token baselines": 0}
    none, many = (
        evaluate(method.cost.forwards, words | sizes | {"tokens": n, "content tokens": n, "units": n}) for n in (1, 101)
    )
    per_word = round((many - none) / 100)
    if per_word:
        return f"{per_word} {'pass' if per_word == 1 else 'passes'} per word"
    passes = max(1, round(none) if method.cost.relevance == 0 else none + 3 * method.cost.relevance)
    return f"{passes} {'pass' if passes == 1 else 'passes'}"


def is_signed(method: "Method | None") -> bool:
    """Whether the scores of a method speak for and against the target."""
    return "nonnegative" not in getattr(method, "promise", ())


def own_promise(name: str) -> frozenset[str] | None:
    """Whether scores of nbsal's own method are 0 or more, and whether they depend on the target; None for others."""
    base, _, variant = name.partition("@")
    if base not in RECOMMENDED | WITHOUT_LM_HEAD | LABELS or variant not in {"", *SUFFIXES}:
        return None
    parts = (("nonnegative", NONNEGATIVE), ("not_about_target", NOT_ABOUT_TARGET))
    return frozenset(promise for promise, names in parts if {base, name} & names)
