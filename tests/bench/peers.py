"""Compare other tools with nbsal on the same model and texts: `python -m tests.bench.peers`.

Sixteen reviews are explained with demo/reviews, one thread, CPU time. Each tool is called as its user would (the
functions of snippets.py, whose lines are counted); ours loads its subject every time, and that time is printed
separately. Printed are the rank agreement of the content tokens' scores and, if both tools define the same thing, the
largest difference relative to a text's largest score.

Tools that explain word embeddings, where nbsal explains the whole input of a position, define the same thing for models
that add nothing to word embeddings: a random Llama of the same size is used for these. inseq only takes generative
models: the same Llama with a next-token head, and reviews for which the predicted token is a word. This package needs
none of these tools; a tool that is not installed gets a row that says so.
"""

import ast
import importlib
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
import transformers
from tokenizers.processors import TemplateProcessing

import nbsal
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.text.tokens import Row as Tokens
from nbsal.samples import base
from tests.bench import snippets, table
from tests.bench.measure import cpu
from tests.bench.snippets import ferret, inseq, interpret_integrated, interpreto, shap, shapiq
from tests.bench.table import Row, missing, spread

PATH = Path(__file__).with_name("peers.json")
PACKAGES = {"transformers-interpret": "transformers_interpret", "ferret-xai": "ferret", "gim-explain": "gim"}
MODELS = ("demo/reviews", "a Llama classifier", "a Llama")
EMBEDDINGS, RANDOM, PROBABILITY = "it explains word embeddings", "random samples", "it explains the probability"


@dataclass(frozen=True)
class Case:
    """A method of a tool and ours; `differs` says how their definitions differ, if they do."""

    tool: str
    description: str
    theirs: Callable[..., Any]
    method: Method
    differs: str = ""
    model: str = MODELS[0]


GRADIENT, PADDED = nbsal.GradientXActivation(0), nbsal.Integrated(0, steps=50, baseline="pad")
MASKED, LIME = nbsal.Occlusion(1, way="mask"), nbsal.LIME(100, way="mask")
SHAPLEY, FEWER_ORDERS = nbsal.Shapley(25, way="mask"), nbsal.Shapley(24, way="mask")
KERNEL = nbsal.KernelShap(100, way="mask")
OWEN, LIME_NAME, PATH_NAME = "Owen values of a tree of tokens", "LIME, 100 samples", "integrated gradients, 50 steps"
SEGMENT = "and puts the last [SEP] into another segment"
FEATURES = "takes absolute values of single features, and multiplies by points of the path, not the path"
SCALES = "it changes attention alone, and subtracts the embedding of padding"
FERRET_PATH, FERRET_GRADIENT = ferret("IntegratedGradientExplainer"), ferret("GradientExplainer")
INTERPRETO_PATH = interpreto("IntegratedGradients", n_perturbations=50)
CASES = (
    Case("captum", "gradient x input", snippets.captum_gradxact, GRADIENT),
    Case("captum", "integrated gradients, 25 steps", snippets.captum_integrated, nbsal.Integrated(0, baseline="pad")),
    Case("captum", "occlusion", snippets.captum_occlusion, MASKED),
    Case("captum", "Shapley, 25 permutations", snippets.captum_shapley, nbsal.Shapley(25, way="pad"), RANDOM),
    Case("transformers-interpret", PATH_NAME, interpret_integrated, PADDED, f"{EMBEDDINGS}, {PROBABILITY}, {SEGMENT}"),
    Case("ferret-xai", "gradient x input", FERRET_GRADIENT, GRADIENT, EMBEDDINGS),
    Case("ferret-xai", PATH_NAME, FERRET_PATH, PADDED, EMBEDDINGS),
    Case("ferret-xai", LIME_NAME, ferret("LIMEExplainer", num_samples=100), LIME, f"{RANDOM}, {PROBABILITY}"),
    Case("ferret-xai", "Shapley, 25 permutations", ferret("SHAPExplainer"), SHAPLEY, f"{OWEN}, {PROBABILITY}"),
    Case("ferret-xai", "gradient x input", FERRET_GRADIENT, GRADIENT, model=MODELS[1]),
    Case("ferret-xai", PATH_NAME, FERRET_PATH, PADDED, model=MODELS[1]),
    Case("interpreto", "occlusion", interpreto("Occlusion"), MASKED),
    Case(
        "interpreto", LIME_NAME, interpreto("Lime", n_perturbations=100), LIME, f"{RANDOM}, weighted by another kernel"
    ),
    Case(
        "interpreto",
        "Shapley, 25 permutations",
        interpreto("KernelShap", n_perturbations=100),
        SHAPLEY,
        f"{RANDOM}, from 100 coalitions",
    ),
    Case("interpreto", PATH_NAME, INTERPRETO_PATH, nbsal.Integrated(0, steps=50), f"{EMBEDDINGS}, {FEATURES}"),
    Case("shap", "Shapley, 24 permutations", shap("permutation"), FEWER_ORDERS, RANDOM),
    Case(
        "shap",
        "Shapley, 24 permutations or as many evaluations",
        shap("partition"),
        FEWER_ORDERS,
        f"{RANDOM}, {OWEN}",
    ),
    Case("shapiq", "Shapley, 25 permutations", shapiq("PermutationSamplingSV", orders=25), SHAPLEY, RANDOM),
    Case("shapiq", "Kernel SHAP, 100 coalitions", shapiq("KernelSHAP", budget=100), KERNEL, RANDOM),
    Case("gim-explain", "GIM", snippets.gim, catalogue.create("gim"), SCALES, MODELS[2]),
    Case("inseq", "gradient x input", inseq("input_x_gradient", "sum"), GRADIENT, model=MODELS[2]),
    Case("inseq", "gradient norm", inseq("saliency", "vnorm"), nbsal.Simple(0, norm=2), model=MODELS[2]),
)


