"""Audits of the planted models: whether they find what each model goes by, and nothing else.

`python -m tests.evaluation.planted` audits each model on the messages of 20 seeds (about four minutes of one core;
`--seeds`, `--size` and names of models for fewer) and prints how often its shortcut was found, and every other row.

What counts was written down before the first run:

- The shortcut is found if a row of `audit.beyond_chance` names one of its words (for the length, which has no word: the
  longest quarter of the messages).
- Rows that follow from it are neither found nor false: its other words; the slices of messages that begin with one; the
  slices by label and by prediction in which all its mistakes lie; slices by length of long messages.
- Every other row of `audit.beyond_chance` is false. The share is of all rows that were tried.
"""

import argparse
from collections import Counter
from dataclasses import dataclass, field

import nbsal
from nbsal.samples import planted
from nbsal.samples.planted import LABELS, SHORTCUTS

LONG = 30  # words of a long message


@dataclass
class Tally:
    """What audits of one planted model found: in how many the shortcut, which false rows, and how many were tried."""

    audits: int = 0
    hits: int = 0
    tried: int = 0
    false: Counter = field(default_factory=Counter)
    audits_with_false: int = 0

    @property
    def false_share(self):
        return self.false.total() / self.tried

    def add(self, name, audit):
        words, slices = audit.beyond_chance
        rows = [*(("word", word) for word in words.word), *zip(slices["slice"], slices.value, strict=True)]
        false = [f"{kind} {value}" for kind, value in rows if not legitimate(name, kind, value)]
        self.audits += 1
        self.hits += any(names_shortcut(name, kind, value) for kind, value in rows)
        self.tried += len(audit.words) + len(audit.slices)
        self.false.update(false)
        self.audits_with_false += bool(false)


def names_shortcut(name, kind, value):
    """Whether a row is the shortcut itself."""
    if name == "length":
        return kind == "words" and int(value.split()[-1]) > LONG
    return kind == "word" and value in SHORTCUTS[name].words


def legitimate(name, kind, value):
    """Whether a row is the shortcut or follows from it."""
    shortcut = SHORTCUTS[name]
    if not shortcut.features:
        return False
    consequences = {
        "first word": value in shortcut.words,
        "label": value == LABELS[1 - shortcut.toward],
        "prediction": value == LABELS[shortcut.toward],
    }
    return names_shortcut(name, kind, value) or consequences.get(kind, False)


def audit_model(name, seed, size, method="gradxact"):
    """The audit of a planted model on the messages of a seed."""
    explain = nbsal.Explainer(nbsal.load(planted.PREFIX + name), method)
    return nbsal.audit(explain, *planted.audit_texts(seed, size), progress=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(SHORTCUTS), help="names such as word (default: all)")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--method", default="gradxact")
    arguments = parser.parse_args()
    total = Tally()
    for name in arguments.models:
        tally = Tally()
        for seed in range(arguments.seeds):
            tally.add(name, audit_model(name, seed, arguments.size, arguments.method))
        total.tried += tally.tried
        total.false += tally.false
        hits = f"found in {tally.hits} of {tally.audits}, " if SHORTCUTS[name].features else ""
        rows = f"false rows {tally.false.total()} of {tally.tried} ({tally.false_share:.2%})"
        print(f"planted/{name}: {hits}{rows} {dict(tally.false.most_common(8)) or ''}", flush=True)
    print(f"in all: false rows {total.false.total()} of {total.tried} ({total.false_share:.2%})")


if __name__ == "__main__":
    main()
