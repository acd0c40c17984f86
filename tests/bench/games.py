"""What both games cost beside masking in place: `python -m tests.bench.games`.

A random bert-base and texts of random words, one thread, CPU time. In place means: every hidden token a mask token that
nobody attends to, ten fractions and two games a method, batches sorted by length. One method is compared on texts of
one length, explained beforehand; ten methods on texts of several lengths, explained one by one there, together here.
Printed are the ratios, and the largest difference of any logit between the two ways.
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


def told(explain, many):
    """What an explainer says of texts, sorted by length."""
    return explain.map(sorted(many, key=lambda text: len(text.split())), batch_size=BATCH, progress=False)


@torch.no_grad()
def in_place(explain, saliencies):
    """Logits of every text at every fraction, revealing then hiding: {text: [subset, label]}."""
    found = {}
    for start in range(0, len(saliencies), BATCH):
        batch = saliencies[start : start + BATCH]
        tables = [steps(s.row, s.order, FRACTIONS) for s in batch]
        logits = []
        for subset in range(len(tables[0])):
            rows = [masked(s.row, table[subset], explain.subject) for s, table in zip(batch, tables, strict=True)]
            logits.append(explain.subject.logits(explain.subject.inputs(Encoded(rows, 0))))
        found |= dict(zip([s.text for s in batch], torch.stack(logits, 1), strict=True))
    return found


def masked(row, kept, of):
    """A text with tokens masked where they stand."""
    ids = tuple(token if stays else of.tokenizer.mask_token_id for token, stays in zip(row.ids, kept, strict=True))
    return replace(row, ids=ids, mask=tuple(int(stays) for stays in kept))


def ours(members, many, known=()) -> Memory:
    """Both games of all explainers; `known` is what they have said already."""
    memory = Memory(dict(known))
    games(members, many, fractions=FRACTIONS, random=0, batch_size=BATCH, memory=memory, progress=False)
    return memory


def difference(explain, saliencies, memory) -> float:
    """The largest difference of any logit between the two ways."""
    theirs, hiding = in_place(explain, saliencies), memory.hidings[explain.subject, "remove"]
    found = [hiding.logits([s.row], [steps(s.row, s.order, FRACTIONS)])[0] - theirs[s.text] for s in saliencies]
    return max(float(one.abs().max()) for one in found)


def one_method(of: nbsal.Subject) -> tuple[float, float]:
    """Seconds of both games there and here, the explanations being at hand."""
    members, many = explainers(of, 1), texts([64] * 16)
    (explain,) = members.values()
    saliencies, known = told(explain, many), ours(members, many).saliencies
    return cpu(lambda: in_place(explain, saliencies)), cpu(lambda: ours(members, many, known))


def ten_methods(of: nbsal.Subject) -> tuple[float, float]:
    """Seconds of explanations and games, one by one there and together here."""
    members, many = explainers(of, 10), texts(range(12, 44, 4))
    theirs = cpu(lambda: [in_place(explain, told(explain, many)) for explain in members.values()])
    return theirs, cpu(lambda: ours(members, many))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.games", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    of, many = subject(), texts(range(12, 44, 4))
    for work, name in {
        one_method: "one method, both games, 16 texts of 64 tokens",
        ten_methods: "ten methods with their explanations, 8 texts of 12 to 40 tokens",
    }.items():
        seconds = [work(of) for _ in range(options.rounds)]
        ratios = [theirs / here for theirs, here in seconds]
        print(
            f"{name}: in place {seconds[-1][0]:.1f} s, ours {seconds[-1][1]:.1f} s; ratio, median of {options.rounds} "
            f"rounds {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )
    members = explainers(of, 2)
    memory = ours(members, many)
    largest = max(difference(explain, told(explain, many), memory) for explain in members.values())
    print(f"largest difference of a logit between the two ways: {largest:.1e}")


if __name__ == "__main__":
    main()
