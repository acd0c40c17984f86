"""Information flow routes: the numbers of Pan et al.'s program, a slow replica of every kind of block, spans, copies.

`tests/data/golden/ifr.npz` holds what flashtrace 0.1.1 (MIT) computes on the models of `published_model` with its
functions `compute_ifr_sentence_aggregate` (span), `compute_ifr_for_all_positions` (all) and `compute_multi_hop_ifr`
(observation["sum"]), where it rounds to float32 in between replaced by float64.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.methods import catalogue
from nbsal.model.target import Target
from nbsal.passes import plan, reply_trace, trace
from tests import axioms, golden, zoo
from tests.raising import refuses_part

VALUES = np.load(golden.FOLDER / "ifr.npz")
SIZES = zoo.SIZES | {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50}
IDS = [7, 41, 3, 18, 22, 9, 33, 12, 45, 28, 16, 5, 38, 24, 11, 30]
SPAN, THINKING = (10, 13), (5, 9)  # first and last position
IFR = catalogue.create("ifr")


def published_model(kind):
    """A tiny decoder with grouped heads, whose weights are the same with every version of torch."""
    config = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[kind](**SIZES)
    model, random = transformers.AutoModelForCausalLM.from_config(config).double().eval(), np.random.RandomState(0)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            weight.copy_(torch.tensor(random.normal("norm" in name, 0.3, weight.shape)))
    return model


def read(record, weights):
    """The scores of the first text for a target whose terms have those weights, by position."""
    target = Target("span", tuple(((int(position), 0), float(weight)) for position, weight in weights.items()))
    decision = replace(record.decisions[0], target=target)
    return IFR.scores(replace(record, decisions=[decision], cache=dict(record.cache)))[0].numpy()


def after_hops(record, count):
    """What the span receives from the prompt, directly and through the positions of THINKING, as Pan et al. sum it."""
    (first, last), thinking = SPAN, range(THINKING[0], THINKING[1] + 1)
    scores = read(record, dict.fromkeys(range(first, last + 1), 1))
    result, ratio = scores.copy(), 1.0
    for _ in range(count):
        ratio *= scores[thinking].sum() / scores.sum()
        scores = read(record, dict(zip(thinking, scores[thinking], strict=True)))
        result += ratio * scores
    result[THINKING[0] :] = 0
    return result


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_scores_are_those_of_the_published_program(kind, stream):
    subject = nbsal.load(published_model(kind))
    record = trace.record(subject, subject.encode_ids([IDS]), needs=IFR.needs, stream=stream)
    span = read(record, dict.fromkeys(range(SPAN[0], SPAN[1] + 1), 1))
    assert axioms.relative(span, VALUES[f"{kind} span"]) < 1e-6 and not span[SPAN[1] + 1 :].any()
    for position, row in enumerate(VALUES[f"{kind} all"]):
        assert axioms.relative(read(record, {position: 1}), row) < 1e-6
    for count in (1, 2, 5):
        assert axioms.relative(after_hops(record, count), VALUES[f"{kind} {count} hops"]) < 1e-6
