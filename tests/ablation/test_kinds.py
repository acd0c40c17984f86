"""Kinds of texts that run through the engine, each against literal masking or a literal prompt."""

from dataclasses import replace

import numpy as np
import torch

import nbsal
from nbsal.ablation.decision import DecisionText, filler_id
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.model.text.tokens import Encoded
from tests.ablation.runs import hide
from tests.answers.writers import reading_of
from tests.cases import cases

PAIR = ("Who wrote the warm book?", "Ann wrote the book, and Ben read it.")
PROMPT = "Mara lives in Oslo. The dog sleeps. Boris lives in Rouen."


@cases("head, text", [("span", PAIR), ("sequence", PAIR), ("token", "A warm joy."), ("masked", "A [MASK] joy.")])
@cases("way", ["remove", "mask"])
def test_heads_and_pairs_are_masked_literally(load, head, text, way):
    subject = load("bert", head, dtype="float32", decoding=False)
    (row,) = subject.encode([text])
    words = [word.tokens for word in row.words]
    experiment = Experiment(Ablation(subject), DecisionText(subject, row, way=way), words)
    sets = [[0], [1, len(words) - 1], range(len(words))]
    for hidden, ours in zip(sets, experiment.without(*sets), strict=True):
        places = [token for number in hidden for token in words[number]]
        ids, mask = np.array(row.ids), np.array(row.mask)
        ids[places] = filler_id(subject, way)
        mask[places] = way != "remove"
        literal = replace(row, ids=tuple(ids.tolist()), mask=tuple(mask.tolist()))
        with torch.no_grad():
            truth = subject.logits(subject.inputs(Encoded([literal], 0)))[0]
        assert torch.allclose(ours, truth, atol=1e-5 * float(truth.abs().max().clamp(1)))


def test_an_order_is_hidden_and_revealed_step_by_step(small):
    (row,) = small.encode(["A warm and funny film."])
    words = [word.tokens for word in row.words]
    experiment, order = Experiment(Ablation(small), DecisionText(small, row), words), [3, 1, 0, 5, 2, 4]
    played = experiment.in_order([order, order[::-1]], [0, 2, 6], ("revealing", "hiding"))
    assert played["hiding"].shape == (2, 3, len(small.labels))
    assert torch.equal(played["hiding"][0], experiment.without([], order[:2], order))
    assert torch.equal(played["revealing"][1], experiment.only([], order[:-3:-1], order))
    assert torch.equal(played["hiding"][0, 2], played["revealing"][1, 0])
    assert experiment.ablation.forwards == 6, "nothing is run twice"


def test_what_another_experiment_has_hidden_is_not_run_again(small):
    (row,) = small.encode(["A warm and funny film."])
    ablation, text = Ablation(small), DecisionText(small, row)
    by_token = Experiment(ablation, text, [(place,) for place in row.content])
    by_token.without([0, 1], [2])
    Experiment(ablation, text, [row.content[:2], row.content[2:3]]).without([0], [1])
    assert ablation.forwards == 2


def test_a_server_reads_the_prompt_without_what_is_hidden():
    asked = []

    def score(pairs):
        asked.extend(pairs)
        return [[-float(len(prompt))] * 4 for prompt, _ in pairs]  # words and a full stop

    subject = nbsal.load(nbsal.Endpoint(score))
    reading = reading_of(subject, PROMPT)
    experiment = hide(subject, reading, reading.units("sentence"))
    values = experiment.numbers([[True, False, True], [True, True, True]])
    prompts = ["Mara lives in Oslo. Boris lives in Rouen.", PROMPT]
    assert [prompt for prompt, _ in asked] == prompts
    assert values[:, 0].tolist() == [-float(len(prompt)) for prompt in prompts]
    experiment.with_units(reading.units("sentence")[:2]).numbers([[True, True]])
    assert len(asked) == 2, "the whole prompt was asked about before"


def test_another_way_to_hide_is_another_experiment(small):
    (row,) = small.encode(["A warm and funny film."])
    shared = Ablation(small)

    def without(ablation, way):
        return Experiment(ablation, DecisionText(small, row, way=way), [[place] for place in row.content]).without([1])

    for way in ("remove", "mask", "pad", 7):
        assert torch.equal(without(shared, way), without(Ablation(small), way))
    assert shared.forwards == 4
