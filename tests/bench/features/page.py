"""The pages that compare nbsal with other tools, written from stored results."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.features.registry import FEATURES, KINDS, NO, PARTLY, TOOLS, YES
from tests.bench.jobs import TITLES

RESULTS = Path(__file__).with_name("results.json")
SPEED = [Path(__file__).parents[1] / name for name in ("peers.json", "answer_peers.json")]
JOBS = Path(__file__).parents[1] / "jobs.json"
FOLDER = Path(__file__).parents[3] / ".docs/benchmarks"
NOTHING = "–"
RANKS = {NOTHING: 0, NO: 0, PARTLY: 1, YES: 2}
INTRODUCTION = """# nbsal beside other tools

Written by `python -m tests.bench.features --write` from stored results, which four commands renew in an environment
that has the other tools. shap and shapiq are the newest versions that run on Python 3.11.
"""
AHEAD = """## Where others are ahead

The features of which another tool has more, and the measured rows in which one is quicker
([all times](peers-time.md)).
"""
TIME = """# Time and lines of code beside other tools

The same work done by nbsal and by [other tools](peers.md).
"""
NOTES = """# Notes on other tools

What answers other than yes mean, in the tables of [nbsal beside other tools](peers.md).
"""
FIVE = """## Five jobs

`python -m tests.bench.jobs --write` runs what a user of each tool would write, each as a program of its own, whose
non-blank lines are counted. CPU seconds are of one thread, with loading, without the import of torch and transformers,
in one run on a busy machine: differences below a third mean nothing. The models are `demo/reviews` and `demo/notes`,
saved to folders. The last column is what was printed. Of the ten documents, the sixth has the answer. captum's default
reads the reply token by token with cached outputs, and named document 7 with transformers 5.24; the row has
`forward_in_tokens=False`, which reads it at once. The data set is the validation split of SST-2, 872 sentences. shap
was not run on it: it takes as long as in the first job for each of the mistakes.
"""
TABLES = """## Features

Every answer but the dashes comes from a short program that ran against the installed tool, on tiny random models
(`tests/bench/features/probe_NAME.py`). "yes": it returned what it should; "partly": with a limit that [the
notes](peers-notes.md) name; "no": it raised an error or was wrong; "–": we know of nothing for it there, so nothing was
run. The first row counts methods as each tool lists them; captum's count includes variants for layers and neurons,
nbsal's leaves out variants that reproduce other programs.
"""
TEXTS = """`python -m tests.bench.peers --write`: sixteen reviews with `demo/reviews`, or a random Llama where a row
says so; one thread, CPU seconds with loading, in turn, on a busy machine. The ratio is their time over ours:
below 1, it is quicker. Agreement is the median Spearman correlation of scores; a note says how definitions differ.
"""
REPLIES = """`python -m tests.bench.answer_peers --write`: one reply of `demo/notes`, a warm call of each tool, ours
without the check of its sentence unless the row says so; CPU seconds of one thread without loading, in turn, on a busy
machine.
"""
NEW = """## New in 2026

Read about and not run:

- **shap 0.54.1 and shapiq 1.8.0** need Python 3.12. shapiq now brings its games and its benchmark.
- **langextract 1.7.1** shows where in a text the facts stand that a language model extracts; that does not say what its
  output depends on.
