"""The float64 copy of a model: its scores are those of a whole copy, and it shares the weights of blocks."""

import copy

import pytest

import nbsal
from nbsal.methods import alti
from nbsal.testing.state import snapshot
from tests import axioms, zoo


def whole_copy(subject):
    return nbsal.load(copy.deepcopy(subject.model).double(), tokenizer=subject.tokenizer)


@pytest.mark.some(2)
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_scores_are_those_of_a_whole_copy(load, architecture):
    subject = load(architecture, dtype="float32", decoding=False)
    truth = whole_copy(subject)
    for name in ("gradxact", "gae", "lrp", "attn-lrp", "occlusion", "alti"):
        if name == "alti" and architecture not in alti.PARTS:
            continue
        ours, theirs = (nbsal.Explainer(s, name)(axioms.TEXTS[0]) for s in (subject.double, truth))
        assert ours.scores.dtype == theirs.scores.dtype and axioms.relative(ours.scores, theirs.scores) < 1e-12, name


def test_a_block_that_fails_gets_its_own_weights_back(load):
    subject = load("bert", dtype="float32")
    before = snapshot(subject.double)

    def fail(module, args):
        raise RuntimeError

    handle = subject.double.blocks[1].attention.register_forward_pre_hook(fail)
    hooked = snapshot(subject.double)
    with pytest.raises(RuntimeError):
        nbsal.Explainer(subject.double, "gradxact")(axioms.TEXTS[0])
    assert snapshot(subject.double) == hooked
    handle.remove()
    assert snapshot(subject.double) == before
