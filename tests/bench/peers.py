"""Other tools beside us on the same model and texts, those that are installed: `python -m tests.bench.peers`.

Sixteen reviews explained by demo/reviews, one thread, CPU time, each tool as its user would call it (the functions of
snippets.py, whose lines are counted; ours loads its subject every time, which is told apart). Printed are the rank
agreement of the content tokens' scores and, where both define the same thing, the largest difference as a share of a
text's largest score. Tools that read word embeddings, where we read all that a position is given, define what we do on
models that add nothing to words: a random Llama of the same size stands for those. inseq takes generating models only:
the same Llama with a head for the next token, and reviews after which that is a word. None of these tools is needed by
this package: those that are not there say so.
"""

import ast
import importlib
import inspect
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import groupby
from typing import Any

import numpy as np
import pandas
import torch
import transformers
from tokenizers.processors import TemplateProcessing

import nbsal
from nbsal.methods.base import Method
from nbsal.samples import base
from tests.bench import snippets
from tests.bench.measure import cpu
from tests.bench.snippets import ferret, inseq, interpreto
from tests.bench.table import Row, line, markdown, missing, parser, spread

PACKAGES = {"transformers-interpret": "transformers_interpret", "ferret-xai": "ferret"}  # where the names differ
MODELS = ("demo/reviews", "a Llama classifier", "a Llama")
WORDS, CHANCE, ODDS = "it reads word embeddings", "drawn by chance", "it explains the probability"


@dataclass(frozen=True)
class Case:
    """A tool's method beside ours; `differs` says how they differ by definition, if they do."""

    tool: str
    what: str
    theirs: Callable[..., Any]
    method: Method
    differs: str = ""
    on: str = "demo/reviews"


GRADIENT, PADDED = nbsal.GradientXActivation(0), nbsal.Integrated(0, steps=50, baseline="pad")
MASKED, LIME, SHAPLEY = nbsal.Occlusion(1, way="mask"), nbsal.LIME(100, way="mask"), nbsal.Shapley(25, way="mask")
CASES = (
    Case("captum", "gradient x input", snippets.captum_gradxact, GRADIENT),
    Case("captum", "integrated gradients, 25 steps", snippets.captum_integrated, nbsal.Integrated(0, baseline="pad")),
    Case("captum", "occlusion", snippets.captum_occlusion, MASKED),
    Case("captum", "Shapley, 25 orders", snippets.captum_shapley, nbsal.Shapley(25, way="pad"), CHANCE),
    Case(
        "transformers-interpret",
        "integrated gradients, 50 steps",
        snippets.interpret_integrated,
        PADDED,
        f"{WORDS}, {ODDS}, and puts the last [SEP] into another segment",
    ),
    Case("ferret-xai", "gradient x input", ferret("GradientExplainer"), GRADIENT, WORDS),
    Case("ferret-xai", "integrated gradients, 50 steps", ferret("IntegratedGradientExplainer"), PADDED, WORDS),
    Case("ferret-xai", "LIME, 100 samples", ferret("LIMEExplainer", num_samples=100), LIME, f"{CHANCE}, {ODDS}"),
    Case(
        "ferret-xai", "Shapley, 25 orders", ferret("SHAPExplainer"), SHAPLEY, f"Owen values of a tree of tokens, {ODDS}"
    ),
    Case("ferret-xai", "gradient x input", ferret("GradientExplainer"), GRADIENT, on=MODELS[1]),
    Case("ferret-xai", "integrated gradients, 50 steps", ferret("IntegratedGradientExplainer"), PADDED, on=MODELS[1]),
    Case("interpreto", "occlusion", interpreto("Occlusion"), MASKED),
    Case(
        "interpreto",
        "LIME, 100 samples",
        interpreto("Lime", n_perturbations=100),
        LIME,
        f"{CHANCE}, weighed by another kernel",
    ),
    Case(
        "interpreto",
        "Shapley, 25 orders",
        interpreto("KernelShap", n_perturbations=100),
        SHAPLEY,
        f"{CHANCE}, from 100 subsets",
    ),
    Case(
        "interpreto",
        "integrated gradients, 50 steps",
        interpreto("IntegratedGradients", n_perturbations=50),
        nbsal.Integrated(0, steps=50),
        f"{WORDS}, takes sizes of single features, and multiplies by points of the way instead of the way",
    ),
    Case("inseq", "gradient x input", inseq("input_x_gradient", "sum"), GRADIENT, on=MODELS[2]),
    Case("inseq", "gradient's length", inseq("saliency", "vnorm"), nbsal.Simple(0, norm=2), on=MODELS[2]),
)


