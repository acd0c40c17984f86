"""Tokens that are left out, masked and replaced, against one slow forward pass for each subset."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation.decision import filler_id
from nbsal.ablation.engine import Ablation
from nbsal.ablation.known import known_of
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import UnknownName
from tests import axioms, zoo
from tests.ablation.runs import logits_of
from tests.raising import refuses

NOT_DROPPABLE = {"deberta-v2", "mpnet"}  # they measure distances by index


def coalitions(row, count=4, seed=0):
    """Random coalitions of the content tokens, the empty one and the full one; special tokens always stay."""
    random = np.random.default_rng(seed).random((count, len(row))) < 0.5
    table = np.vstack([random, np.zeros((1, len(row)), bool), np.ones((1, len(row)), bool)])
    return table | np.array(row.special)


def masked_in_place(subject, row, coalition, filler, attended):
    """The logits of one forward pass with hidden tokens replaced in place, and attended to or not."""
    ids = tuple(token if stays else filler for token, stays in zip(row.ids, coalition, strict=True))
    mask = row.mask if attended else tuple(int(stays) for stays in coalition)
    inputs = subject.inputs(Encoded([replace(row, ids=ids, mask=mask)], 0))
    inputs["position_ids"] = torch.arange(len(row))[None] + zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    with torch.no_grad():
        return subject.logits(inputs)[0]


def check_removed(subject, row, logits):
    """The logits are those of tokens that nobody attends to."""
    for coalition, ours in zip(coalitions(row), logits, strict=True):
        truth = masked_in_place(subject, row, coalition, subject.tokenizer.mask_token_id, attended=False)
        assert torch.allclose(ours, truth, atol=1e-5 * float(truth.abs().max().clamp(1)))


@pytest.mark.some(6)
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_removed_tokens_are_tokens_that_nobody_attends_to(load, architecture):
    subject = load(architecture, dtype="float32")
    rows = list(subject.encode(axioms.TEXTS))
    ablation, tables = Ablation(subject), [coalitions(row) for row in rows]
    for row, logits in zip(rows, logits_of(subject, rows, tables, ablation=ablation), strict=True):
        check_removed(subject, row, logits)
    before = ablation.forwards
    logits_of(subject, rows[::-1], tables[::-1], ablation=ablation)
    assert ablation.forwards == before  # no subset is run twice
    assert known_of(subject).leaving_out.holds(len(rows[1])) is (architecture not in NOT_DROPPABLE)


def test_a_text_that_is_being_typed_is_not_tested_with_every_letter(monkeypatch):
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    tested, test = [], Ablation._leaves_out_exactly
    monkeypatch.setattr(Ablation, "_leaves_out_exactly", lambda self, text: tested.append(text.row) or test(self, text))
    texts = ["A bore.", "A bore, and a joy.", "A bore."]
    rows = [subject.encode(text)[0] for text in texts]
    for row in rows:
        (logits,) = logits_of(subject, [row], [coalitions(row)])
        check_removed(subject, row, logits)
    assert len(tested) == 1 and len(tested[0]) >= len(rows[1]) > len(rows[0])
    axioms.change_weights(subject.model)
    logits_of(subject, rows[:1], [coalitions(rows[0])])
    assert len(tested) == 2, "another model may measure distances otherwise"


def test_beyond_a_local_window_tokens_are_masked_in_place(load):
    subject = load("modernbert", dtype="float32")
    short, long = subject.encode(["A bore.", " ".join(axioms.TEXTS)])
    (logits, _) = logits_of(subject, [long, short], [coalitions(long), coalitions(short)])
    check_removed(subject, long, logits)
    known = known_of(subject).leaving_out
    assert known.holds(len(short)) and not known.holds(len(long))


@pytest.mark.parametrize("first", [0, 2])
def test_without_known_positions_tokens_are_masked_in_place(load, monkeypatch, first):
    """As for an architecture whose positions start elsewhere."""
    subject = load("roberta", dtype="float32")
    row = subject.encode(axioms.TEXTS[0])[0]
    monkeypatch.setattr(nbsal.model.running.architecture, "first_position", lambda model: first)
    fresh = nbsal.load(copy.deepcopy(subject.model), tokenizer=subject.tokenizer)
    (logits,) = logits_of(fresh, [row], [coalitions(row)])
    check_removed(subject, row, logits)
    monkeypatch.setattr(Ablation, "_counts_like_us", lambda self, text: True)
    other = nbsal.load(copy.deepcopy(subject.model), tokenizer=subject.tokenizer)
    (wrong,) = logits_of(other, [row], [coalitions(row)])
    assert not torch.allclose(wrong, logits, atol=1e-2)


@pytest.mark.parametrize("architecture", ["deberta-v2", "bert"])
def test_hidden_positions_do_not_attend_to_padding(load, architecture):
    """In DeBERTa a hidden token attends to everything equally, the padding of its batch included."""
    subject = load(architecture, "token")
    rows = list(subject.encode(axioms.TEXTS))
    tables = [~np.eye(len(row), dtype=bool)[list(row.content)] for row in rows]
    for row, table, ours in zip(rows, tables, logits_of(subject, rows, tables), strict=True):
        assert axioms.relative(ours, logits_of(subject, [row], [table])[0]) < 1e-9


def test_a_pooling_decoder_reads_the_last_visible_token(load):
    subject = load("gpt2", dtype="float32")
    row = subject.encode("A warm and funny joy.")[0]
    bare = row.pick(row.content)
    table = np.ones((2, len(bare)), bool)
    table[0, -2:] = False
    table[1] = False
    (logits,) = logits_of(subject, [bare], [table])
    with torch.no_grad():
        truth = subject.logits(subject.inputs(Encoded([bare.pick(range(len(bare) - 2))], 0)))[0]
    assert torch.allclose(logits[0], truth, atol=1e-5)
    assert torch.isfinite(logits[1]).all()


def test_the_cache_is_emptied_when_weights_change():
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    row = subject.encode(axioms.TEXTS[0])[0]
    ablation = Ablation(subject)
    (before,) = logits_of(subject, [row], [coalitions(row)], ablation=ablation)
    axioms.change_weights(subject.model)
    (after,) = logits_of(subject, [row], [coalitions(row)], ablation=ablation)
    assert torch.equal(after, logits_of(subject, [row], [coalitions(row)])[0])
    assert not torch.allclose(after, before, atol=1e-2)


def test_invalid_arguments(load):
    subject = load("bert", dtype="float32")
    row = subject.encode("A bore.")[0]
    with refuses("way", UnknownName) as caught:
        filler_id(subject, "blur")
    assert caught.value.valid[:3] == ("remove", "mask", "pad")
    with refuses("way"):
        filler_id(subject, 10**6)
    with refuses("subsets"):
        logits_of(subject, [row], [[1, 0]])
    bare = nbsal.load(subject.model)
    bare.tokenizer = None
    with refuses("way"):
        filler_id(bare, "mask")
