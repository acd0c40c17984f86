"""The pages that compare nbsal with other tools, written from stored results."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.features.registry import FEATURES, KINDS, NO, PARTLY, TOOLS, YES

RESULTS = Path(__file__).with_name("results.json")
SPEED = [Path(__file__).parents[1] / name for name in ("peers.json", "answer_peers.json")]
FOLDER = Path(__file__).parents[3] / ".docs/benchmarks"
NOTHING = "–"
RANKS = {NOTHING: 0, NO: 0, PARTLY: 1, YES: 2}
INTRODUCTION = """# nbsal beside other tools

Written by `python -m tests.bench.features --write`. Every answer but the dashes was obtained by running a short piece
of code against the installed version of the tool, on tiny random models (`tests/bench/features/probe_NAME.py`). "yes":
it ran and returned what it should; "partly": with a limit that [the notes](peers-notes.md) name; "no": the tool raised
an error or its result was wrong, with the versions that the notes name; "–": we know of nothing for it in the tool's
interface, so nothing was run. EvalxNLP is missing: no package of it could be found to install. shap and shapiq are the
newest versions that run on Python 3.11.
"""
AHEAD = """## Where others are ahead

The rows in which another tool has more than nbsal, and those in which it is quicker
([all times](peers-time.md)).
"""
TIME = """# Time and lines of code beside other tools

The same work done by nbsal and by [other tools](peers.md).
"""
NOTES = """# Notes on other tools

What each piece of code returned, for the tables of [nbsal beside other tools](peers.md).
"""
TABLES = """## Features

One table for each kind of tool, with the rows in which one of its tools has an answer. The first row counts methods as
each tool lists them: captum's count includes variants for layers and neurons, shapiq's are its approximators, and
llmSHAP's its ways to draw coalitions. nbsal's count leaves out variants that reproduce other programs, and random
scores.
"""
TEXTS = """Measured by `python -m tests.bench.peers --write`, which says how each tool is called: the same texts and
model, one thread, seconds of CPU including loading, in turn, while other programs kept the machine busy. The ratio is
the other tool's time over ours: below 1, it is quicker.
"""
REPLIES = """Replies, by `python -m tests.bench.answer_peers --write`: one reply of `demo/notes` with five documents, a
warm call of each tool, ours without the check of its sentence (`check=False`), which the others lack; one thread,
seconds of CPU without loading, in turn, while other programs kept the machine busy.
"""
NEW = """## New in 2026, not tried

Read in the descriptions of the packages, of AgentDoG in its paper (arXiv 2601.18491). Nothing of this was run.

- **explainkit 0.2.0**: Explains a function from texts to probabilities by occlusion, a surrogate, LIME or SHAP. Scores
  the result by deletion, sufficiency, marked words, and by replacing the strongest words; adds up words over a corpus.
  It has nbsal's idea that an explanation must be tested; its description names no gradients, hidden layers or views.
- **shap 0.54.1 and shapiq 1.8.0**: Newer than those in the tables; they need Python 3.12. shapiq now brings its games
  and its benchmark.
- **langextract 1.7.1**: Lets a language model extract facts from documents and shows each at its place in the text.
  That says where the words of an extraction stand, not what a model's output depends on.
- **agent-replay** (package trajectory-causal-attribution 1.0.0): Records the run of an agent, repeats it without one
  step at a time, and compares how often it fails. It hides steps, where nbsal hides words, documents or messages.
- **AgentDoG**: Guard models of 4 to 8 billion weights for runs of agents. They name the source, the way and the harm of
  a risk, and point to the step and the sentence. nbsal explains the guard that you have.
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
        "Made for generation: more attribution methods for encoder-decoders; entropy, mutual information and functions "
        "of one's own as what is explained, by gradients too, where nbsal has one divergence, for methods that hide; "
        "and a command line that attributes data sets of generations.",
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
    "shapiq": (
        ("interactions", "modalities", "shapley", "save"),
        "Interactions of any number of units, by several indices, from few coalitions, with plots of their networks. "
        "More ways to approximate Shapley values; fast ones for trees and tables.",
    ),
    "llmshap": (
        ("modalities", "documents", "served"),
        "Images and tools of a prompt as units, beside texts. Compares what a served model writes anew by its words or "
        "by embeddings, several requests at once; no log-probabilities are needed.",
    ),
    "tokenshap": (
        ("served", "words"),
        "Needs nothing but a function that writes, or Ollama.",
    ),
    "flashtrace": (
        ("hops", "html", "reply"),
        "Information flow routes of a reply in a fraction of our time, and in chunks that fit long ones into memory. "
        "Leaves stop words out of what it follows through the reply. A command line for one span.",
    ),
    "gim-explain": (
        ("gradient_context",),
        "A context manager that changes the gradients of a backward pass of one's own, for circuits and pruning, also "
        "of TransformerLens models (from its documentation).",
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


def pages() -> dict[str, str]:
    """The pages by the names of their files."""
    results, speed = load(), [load(path) for path in SPEED]
    better = "\n".join(f"- **{tool}**: {text}" for tool, (_, text) in BETTER.items())
    alone = f"Of the tools in these tables only nbsal has {_alone(results)}.\n"
    tables = [_features(kind, {tool: results[tool] for tool in ("nbsal", *tools)}) for kind, tools in KINDS.items()]
    better = f"## What they do better\n\n{SOURCES}\n\n{better}\n"
    parts = {
        "peers.md": [INTRODUCTION, AHEAD, _more(results), _quicker(speed), TABLES, alone, *tables, better, NEW],
        "peers-time.md": [TIME, _speed(speed)],
        "peers-notes.md": [NOTES, *(_notes(tool, results[tool]) for tool in results)],
    }
    return {name: "\n".join(part) for name, part in parts.items()}


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {head} |", f"|{' --- |' * (head.count('|') + 1)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, ""])


