"""What both games cost beside masking in place: `python -m tests.bench.games`.

A random bert-base and texts of random words, one thread, CPU time. In place means: every hidden token a mask token that
nobody attends to, ten fractions and two games a method, batches sorted by length, each method explained by itself.
Printed are the ratio for one method on texts of one length, the ratio for ten methods together on texts of several
lengths, and the largest difference between any logits of the two ways.
"""

import argparse
import statistics
from dataclasses import replace

import numpy as np
import torch
import transformers

import nbsal
from nbsal.encoding import Encoded
from nbsal.evaluation import Memory, games
from nbsal.evaluation.curves import steps
from nbsal.samples import base
from tests.bench.decoding import cpu

FRACTIONS = [step / 10 for step in range(1, 11)]
BATCH = 8


def texts(lengths, seed=0):
    """Random words of one token each; two tokens of a text are special."""
    vocabulary = sorted(
        word for word in base.tokenizer().get_vocab() if word.isascii() and word.isalpha() and len(word) > 3
    )
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(vocabulary, size=length - 2)) for length in lengths]


def subject() -> nbsal.Subject:
    """A random bert-base with the tokenizer of the embedded models."""
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig()).eval()
    return nbsal.load(model, tokenizer=base.tokenizer())


def explainers(of: nbsal.Subject, count: int) -> dict[str, nbsal.Explainer]:
    """Grad-CAM at that many layers."""
    return {f"l{layer}": nbsal.Explainer(of, "gradcam", layer=layer) for layer in range(count)}


@torch.no_grad()
def in_place(explain, many):
    """Logits of every text at every fraction, revealing then hiding: {text: [subset, label]}."""
    found = {}
    for start in range(0, len(many), BATCH):
        batch = sorted(many, key=lambda text: len(text.split()))[start : start + BATCH]
        saliencies = explain.map(batch, batch_size=BATCH, progress=False)
        tables = [steps(s.row, s.order, FRACTIONS) for s in saliencies]
        logits = []
        for subset in range(len(tables[0])):
            rows = [masked(s.row, table[subset], explain.subject) for s, table in zip(saliencies, tables, strict=True)]
            logits.append(explain.subject.logits(explain.subject.inputs(Encoded(rows, 0))))
        found |= dict(zip(batch, torch.stack(logits, 1), strict=True))
    return found


def masked(row, kept, of):
    """A text with tokens masked where they stand."""
    ids = tuple(token if stays else of.tokenizer.mask_token_id for token, stays in zip(row.ids, kept, strict=True))
    return replace(row, ids=ids, mask=tuple(int(stays) for stays in kept))


def ours(members, many) -> Memory:
    """Both games of all explainers."""
    memory = Memory()
    games(members, many, fractions=FRACTIONS, random=0, batch_size=BATCH, memory=memory, progress=False)
    return memory


def difference(members, many, memory) -> float:
    """The largest difference of any logit between the two ways."""
    largest = 0.0
    for explain in members.values():
        theirs = in_place(explain, many)
        for saliency in explain.map(many, progress=False):
            hiding = memory.hidings[explain.subject, "remove"]
            (logits,) = hiding.logits([saliency.row], [steps(saliency.row, saliency.order, FRACTIONS)])
            largest = max(largest, float((logits - theirs[saliency.text]).abs().max()))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.games", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    of = subject()
    works = {
        "one method, 16 texts of 64 tokens": (explainers(of, 1), texts([64] * 16)),
        "ten methods, 8 texts of 12 to 40 tokens": (explainers(of, 10), texts(range(12, 44, 4))),
    }
    for name, (members, many) in works.items():
        ratios = []
        for _ in range(options.rounds):
            theirs = cpu(lambda: [in_place(explain, many) for explain in members.values()])  # noqa: B023
            here = cpu(lambda: ours(members, many))  # noqa: B023
            ratios.append(theirs / here)
        exact = difference(dict(list(members.items())[-1:]), many, ours(dict(list(members.items())[-1:]), many))
        print(
            f"{name}: in place {theirs:.1f} s, ours {here:.1f} s; ratio, median of {options.rounds} rounds "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
            f"largest difference of a logit {exact:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