@cache
def load_case(name: str, count: int) -> tuple[Any, Any, list[str]]:
    """A model, its tokenizer, and some texts for it."""
    reviews = nbsal.data.load("samples/reviews")["text"].tolist()
    if name == MODELS[0]:
        subject = nbsal.load(name)
        return subject.model, subject.tokenizer, reviews[:count]
    torch.manual_seed(0)
    tokenizer = base.tokenizer()
    size = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    ids = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.cls_token_id}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.1, **size, **ids)
    if name == MODELS[1]:
        return transformers.LlamaForSequenceClassification(config).eval(), tokenizer, reviews[:count]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    model = transformers.LlamaForCausalLM(config).eval()
    # inseq compares its texts with these.
    round_trip = [tokenizer.decode(tokenizer(text)["input_ids"]) for text in reviews]
    saliencies = nbsal.Explainer(nbsal.load(model, tokenizer=tokenizer), "random").map(round_trip, progress=False)
    single_word = [s.text for s in saliencies if len(tokenizer(s.target)["input_ids"]) == 1]
    return model, tokenizer, single_word[:count]


def lines(work: Callable[..., Any]) -> int:
    """The number of lines of a snippet's body, without its docstring and blank lines."""
    return sum(bool(line.strip()) for line in body(work).splitlines())


def body(work: Callable[..., Any]) -> str:
    """The body of a snippet as a program, without its docstring."""
    source = textwrap.dedent(inspect.getsource(work))
    parts = ast.parse(source).body[0].body
    code = [part for part in parts if not isinstance(getattr(part, "value", None), ast.Constant)]
    return textwrap.dedent("\n".join(source.splitlines()[code[0].lineno - 1 : code[-1].end_lineno]))


def agreement(case: Case, encoded: Iterable[Tokens], theirs: Iterable[Any], ours: Iterable[Any]) -> str:
    """The rank agreement of the content tokens' scores, and their largest difference if they should be equal."""
    ranks, largest = [], 0.0
    for row, tool_scores, our_scores in zip(encoded, theirs, ours, strict=True):
        scores, content = np.asarray(tool_scores, dtype=float).ravel(), ~np.asarray(row.special)
        scores = scores if len(scores) == content.sum() else scores[content]
        own = our_scores[content]
        ranks.append(np.corrcoef(pandas.Series(own).rank(), pandas.Series(scores).rank())[0, 1])
        if isinstance(case.method, nbsal.Simple):  # ours are scaled to sum to 1
            scores = scores / scores.sum()
        largest = max(largest, float(np.abs(own - scores).max() / np.abs(own).max()))
    summary = f"Spearman {spread(ranks)}"
    return f"{summary}; {case.differs}" if case.differs else f"{summary}; largest difference {largest:.1e}"


def compare_case(case: Case, rounds: int, count: int) -> Row:
    """The cost, agreement and number of lines of a tool, compared with ours."""
    model, tokenizer, texts = load_case(case.model, count)
    work = f"{case.tool} {version(case.tool)}, {case.description}, {len(texts)} texts, {case.model}"
    our_snippet = snippets.ours(case.method)
    scores: dict[Callable[..., Any], Any] = {}  # those of the last round

    def timed(snippet: Callable[..., Any]) -> float:
        return cpu(lambda: scores.update({snippet: snippet(model, tokenizer, texts)}))

    try:
        for snippet in (case.theirs, our_snippet):  # imports and first calls are not timed
            snippet(model, tokenizer, texts[:1])
        seconds = [(timed(case.theirs), timed(our_snippet)) for _ in range(rounds)]
        encoded = nbsal.load(model, tokenizer=tokenizer).encode(texts)
        summary = agreement(case, encoded, scores[case.theirs], scores[our_snippet])
    except Exception as error:  # a tool may raise anything for a model that it does not support
        return missing(work, f"{case.tool} raises {type(error).__name__}: {error}")
    their_seconds, our_seconds = zip(*seconds, strict=True)
    loading = cpu(lambda: nbsal.load(model, tokenizer=tokenizer))
    return Row(
        f"{work}: {summary}",
        ours=f"{spread(our_seconds)} s, of which {loading:.2f} s for loading; {lines(our_snippet)} lines",
        peer=f"{spread(their_seconds)} s; {lines(case.theirs)} lines",
        ratio=spread([theirs / ours for theirs, ours in seconds]),
    )


def results(rounds: int = 3, quick: bool = False, store: Path | None = None, only: Iterable[str] = ()) -> list[Row]:
    """The rows of all tools, or `only` of some; those of a tool are stored when its last one is finished."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    rows = []
    for tool, cases in groupby(CASES, lambda case: case.tool):
        if only and tool not in only:
            continue
        try:
            importlib.import_module(PACKAGES.get(tool, tool))
        except Exception as error:  # the import of an outdated tool may raise anything
            rows.append(missing(tool, f"does not import: {type(error).__name__}: {error}"))
            continue
        measured = [compare_case(case, rounds, 2 if quick else 16) for case in cases]
        if store:
            table.store(store, tool, measured)
        rows += measured
    return rows


if __name__ == "__main__":
    tools = list(dict.fromkeys(case.tool for case in CASES))
    only = {"nargs": "+", "default": (), "choices": tools, "metavar": "TOOL", "help": ", ".join(tools)}
    table.main(results, __doc__, write={"dest": "store", "action": "store_const", "const": PATH}, only=only)
