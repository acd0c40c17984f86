"""One colour, one dash and one marker for each method, the same in every figure and notebook."""

import re
from dataclasses import dataclass

HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.", ":")
MARKERS = "osDv^<>PX*h"
RANDOM = "#595959"
# A row a dash, a column a colour: methods that a paper draws in one figure differ in both.
METHODS = (
    "decoded grad-cam", "mask-lrp", "grad-cam", "integrated", "shapley", "occlusion", "random mask",
    "decoded simple", "transformer-attribution", "gae", "smooth", "gradient-shap", "lime", "raw-attention",
    "rollout", "alti", "attcat", "lrp", "partial-lrp", "attention-cam", "attention-gradcam",
    "attn-lrp", "decoded-gradxact", "gradxact", "deeplift-shap", "contextcite", "ridge", "simple",
    "kernel-shap", "ifr", "gim", "pa-lrp", "decompx",
)  # fmt: skip
ALIASES = {"gradcam": "grad-cam", "decoded-gradcam": "decoded grad-cam", "decoded-simple": "decoded simple"}


@dataclass(frozen=True)
class Look:
    """How a line of a method is drawn."""

    colour: str
    line: str
    marker: str


def look(name: str, number: int = 0) -> Look:
    """The look of an explainer by its name; one that is named after no method has that of its number in the figure.

    Variants and layers have the colour of their method; layers differ in dash and marker.
    """
    method, layer = _parts(name)
    if method == "random":
        return Look(RANDOM, ":", "")
    at = METHODS.index(method) if method in METHODS else number
    row = at // len(HUES) if layer is None else layer
    marker = MARKERS[(at if layer is None else layer) % len(MARKERS)]
    return Look(HUES[at % len(HUES)], LINES[row % len(LINES)], marker)


def _parts(name: str) -> tuple[str, int | None]:
    """The method of an explainer's name, and its layer if it is named."""
    base = name.lower().split("@")[0].strip()
    match = re.fullmatch(r"(.*?)[ -]l?(\d+)", base)
    method, layer = (match[1], int(match[2])) if match else (base, None)
    return ALIASES.get(method, method), layer
