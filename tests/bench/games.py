"""What both games cost beside masking in place: `python -m tests.bench.games`.

A random bert-base and texts of random words, one thread, CPU time. In place means: every hidden token a mask token that
nobody attends to, ten fractions and two games a method, batches sorted by length. One method is compared on texts of
one length, explained beforehand; ten methods on texts of several lengths, explained one by one there, together here.
Printed are the ratios, and the largest difference of any logit between the two ways.
"""

import statistics
from dataclasses import replace

import numpy as np
import torch
import transformers

import nbsal
from nbsal.evaluation import Memory, games
from nbsal.evaluation._games import coalition_steps
from nbsal.model.tokens import Encoded
from nbsal.samples import base
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, at_most, markdown, parser, spread

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
        tables = [coalition_steps(s.row, s.order, FRACTIONS) for s in batch]
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
    cache = Memory(dict(known))
    games(members, many, fractions=FRACTIONS, random=0, batch_size=BATCH, cache=cache, progress=False)
    return cache


def difference(explain, saliencies, cache) -> float:
    """The largest difference of any logit between the two ways."""
    theirs, masked_model = in_place(explain, saliencies), cache.masked_models[explain.subject, "remove"]
    found = [
        masked_model.logits([s.row], [coalition_steps(s.row, s.order, FRACTIONS)])[0] - theirs[s.text]
        for s in saliencies
    ]
    return max(float(one.abs().max()) for one in found)


def least(saliencies) -> float:
    """The share of tokens that stay, no subset of a text twice: all that has to be read."""
    tables = [np.array(coalition_steps(s.row, s.order, FRACTIONS), bool) for s in saliencies]
    return sum(np.unique(table, axis=0).sum() for table in tables) / sum(table.size for table in tables)


def one_method(of: nbsal.Subject, lengths) -> tuple[float, float]:
    """Seconds of both games there and here, the explanations being at hand."""
    members, many = explainers(of, 1), texts(lengths)
    (explain,) = members.values()
    saliencies, known = told(explain, many), ours(members, many).saliencies
    return cpu(lambda: in_place(explain, saliencies)), cpu(lambda: ours(members, many, known))


def ten_methods(of: nbsal.Subject, lengths) -> tuple[float, float]:
    """Seconds of explanations and games, one by one there and together here."""
    members, many = explainers(of, 10), texts(lengths)
    theirs = cpu(lambda: [in_place(explain, told(explain, many)) for explain in members.values()])
    return theirs, cpu(lambda: ours(members, many))


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Seconds of games, in place and ours."""
    torch.set_num_threads(1)
    of, found = subject(), []
    equal, mixed = ([16] * 2, [12, 16]) if quick else ([64] * 16, list(range(12, 44, 4)))
    works = (
        (one_method, equal, 1.7, f"one method, both games, {len(equal)} texts of {equal[0]} tokens"),
        (
            ten_methods,
            mixed,
            2.2,
            f"ten methods with their explanations, {len(mixed)} texts of 12 to {mixed[-1]} tokens",
        ),
    )
    for work, lengths, goal, name in works:
        seconds = [work(of, lengths) for _ in range(rounds)]
        theirs, here = zip(*seconds, strict=True)
        ratios = [one / other for one, other in seconds]
        print(
            f"{name}: in place {spread(theirs)} s, ours {spread(here)} s; ratio, median of {rounds}: {spread(ratios)}"
        )
        floor = ""
        if work is one_method:
            share = least(told(explainers(of, 1)["l0"], texts(lengths)))
            floor = f"{share * statistics.median(theirs):.2f} s"
        peer = f"masked in place: {spread(theirs)} s"
        found.append(Row(name, f"{spread(here)} s", peer, floor, spread(ratios), **at_least(goal, ratios)))
    members, many = explainers(of, 2), texts(mixed)
    cache = ours(members, many)
    largest = max(difference(explain, told(explain, many), cache) for explain in members.values())
    print(f"largest difference of a logit between the two ways: {largest:.1e}")
    work = "  largest difference of a logit between the two ways"
    return [*found, Row(work, ours=f"{largest:.1e}", **at_most(1e-5, largest))]


def main() -> None:
    options = parser(".games", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