def _more(results: dict[str, Any]) -> str:
    """The features of which other tools have more."""
    rows = []
    for key, text in ((key, text) for features in FEATURES.values() for key, text in features.items()):
        answers = {tool: _answer(result["answers"], key) for tool, result in results.items()}
        ahead = [tool for tool, answer in answers.items() if RANKS[answer] > RANKS[answers["nbsal"]]]
        if ahead:
            names = (f"{tool} (partly)" if answers[tool] == PARTLY else tool for tool in ahead)
            rows.append((text, answers["nbsal"], ", ".join(names)))
    return _table("what | nbsal | more", rows)


def _alone(results: dict[str, Any]) -> str:
    """The features of which no other tool has anything."""
    tried = {key for tool in results if tool != "nbsal" for key in results[tool]["answers"]}
    return "; ".join(text for features in FEATURES.values() for key, text in features.items() if key not in tried)


def _quicker(speed: Iterable[dict[str, Any]]) -> str:
    """The measured rows in which other tools are quicker."""
    rows = [row for measured in speed for tool in TOOLS if tool in measured for row in measured[tool]["rows"]]
    quicker = [row for row in rows if float(row["ratio"].split()[0]) < 1]
    return _table("what | their time over ours", [(_clean(row["work"]), row["ratio"]) for row in quicker])


def _features(kind: str, results: dict[str, Any]) -> str:
    rows = []
    for title, features in FEATURES.items():
        cells = [
            (text, *(_cell(result["answers"], key) for result in results.values())) for key, text in features.items()
        ]
        shown = [row for row in cells if set(row[2:]) != {NOTHING}]
        rows += [(f"**{title}**", *[""] * len(results)), *shown] if shown else []
    return f"### {kind}\n\n{_table(' | '.join(['', *results]).strip(), rows)}"


def _answer(answers: dict[str, Any], key: str) -> str:
    return str(answers[key]["answer"]) if key in answers else NOTHING


def _cell(answers: dict[str, Any], key: str) -> str:
    if key == "methods" and key in answers and answers[key]["answer"] == YES:
        return str(answers[key]["note"]).split()[0].strip(",:")
    return _answer(answers, key)


def _speed(speed: Iterable[dict[str, Any]]) -> str:
    parts = []
    for introduction, measured in zip((TEXTS, REPLIES), speed, strict=True):
        tools = [tool for tool in TOOLS if tool in measured]
        rows = [row for tool in tools for row in measured[tool]["rows"]]
        cells = [[_clean(row[key]) for key in ("work", "ours", "peer", "ratio")] for row in rows]
        machines = {tool: measured[tool]["machine"] for tool in tools}
        parts += [introduction, _table("what | ours | theirs | ratio", cells), "The processor of each tool's rows:\n"]
        parts += [*(f"- {tool}: {machine}" for tool, machine in machines.items()), ""]
    return "\n".join(parts)


def _clean(text: str) -> str:
    return text.replace("|", "/")


def _notes(tool: str, result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items() if name != tool)
    names = {key: text for features in FEATURES.values() for key, text in features.items()}
    lines = [f"## {tool} {result['versions'][tool]}\n", f"Run on {result['date']} with {versions}.\n"]
    for key, answer in result["answers"].items():
        note = f": {answer['note']}" if answer["note"] else ""
        lines.append(f"- {names[key]}: {answer['answer']}{_escape(note)}")
    return "\n".join([*lines, ""])


def _escape(text: str) -> str:
    return text.replace("|", "/").replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
