"""Why a transformer decided what it decided about a text.

>>> import nbsal
>>> explain = nbsal.Explainer("demo/reviews")
>>> explain("A warm and funny film.").prediction
'positive'

The names that most people use; `help(nbsal.load)` and so on says more of each:

    load        load a model by name, from a folder, from the hub or from memory
    why         the view that says first why a model decided, or wrote, what it did
    Explainer   explain the decisions of a model with a method: call it with a text
    Saliency    what such a call returns: a score for each token, and what is said of them
    answer      explain why a language model wrote a reply, by its prompt and documents
    compare     explain texts with several methods, or with several models
    flip        find words whose hiding changes a decision
    audit       find what a classifier relies on over many texts, and what is behind its mistakes
    evaluation  measure how well methods explain, by hiding words, on data or on planted models
    corpus      explain every text of a large file, and open the results
    widgets     views for notebooks: Workbench, Highlight, Layers, Compare, Answers, Audit and others

In a shell, `nbsal` lists the commands, `nbsal methods` the methods, and `nbsal lab` opens tutorials.
"""

from importlib import import_module
from sys import modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbsal.support import rooms

__version__ = "0.2.0"

if TYPE_CHECKING:
    from nbsal.explain.answer import Answer as Answer
    from nbsal.explain.answering import answer as answer
    from nbsal.explain.comparison import compare as compare
    from nbsal.explain.explainer import Explainer as Explainer
    from nbsal.explain.saliency import LayerSaliency as LayerSaliency
    from nbsal.explain.saliency import Saliency as Saliency
    from nbsal.methods.decoding import Decoded as Decoded
    from nbsal.methods.gradient import GradCAM as GradCAM
    from nbsal.methods.gradient import GradientXActivation as GradientXActivation
    from nbsal.methods.gradient import Simple as Simple
    from nbsal.methods.paths import DeepLiftShap as DeepLiftShap
    from nbsal.methods.paths import GradientShap as GradientShap
    from nbsal.methods.paths import Integrated as Integrated
    from nbsal.methods.paths import Smooth as Smooth
    from nbsal.methods.perturbation import LIME as LIME
    from nbsal.methods.perturbation import Occlusion as Occlusion
    from nbsal.methods.perturbation import Random as Random
    from nbsal.methods.shapley import KernelShap as KernelShap
    from nbsal.methods.shapley import Shapley as Shapley
    from nbsal.methods.surrogates import ContextCite as ContextCite
    from nbsal.methods.surrogates import Ridge as Ridge
    from nbsal.model.loading.load import load as load
    from nbsal.model.served.endpoint import Endpoint as Endpoint
    from nbsal.model.subject import Subject as Subject
    from nbsal.model.target import contrast as contrast
    from nbsal.model.text.tokens import Encoded as Encoded
    from nbsal.passes.trace import Trace as Trace
    from nbsal.widgets.first_view import why as why

# Looked up on first use: `import nbsal` loads neither torch nor transformers.
_NAMES = {
    "Answer": "explain.answer",
    "Encoded": "model.text.tokens",
    "answer": "explain.answering",
    "Audit": "evaluation.audit.result",
    "audit": "evaluation.audit.measure",
    "flip": "evaluation.audit.flips",
    "why": "widgets.first_view",
    "Explainer": "explain.explainer",
    "compare": "explain.comparison",
    "Decoded": "methods.decoding",
    "GradCAM": "methods.gradient",
    "GradientXActivation": "methods.gradient",
    "Simple": "methods.gradient",
    "Smooth": "methods.paths",
    "Integrated": "methods.paths",
    "GradientShap": "methods.paths",
    "DeepLiftShap": "methods.paths",
    "Occlusion": "methods.perturbation",
    "LIME": "methods.perturbation",
    "KernelShap": "methods.shapley",
    "Shapley": "methods.shapley",
    "Random": "methods.perturbation",
    "ContextCite": "methods.surrogates",
    "Ridge": "methods.surrogates",
    "LayerSaliency": "explain.saliency",
    "Saliency": "explain.saliency",
    "Subject": "model.subject",
    "load": "model.loading.load",
    "Endpoint": "model.served.endpoint",
    "contrast": "model.target",
    "Trace": "passes.trace",
}
_MODULES = {
    **{
        name: name
        for name in ("samples", "heads", "methods", "evaluation", "corpus", "figures", "live", "widgets", "testing")
    },
    "errors": "support.errors",
    "progress": "support.progress",
    "trace": "passes.trace",
    "lrp": "passes.lrp",
    "data": "evaluation.data",
    "clouds": "evaluation.clouds",
}


# These open and show results, without torch.
_WITHOUT_TORCH = {
    *("explain.answer", "corpus", "evaluation", "evaluation.audit.result", "evaluation.clouds", "evaluation.data"),
    *("explain.saliency", "figures", "heads", "methods", "model.served.endpoint", "model.target"),
    *("model.text.tokens", "samples", "support.errors", "support.progress", "widgets"),
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(_load(_NAMES[name], name), name)
    if name in _MODULES:
        return _load(_MODULES[name], name)
    raise AttributeError(f"module 'nbsal' has no attribute {name!r}")


def _load(module: str, name: str) -> ModuleType:
    """Import the part of the package that has a name; in a notebook, say so when that loads torch."""
    if module in _WITHOUT_TORCH:
        return import_module(f"nbsal.{module}")
    from nbsal.support import lazy

    if "torch" in modules or not _in_notebook():
        return lazy.load(f"nbsal.{module}", f"nbsal.{name}")
    from IPython.display import display

    text = {"text/plain": "Loading torch and transformers\N{HORIZONTAL ELLIPSIS}"}
    message = display(text, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    try:
        return lazy.load(f"nbsal.{module}", f"nbsal.{name}")
    finally:
        message.update({"text/plain": ""}, raw=True)


rooms.views = lambda: _load("widgets", "widgets")


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; other hosts, such as Panel, only import ipykernel."""
    if "ipykernel" not in modules:
        return False
    from IPython import get_ipython

    return get_ipython() is not None


def __dir__() -> list[str]:
    return sorted([*_NAMES, *_MODULES, "__version__"])
