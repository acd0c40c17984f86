"""The page that compares nbsal with other tools, written from stored results."""

import json
from pathlib import Path
from typing import Any

from tests.bench.features.registry import FEATURES, TOOLS, YES

RESULTS = Path(__file__).with_name("results.json")
SPEED = Path(__file__).parents[1] / "peers.json"
PAGE = Path(__file__).parents[3] / ".docs/benchmarks/peers.md"
NOTHING = "–"
INTRODUCTION = """# nbsal beside other tools

Written by `python -m tests.bench.features --write`. Every answer but the dashes was obtained by running a short piece
of code against the installed version of the tool, on tiny random models (`tests/bench/features/probe_NAME.py`). "yes":
it ran and returned what it should; "partly": with a limit that the notes name; "no": the tool raised an error or its
result was wrong, with the versions that the notes name; "–": we know of nothing for it in the tool's interface, so
nothing was run. The first row counts methods as each tool lists them; captum's count includes variants for layers and
neurons.
"""
SOURCES = "What is not a row of the table was read in the tool's documentation and not run."
BETTER = {
    "captum": (
        ("modalities", "training_data", "neurons", "concepts", "methods"),
        "Explains any torch module and any input, images and tables included; attributes to single neurons and layers; "
        "finds the training examples behind a prediction (TracIn, influence functions); tests concepts (TCAV).",
    ),
    "inseq": (
        ("step_functions", "contrast", "encoder_decoder", "reply"),
        "Made for generation: more attribution methods for encoder-decoders, entropy, divergence, mutual information "
        "and functions of one's own as what is explained, and a command line that attributes data sets of generations.",
    ),
    "interpreto": (
        ("concepts", "lens", "shapley"),
        "Concepts: learns dictionaries of a layer's activations (NMF, sparse autoencoders and others), labels and "
        "scores them. Its lens can be trained (tuned lens). Sobol indices. Kernel SHAP of 100 coalitions is quicker "
        "than our 25 permutations.",
    ),
    "ferret-xai": (
        ("faithfulness", "html"),
        "One call benchmarks all of its methods on a text; besides faithfulness, it measures agreement with human "
        "rationales of data sets that it downloads. nbsal has both in `nbsal.evaluation`, in more lines.",
    ),
    "transformers-interpret": (
        ("spans", "tagging"),
        "Three lines of code from a model to integrated gradients, slightly quicker than ours on sixteen "
        "texts; images (from its documentation).",
    ),
    "shap": (
        ("owen", "modalities", "black_box"),
        "Owen values: scores of phrases, from the whole text down to tokens, in a picture that opens them. Tables, "
        "trees and images. Plots that summarise a data set.",
    ),
    "bertviz": (
        ("attention_view", "neurons"),
        "Draws the attention of every head from token to token, in encoder-decoders as well, and queries and keys "
        "neuron by neuron. nbsal draws one head at a time (`Heads`), and none of encoder-decoders.",
    ),
    "lit-nlp": (
        ("counterfactuals", "black_box"),
        "A web application for whole data sets: metrics by slice, projections of embeddings, comparison of models and "
        "of examples (these from its documentation, https://pair-code.github.io/lit/); changed "
        "texts that flip the prediction. Works on any model that a class of its own wraps.",
    ),
    "ecco": (
        ("concepts", "neurons", "lens"),
        "Factors of the activations of neurons (NMF), and rankings of a few chosen tokens through the layers.",
    ),
}


def load(path: Path = RESULTS) -> dict[str, Any]:
    """The stored results by tool."""
    return json.loads(path.read_text()) if path.exists() else {}


def page() -> str:
    """The whole page."""
    results = load()
    better = "\n".join(f"- **{tool}**: {text}" for tool, (_, text) in BETTER.items())
    parts = [INTRODUCTION, _features(results), f"## What they do better\n\n{SOURCES}\n\n{better}\n"]
    parts += ["## Time and lines of code\n", _speed(load(SPEED)), "## Notes\n"]
    return "\n".join([*parts, *(_notes(tool, results[tool]) for tool in results)])


def _features(results: dict[str, Any]) -> str:
    lines = [f"| | {' | '.join(results)} |", f"| --- |{' --- |' * len(results)}"]
    for title, features in FEATURES.items():
        lines.append(f"| **{title}** |{' |' * len(results)}")
        for key, text in features.items():
            lines.append(f"| {text} | {' | '.join(_cell(results[tool]['answers'], key) for tool in results)} |")
    return "\n".join([*lines, ""])


def _cell(answers: dict[str, Any], key: str) -> str:
    if key not in answers:
        return NOTHING
    if key == "methods" and answers[key]["answer"] == YES:
        return str(answers[key]["note"]).split()[0].strip(",:")
    return str(answers[key]["answer"])


def _speed(speed: dict[str, Any]) -> str:
    introduction = (
        "Measured by `python -m tests.bench.peers --write`, which says how each tool is called: the same texts and "
        "model, one thread, seconds of CPU including loading, while other programs ran. The ratio is the other tool's "
        "time over ours: below 1, it is quicker.\n"
    )
    tools = [tool for tool in TOOLS if tool in speed]
    lines = ["| what | ours | theirs | ratio |", "| --- | --- | --- | --- |"]
    for tool in tools:
        cells = [
            [row[key].replace("|", "/") for key in ("work", "ours", "peer", "ratio")] for row in speed[tool]["rows"]
        ]
        lines += [f"| {' | '.join(row)} |" for row in cells]
    processors = "\n".join(f"- {tool}: {speed[tool]['machine']}" for tool in tools)
    return "\n".join([introduction, *lines, "", f"The processor of each tool's rows:\n\n{processors}", ""])


def _notes(tool: str, result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items() if name != tool)
    names = {key: text for features in FEATURES.values() for key, text in features.items()}
    lines = [f"### {tool} {result['versions'][tool]}\n", f"Run on {result['date']} with {versions}.\n"]
    for key, answer in result["answers"].items():
        note = f": {answer['note']}" if answer["note"] else ""
        lines.append(f"- {names[key]}: {answer['answer']}{_escape(note)}")
    return "\n".join([*lines, ""])


def _escape(text: str) -> str:
    return text.replace("|", "/").replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