- **agent-replay** (package trajectory-causal-attribution 1.0.0) repeats the run of an agent without one step at a time.
- **AgentDoG** (arXiv 2601.18491): guard models of 4 to 8 billion weights that point to the step and sentence of a risk.
"""
STEPS = "both take 50 forward and backward passes; why ours takes longer was not examined"
REASONS = {  # by the beginning of a row
    "captum 0.9.0, gradient": "equal within the error of the measurement",
    "interpreto 0.5.2, Shapley": "it fits 100 coalitions; 25 permutations take one for each token of each",
    "interpreto 0.5.2: Every sentence": "it scores the reply as a whole, ours every token",
    "flashtrace": "not examined",
    "ferret-xai 0.4.2, integrated": STEPS,
    "transformers-interpret": STEPS,
}
SOURCES = "What is not a row of a table was read in the tool's documentation and not run."
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
    "explainkit": (
        ("black_box", "faithfulness", "counterfactuals"),
        "Needs only numpy, pydantic and matplotlib. Replaces the strongest words from a table and counts "
        "the decisions that change; marks words in prompts of annotators; compares with rationales that people marked.",
    ),
    "context-cite": (
        ("documents",),
        "Writes the reply itself, and cites for any span of it from the same ablations.",
    ),
    "flashtrace": (
        ("hops", "html", "reply"),
        "Information flow routes of a reply in less time, and in chunks that fit long ones into memory. "
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
    ahead = [AHEAD, _more(results), _quicker(speed), f"{SOURCES}\n\n{better}\n"]
    alone = f"Of the tools in these tables only nbsal has {_alone(results)}.\n"
    tables = [_features(kind, {tool: results[tool] for tool in ("nbsal", *tools)}) for kind, tools in KINDS.items()]
    parts = {
        "peers.md": [INTRODUCTION, FIVE, _jobs(load(JOBS)), *ahead, TABLES, alone, *tables, NEW],
        "peers-time.md": [TIME, _speed(speed)],
        "peers-notes.md": [NOTES, *(_limits(tool, results[tool]) for tool in results)],
    }
    return {name: "\n".join(part) for name, part in parts.items()}


def _jobs(jobs: dict[str, Any]) -> str:
    """What each tool takes for each job."""
    rows = []
    for job, title in TITLES.items():
        for number, outcome in enumerate(jobs.get(job, {"rows": ()})["rows"]):
            seconds = "fails" if outcome["seconds"] is None else f"{outcome['seconds']:.1f} s"
            cells = ("" if number else title, outcome["tool"], str(outcome["lines"]), seconds)
            rows.append((*cells, _escape(" ".join(outcome["outcome"].split()))))
    return _table("job | tool | lines | CPU time | result", rows)


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
    """The measured rows in which other tools are quicker, with what is known of the reason."""
    rows = [row for measured in speed for stored in measured.values() for row in stored["rows"]]
    quicker = [row for row in rows if row["ratio"] and float(row["ratio"].split()[0]) < 1]
    cells = [(re.split(": Spearman|, 16 texts", _clean(row["work"]))[0], row["ratio"].split()[0]) for row in quicker]
    return _table("what | their time over ours | remark", [(*each, _reason(each[0])) for each in cells])


def _reason(work: str) -> str:
    return next((reason for start, reason in REASONS.items() if work.startswith(start)), "")


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


def _speed(speed: Sequence[dict[str, Any]]) -> str:
    parts = []
    for introduction, measured, head, cells in (
        (TEXTS, speed[0], "what | agreement | theirs | ours | ratio | lines", _text_cells),
        (REPLIES, speed[1], "what | theirs | ours | ratio", _reply_cells),
    ):
        tools = [tool for tool in TOOLS if tool in measured] + [tool for tool in measured if tool not in TOOLS]
        rows = [cells(row) for tool in tools for row in measured[tool]["rows"] if row["ratio"]]
        machines = dict[str, list[str]]()
        for tool in tools:
            machines.setdefault(measured[tool]["machine"].split(":")[0], []).append(tool)
        where = "; ".join(f"{machine}: {', '.join(names)}" for machine, names in machines.items())
        parts += [introduction, _table(head, rows), f"Processors: {where}.\n"]
    return "\n".join(parts)


def _text_cells(row: dict[str, str]) -> tuple[str, ...]:
    """A row of peers.json: `tool, method, count, model: agreement; note`, and times with numbers of lines."""
    what, _, summary = _clean(row["work"]).partition(": ")
    agreement, _, note = summary.removeprefix("Spearman ").partition("; ")
    differs = "" if note.startswith("largest difference") else f"; {note}"
    (ours, own_lines), (theirs, lines) = (
        (re.split("[ ,]", row[key])[0], row[key].rsplit("; ", 1)[1]) for key in ("ours", "peer")
    )
    name = what.replace(", 16 texts", "").replace(", demo/reviews", "")
    times = f"{theirs} s", f"{ours} s", row["ratio"].split()[0]
    return f"{name}{differs}", agreement.split()[0], *times, f"{lines.split()[0]}, ours {own_lines.split()[0]}"


def _reply_cells(row: dict[str, str]) -> tuple[str, ...]:
    return _clean(row["work"]), *(f"{row[key].split()[0]} s" for key in ("peer", "ours")), row["ratio"].split()[0]


def _clean(text: str) -> str:
    return text.replace("|", "/")


def _limits(tool: str, result: dict[str, Any]) -> str:
    """The versions of a tool's row, and what its answers other than yes mean."""
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items() if name != tool)
    names = {key: text for features in FEATURES.values() for key, text in features.items()}
    limits = [
        f"  - {names[key]}: {answer['answer']}: {_escape(answer['note'])}"
        for key, answer in result["answers"].items()
        if answer["answer"] != YES
    ]
    return "\n".join([f"- **{tool} {result['versions'][tool]}** ({result['date']}, {versions})", *limits])


def _escape(text: str) -> str:
    return text.replace("|", "/").replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
