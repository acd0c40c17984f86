"""The features that are compared, and the probes that say which tool has them."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

KINDS = {
    "Libraries of attribution methods": {
        "captum": "captum",
        "inseq": "inseq",
        "interpreto": "interpreto",
        "ferret-xai": "ferret",
        "transformers-interpret": "transformers_interpret",
        "ecco": "ecco",
    },
    "Shapley values and surrogates": {
        "shap": "shap",
        "shapiq": "shapiq",
        "llmshap": "llmshap",
        "tokenshap": "tokenshap",
        "explainkit": "explainkit",
    },
    "Single methods for language models": {
        "context-cite": "contextcite",
        "flashtrace": "flashtrace",
        "gim-explain": "gim",
    },
    "Views and applications": {"bertviz": "bertviz", "lit-nlp": "lit"},
}  # tables of the page; in each, the packages, and the files probe_NAME of their probes
TOOLS = {"nbsal": "nbsal"} | {tool: name for tools in KINDS.values() for tool, name in tools.items()}
FEATURES = {
    "Explaining texts": {
        "methods": "attribution methods for text",
        "batch": "a padded batch scores like its single texts",
        "layers": "scores of every hidden layer from one call",
        "offsets": "offsets into the text as typed",
        "words": "words as units",
        "pairs": "sentence pairs",
        "spans": "answer spans",
        "tagging": "labels of tokens",
        "contrast": "one class or token rather than another",
        "head_mask": "attention heads switched off or masked",
        "relevance_bert": "relevance propagation, BERT",
        "relevance_llama": "relevance propagation, Llama",
        "shapley": "Shapley values or LIME of tokens",
        "black_box": "a function of texts as the model",
    },
    "Replies": {
        "reply": "scores for every token of a reply",
        "encoder_decoder": "replies of encoder-decoders",
        "documents": "documents or sentences as units of a prompt",
        "lens": "what hidden layers would write",
        "step_functions": "entropy, divergence and others as targets",
        "hops": "sources followed through the reply (hops)",
        "served": "replies of a model behind a server",
    },
    "Results": {
        "save": "results saved and loaded",
        "html": "HTML that needs no scripts",
        "view": "a view whose settings Python can set and read",
        "progress": "progress, and cancelling with what is done",
        "corpus": "a corpus to files, resumed after an interruption",
        "faithfulness": "faithfulness metrics",
        "check": "a sentence about the result, checked by hiding words",
        "audit": "words behind the mistakes in a data set",
        "live": "a page that explains typed texts without Python",
    },
    "Beyond token scores": {
        "interactions": "interactions of tokens, of any order",
        "owen": "scores of phrases in a tree (Owen values)",
        "attention_view": "attention patterns of encoder-decoders, drawn",
        "gradient_context": "changed gradients in a backward pass of one's own",
        "neurons": "neurons: their attribution or activations",
        "concepts": "concepts from activations, or tested on them",
        "training_data": "training examples behind a prediction",
        "counterfactuals": "changed texts that flip the prediction",
        "modalities": "images or tables",
    },
}
YES, PARTLY, NO = "yes", "partly", "no"


@dataclass(frozen=True)
class Answer:
    """Whether a tool has a feature, and what the probe saw."""

    answer: str
    note: str = ""


def partly(note: str) -> Answer:
    """A feature with a limit that a user would notice."""
    return Answer(PARTLY, note)


def no(note: str) -> Answer:
    """A feature that the tool offers but that does not work."""
    return Answer(NO, note)


def probes(tool: str) -> dict[str, Callable[[Path], str | Answer]]:
    """The probes of a tool by feature: the public functions of its file."""
    module = import_module(f"tests.bench.features.probe_{TOOLS[tool]}")
    return {key: vars(module)[key] for part in FEATURES.values() for key in part if key in vars(module)}


def run_probe(probe: Callable[[Path], str | Answer]) -> Answer:
    """The answer of a probe; an error is a no."""
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = probe(Path(folder))
    except Exception as error:  # a tool may raise anything
        return no(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    return result if isinstance(result, Answer) else Answer(YES, result)


def run_tool(tool: str) -> dict[str, object]:
    """The versions and answers of a tool that is installed."""
    answers = {key: asdict(run_probe(probe)) for key, probe in probes(tool).items()}
    versions = {name: version(name) for name in dict.fromkeys((tool, "transformers", "torch"))}
    return {"versions": versions, "answers": answers}
