"""The cost of both games, compared with masking in place: `python -m tests.bench.games`.

A random bert-base and texts of random words, one thread, CPU time. Masking in place replaces every hidden token by a
mask token that is excluded from attention, for ten fractions and two games per method, in batches sorted by length. One
method is compared on texts of one length that have been explained before. Ten methods are compared on texts of several
lengths; with masking in place they are explained one after the other, with ours together. Rows have the ratios, and
the largest difference of any logit.
"""

import statistics
from dataclasses import replace

import numpy as np
import torch

import nbsal
from nbsal.ablation import tables
from nbsal.ablation.decision import DecisionText
from nbsal.evaluation import Cache, games
from nbsal.evaluation._games import hidden_at
from nbsal.model.text.tokens import Encoded
from tests.bench import table
from tests.bench.corpus import texts
from tests.bench.measure import cpu, random_bert
from tests.bench.table import Row, at_least, at_most, spread

FRACTIONS = [step / 10 for step in range(1, 11)]
BATCH = 8


def explainers(subject: nbsal.Subject, count: int) -> dict[str, nbsal.Explainer]:
    """Grad-CAM at the first `count` layers."""
    return {f"l{layer}": nbsal.Explainer(subject, "gradcam", layer=layer) for layer in range(count)}


def explain_sorted(explain, many):
    """The explanations of texts, sorted by length."""
    return explain.map(sorted(many, key=lambda text: len(text.split())), batch_size=BATCH, progress=False)


@torch.no_grad()
def in_place(explain, saliencies):
    """Logits of every text at every fraction, revealing then hiding: {text: [coalition, label]}."""
    text_logits = {}
    for start in range(0, len(saliencies), BATCH):
        batch = saliencies[start : start + BATCH]
        coalitions = [stays(s) for s in batch]
        logits = []
        for step in range(len(coalitions[0])):
            rows = [masked(s.row, steps[step], explain.subject) for s, steps in zip(batch, coalitions, strict=True)]
            logits.append(explain.subject.logits(explain.subject.inputs(Encoded(rows, 0))))
        text_logits |= dict(zip([s.text for s in batch], torch.stack(logits, 1), strict=True))
    return text_logits


def stays(saliency):
    """The tokens that stay at every fraction, revealing then hiding: [coalition, token]."""
    return tables.without(len(saliency.row), *hidden_at(saliency.row, saliency.order, FRACTIONS))


def masked(row, coalition, subject):
    """A text with its hidden tokens masked in place."""
    mask_id = subject.tokenizer.mask_token_id
    ids = tuple(token if stays else mask_id for token, stays in zip(row.ids, coalition, strict=True))
    return replace(row, ids=ids, mask=tuple(int(stays) for stays in coalition))


def ours(members, many, saliencies=()) -> Cache:
    """Play both games with all explainers; `saliencies` are cached explanations."""
    cache = Cache(dict(saliencies))
    games(members, many, fractions=FRACTIONS, random=0, batch_size=BATCH, cache=cache, progress=False)
    return cache


def difference(explain, saliencies, cache) -> float:
    """The largest difference of any logit between masking in place and ours."""
    theirs, ablation = in_place(explain, saliencies), cache.ablations[explain.subject]
    differences = [
        ablation.values([DecisionText(explain.subject, s.row)], [stays(s)])[0] - theirs[s.text] for s in saliencies
    ]
    return max(float(logits.abs().max()) for logits in differences)


def required_share(saliencies) -> float:
    """The share of tokens that must be read: those that stay, each coalition of a text once."""
    coalitions = [stays(s) for s in saliencies]
    return sum(np.unique(steps, axis=0).sum() for steps in coalitions) / sum(steps.size for steps in coalitions)


def time_one_method(subject: nbsal.Subject, many) -> tuple[float, float]:
    """Seconds of both games in place and with ours, with the explanations cached."""
    members = explainers(subject, 1)
    saliencies, cached = explain_sorted(members["l0"], many), ours(members, many).saliencies
    return cpu(lambda: in_place(members["l0"], saliencies)), cpu(lambda: ours(members, many, cached))


def time_ten_methods(subject: nbsal.Subject, many) -> tuple[float, float]:
    """Seconds of explanations and games, method by method in place and together with ours."""
    members = explainers(subject, 10)
    theirs = cpu(lambda: [in_place(explain, explain_sorted(explain, many)) for explain in members.values()])
    return theirs, cpu(lambda: ours(members, many))


def compare(name: str, subject, many, time, goal: float, rounds: int, share: float = 0) -> Row:
    """The row of a comparison; `share` is that of the tokens in place which must be read."""
    seconds = [time(subject, many) for _ in range(rounds)]
    in_place_seconds, our_seconds = zip(*seconds, strict=True)
    ratios = [theirs / own for theirs, own in seconds]
    return Row(
        name,
        ours=f"{spread(our_seconds)} s",
        peer=f"masked in place: {spread(in_place_seconds)} s",
        floor=f"{share * statistics.median(in_place_seconds):.2f} s" if share else "",
        ratio=spread(ratios),
        **at_least(goal, ratios),
    )


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Seconds of the games, in place and with ours."""
    torch.set_num_threads(1)
    subject = random_bert()
    lengths = [12, 16] if quick else range(12, 44, 4)
    equal = texts(2, 16, 16) if quick else texts(16, 64, 64)
    mixed = [text for length in lengths for text in texts(1, length, length)]
    one = f"one method, both games, {len(equal)} texts of {len(equal[0].split()) + 2} tokens"
    ten = f"ten methods with their explanations, {len(mixed)} texts of 12 to {lengths[-1]} tokens"
    members = explainers(subject, 2)
    share = required_share(explain_sorted(members["l0"], equal))
    cache = ours(members, mixed)
    largest = max(difference(explain, explain_sorted(explain, mixed), cache) for explain in members.values())
    return [
        compare(one, subject, equal, time_one_method, 1.7, rounds, share),
        compare(ten, subject, mixed, time_ten_methods, 2.2, rounds),
        Row("  largest difference of a logit", ours=f"{largest:.1e}", **at_most(1e-5, largest)),
    ]


if __name__ == "__main__":
    table.main(results, __doc__)
