"""Predictions share their way back through the last block only where that works position by position."""

import torch

import nbsal
from nbsal.passes import last_block
from tests import axioms
from tests.answers import writers
from tests.cases import cases


def scores(subject, method):
    return nbsal.answer(subject, writers.SOURCE, writers.REPLY * 2, method=method, progress=False, check=False).scores


def mix_positions(module, args, kwargs, output):
    return output + 0.1 * output.roll(1, 1) if isinstance(output, torch.Tensor) else (output[0].cumsum(1), *output[1:])


@cases("name, method", [("llama", "attn-lrp"), ("gpt2", "gradxact"), ("gemma2", "gradxact"), ("qwen3", "attn-lrp")])
def test_scores_are_those_of_each_prediction_by_itself(monkeypatch, name, method):
    subject, used = writers.load(name), []
    starts = last_block.starts
    monkeypatch.setattr(last_block, "starts", lambda *args: used.append(starts(*args)) or used[-1])
    shared = scores(subject, method)
    assert [starts is not None for starts in used] == [True] * (name != "gemma2"), "eager attention shows no call"
    monkeypatch.setattr(last_block, "FEWEST", 1000)
    assert axioms.relative(shared, scores(subject, method)) < 1e-6


def test_a_block_that_mixes_positions_after_its_attention_is_left_alone(monkeypatch):
    subject, used = writers.load("llama"), []
    handle = subject.blocks[-1].mlp.register_forward_hook(mix_positions, with_kwargs=True)
    starts = last_block.starts
    monkeypatch.setattr(last_block, "starts", lambda *args: used.append(starts(*args)) or used[-1])
    mixed = scores(subject, "gradxact")
    assert used == [None]
    monkeypatch.setattr(last_block, "FEWEST", 1000)
    assert axioms.relative(mixed, scores(subject, "gradxact")) == 0
    handle.remove()
