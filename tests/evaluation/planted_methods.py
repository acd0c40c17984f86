"""Every method of the catalogue on the planted models: `.docs/benchmarks/planted.md`.

`python -m tests.evaluation.planted_methods` prints the table (some minutes; `--size` for fewer messages, names for
fewer methods); `--write` updates the page.
"""

import argparse
import sys
from pathlib import Path

from nbsal.evaluation import planted
from nbsal.evaluation.results import join_results
from nbsal.methods import catalogue
from nbsal.samples.planted import SHORTCUTS
from nbsal.support.errors import NbsalError

PATH = Path(__file__).parents[2] / ".docs" / "benchmarks" / "planted.md"
PAGE = """# Methods on models with a planted shortcut

Written by `python -m tests.evaluation.planted_methods --write`. Each of five tiny classifiers was trained to go by a
word that is no evidence (see `nbsal/samples/README.md`):

{rules}

Each method explains the decisions about {size} messages of each model in which the planted word decides against the
evidence: without it, the decision is another one. The table has the share of messages in which the planted word has the
highest score of all words (for "pair", one of its two words; for "punctuation", one of the marks), with its 95 %
interval; words that tie count as their share. Methods have their default settings, decoded ones the input embeddings as
LM head. The best possible value is 1.

{table}

{refused}

The models are small, and a shortcut that decides alone is easier to find than most reasons of large models: a method
that misses it cannot be trusted, one that finds it still has to be judged on your model. Each model is one training
run, and another fools other methods: models of an earlier version of the recipe made AttCAT miss "pair" instead of
"word". Each word is scored at its place: a message has two quotation marks or two asterisks, of which one is enough for
the decision, so that hiding a single one changes little.

Score a method of your own by its name, an instance, or a function that takes a subject and returns an explainer:

```python
import nbsal

results = nbsal.evaluation.planted({{"mine": lambda subject: nbsal.Explainer(subject, "gradxact", layer=0)}}, size=20)
results.table()
```
"""


def scores(names, size):
    """The results of all methods that run on the planted models, and why each of the others does not."""
    parts, refused = [], {}
    for name in names:
        print(name, file=sys.stderr, flush=True)
        try:
            parts.append(planted(name, size, progress=False))
        except NbsalError as error:
            refused[name] = str(error)
    return join_results(parts), refused


def table(results):
    """The results as Markdown, the best mean first."""
    frame = results.mean().set_index(["explainer", "model"])
    order = sorted(results.explainers, key=lambda name: -frame.loc[(name, "mean"), "mean"])
    lines = [["method", *results.measures], ["---"] * (1 + len(results.measures))]
    for name in order:
        rows = (frame.loc[(name, measure)] for measure in results.measures)
        lines.append([f"`{name}`", *(f"{row['mean']:.2f} ({row.low:.2f} to {row.high:.2f})" for row in rows)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(names, size):
    """The page of the documentation."""
    results, refused = scores(names, size)
    rules = "\n".join(f"- `planted/{name}`: {shortcut.rule}" for name, shortcut in SHORTCUTS.items() if shortcut.words)
    reasons = "\n".join(f"- `{name}`: {reason}" for name, reason in refused.items())
    lines = f"Not run:\n\n{reasons}" if refused else "Every method of the catalogue runs."
    return PAGE.format(rules=rules, size=size, table=table(results), refused=lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=catalogue.names())
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    content = page(arguments.methods, arguments.size)
    print(content)
    if arguments.write:
        PATH.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