@cache
def material(on: str, count: int) -> tuple[Any, Any, list[str]]:
    """A model, its tokenizer, and that many texts for it."""
    reviews = nbsal.data.load("samples/reviews")["text"].tolist()
    if on == "demo/reviews":
        subject = nbsal.load(on)
        return subject.model, subject.tokenizer, reviews[:count]
    torch.manual_seed(0)
    tokenizer = base.tokenizer()
    size = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    ids = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.cls_token_id}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.1, **size, **ids)
    if on == MODELS[1]:
        return transformers.LlamaForSequenceClassification(config).eval(), tokenizer, reviews[:count]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    model = transformers.LlamaForCausalLM(config).eval()
    typed = [tokenizer.decode(tokenizer(text)["input_ids"]) for text in reviews]  # inseq compares texts with these
    told = nbsal.Explainer(nbsal.load(model, tokenizer=tokenizer), "random").map(typed, progress=False)
    whole = [s.text for s in told if len(tokenizer(s.target)["input_ids"]) == 1]
    return model, tokenizer, whole[:count]


def lines(work: Callable[..., Any]) -> int:
    """How many lines a snippet has, without its head, its docstring and blank lines."""
    source = textwrap.dedent(inspect.getsource(work))
    body = [
        part for part in ast.parse(source).body[0].body if not isinstance(getattr(part, "value", None), ast.Constant)
    ]
    found = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
    return sum(bool(one.strip()) for one in found)


def agreement(case: Case, model, tokenizer, texts: Sequence[str]) -> str:
    """How far their scores of content tokens are ours: the ranks, and where they should be the same, the numbers."""
    told = nbsal.Explainer(nbsal.load(model, tokenizer=tokenizer), case.method).map(texts, progress=False)
    ranks, largest = [], 0.0
    for s, given in zip(told, case.theirs(model, tokenizer, texts), strict=True):
        scores, content = np.asarray(given, dtype=float).ravel(), ~s.special
        theirs = scores if len(scores) == content.sum() else scores[content]
        here = s.scores[content]
        ranks.append(np.corrcoef(pandas.Series(here).rank(), pandas.Series(theirs).rank())[0, 1])
        if isinstance(case.method, nbsal.Simple):  # ours sum to 1
            theirs = theirs / theirs.sum()
        largest = max(largest, float(np.abs(here - theirs).max() / np.abs(here).max()))
    said = f"Spearman {spread(ranks)}"
    return f"{said}; {case.differs}" if case.differs else f"{said}; largest difference {largest:.1e}"


def compared(case: Case, rounds: int, count: int) -> Row:
    """A tool's cost, agreement and lines beside ours."""
    model, tokenizer, texts = material(case.on, count)
    work = f"{case.tool} {version(case.tool)}, {case.what}, {len(texts)} texts, {case.on}"
    mine = snippets.ours(case.method)
    try:
        said = agreement(case, model, tokenizer, texts)
        seconds = [
            (cpu(lambda: case.theirs(model, tokenizer, texts)), cpu(lambda: mine(model, tokenizer, texts)))
            for _ in range(rounds)
        ]
    except Exception as error:  # a tool may fail in any way on a model that it does not know
        return missing(work, f"{case.tool} raises {type(error).__name__}: {error}")
    theirs, here = zip(*seconds, strict=True)
    loading = cpu(lambda: nbsal.load(model, tokenizer=tokenizer))
    return Row(
        f"{work}: {said}",
        ours=f"{spread(here)} s, {loading:.2f} of it to load; {lines(mine)} lines",
        peer=f"{spread(theirs)} s; {lines(case.theirs)} lines",
        ratio=spread([one / other for one, other in seconds]),
    )


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Every case of every tool that is installed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    found = []
    for tool, cases in groupby(CASES, lambda case: case.tool):
        try:
            importlib.import_module(PACKAGES.get(tool, tool))
        except Exception as error:  # an old tool's import may fail in any way
            found.append(missing(tool, f"does not import: {type(error).__name__}: {error}"))
            continue
        for case in cases:
            found.append(compared(case, rounds, 2 if quick else 16))
            print(line(found[-1]), flush=True)
    return found


def main() -> None:
    options = parser(".peers", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
