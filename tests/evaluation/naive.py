"""Slow reference implementations of the evaluations: one text, one fraction, one forward pass at a time."""

import math
from dataclasses import replace

import numpy as np
import torch

from nbsal.model.text.tokens import Encoded
from tests import zoo


def probabilities(subject, row, ids=None, mask=None):
    """Class probabilities of one text with other ids or another mask, each token at its original position."""
    changed = replace(row, ids=tuple(ids or row.ids), mask=tuple(row.mask if mask is None else mask))
    inputs = subject.inputs(Encoded([changed], 0))
    inputs["position_ids"] = torch.arange(len(row))[None] + zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    with torch.no_grad():
        return subject.logits(inputs)[0].softmax(-1).double().numpy()


def without(subject, row, hidden, way):
    """Class probabilities with the hidden positions replaced, and for "remove" also masked from attention."""
    filler = 0 if way == "pad" else subject.tokenizer.mask_token_id
    ids = [filler if i in hidden else token for i, token in enumerate(row.ids)]
    mask = [int(i not in hidden) for i in range(len(row))] if way == "remove" else None
    return probabilities(subject, row, ids, mask)


def games(subject, saliencies, labels, fractions):
    """Areas under the curves of Revealing and Hiding."""
    curves = np.zeros((2, len(fractions)))
    for saliency, label in zip(saliencies, labels, strict=True):
        row, order = saliency.row, saliency.order
        truth = int(probabilities(subject, row).argmax()) if label is None else label
        for at, fraction in enumerate(fractions):
            count = round(fraction * len(order))
            for game, hidden in enumerate((order[count:], order[:count])):
                prediction = int(without(subject, row, hidden, "remove").argmax())
                curves[game, at] += (prediction == truth) / len(saliencies)
    return [float(np.trapezoid(curve, fractions)) for curve in curves]


def deletion(subject, saliencies, labels, way, fractions, shares=(0.01, 0.05, 0.1, 0.2, 0.5)):
    """Means of AOPC, log-odds, comprehensiveness and sufficiency."""
    values = []
    for saliency, label in zip(saliencies, labels, strict=True):
        row, order = saliency.row, saliency.order
        full = probabilities(subject, row)
        truth = int(full.argmax()) if label is None else label
        left = [without(subject, row, order[: round(f * len(order))], way)[truth] for f in fractions]
        counts = [math.ceil(share * len(order)) for share in shares]
        comprehensive = [full[truth] - without(subject, row, order[:n], way)[truth] for n in counts]
        sufficient = [full[truth] - without(subject, row, order[n:], way)[truth] for n in counts]
        aopc = np.mean([full[truth] - p for p in left])
        values.append(
            (aopc, np.mean([math.log(p / full[truth]) for p in left]), *map(np.mean, (comprehensive, sufficient)))
        )
    return np.mean(values, 0)


def published(subject, explain, texts, labels, workers=10, min_probability=0.0):
    """AOPC and log-odds as in the published program, step by step; explain(row, label) returns scores."""
    size = len(texts) // workers
    chunks = [range(start, min(start + size, len(texts))) for start in range(0, len(texts), size)]
    means = []
    for chunk in chunks:
        originals, degraded = [], []
        for i in chunk:
            row = subject.encode(texts[i])[0]
            if len(row.ids) < 20:
                continue
            plain = replace(row, types=(0,) * len(row))
            numbers = [int(n) for n in np.round(np.linspace(0, 1, 10) * len(row.ids))]
            original = probabilities(subject, plain)[labels[i]]
            if original < min_probability:
                continue
            masked = replace(plain, mask=tuple(int(token != subject.tokenizer.sep_token_id) for token in row.ids))
            order = np.argsort(-explain(masked, labels[i]), kind="stable")
            left = []
            for number in numbers[1:]:
                replaced, at = [], 0
                while len(replaced) < number and at != len(order) - 1:
                    if row.tokens[order[at]] not in ("[CLS]", "[SEP]"):
                        replaced.append(order[at])
                    at += 1
                ids = list(row.ids)
                for position in replaced:
                    ids[position] = 0
                left.append(probabilities(subject, plain, ids)[labels[i]])
            originals.append(original)
            degraded.append(left)
        if originals:
            aopc = np.mean([[p - q for q in left] for p, left in zip(originals, degraded, strict=True)])
            odds = np.mean([[math.log(q / p) for q in left] for p, left in zip(originals, degraded, strict=True)])
            means.append((aopc, odds))
    return np.mean(means, 0)
