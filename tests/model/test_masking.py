"""Hiding: dropping, masking in place and replacing against one slow forward a subset."""

from dataclasses import replace
from threading import Event
from weakref import WeakSet

import numpy as np
import pytest
import torch

import nbsal
from nbsal.errors import Cancelled, InputError, UnknownName
from nbsal.model.masking import MaskedModel
from nbsal.model.tokens import Encoded
from nbsal.progress import Meter
from tests import axioms, zoo

IN_PLACE = {"deberta-v2", "mpnet"}  # they measure distances by index


def subsets(row, count=4, seed=0):
    """Random subsets of the content tokens, none and all of them; special tokens stay."""
    drawn = np.random.default_rng(seed).random((count, len(row))) < 0.5
    table = np.vstack([drawn, np.zeros((1, len(row)), bool), np.ones((1, len(row)), bool)])
    return table | np.array(row.special)


def in_place(subject, row, kept, filler, attending):
    """The slow way: one forward with the hidden tokens replaced where they stand."""
    ids = tuple(token if stays else filler for token, stays in zip(row.ids, kept, strict=True))
    mask = row.mask if attending else tuple(int(stays) for stays in kept)
    inputs = subject.inputs(Encoded([replace(row, ids=ids, mask=mask)], 0))
    inputs["position_ids"] = torch.arange(len(row))[None] + zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    with torch.no_grad():
        return subject.logits(inputs)[0]


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_removed_tokens_are_those_nobody_attends_to(load, architecture):
    subject = load(architecture, dtype="float32")
    rows = list(subject.encode(axioms.TEXTS))
    tables = [subsets(row) for row in rows]
    masked_model = MaskedModel(subject)
    found = masked_model.logits(rows, tables)
    for row, table, logits in zip(rows, tables, found, strict=True):
        for kept, ours in zip(table, logits, strict=True):
            truth = in_place(subject, row, kept, subject.tokenizer.mask_token_id, attending=False)
            assert torch.allclose(ours, truth, atol=1e-5 * float(truth.abs().max().clamp(1)))
    assert masked_model._droppable.holds(len(rows[1])) is (architecture not in IN_PLACE)


def test_beyond_a_local_window_tokens_are_masked_in_place(load):
    subject = load("modernbert", dtype="float32")
    short, long = subject.encode(["A bore.", " ".join(axioms.TEXTS)])
    masked_model = MaskedModel(subject)
    (logits, _) = masked_model.logits([long, short], [subsets(long), subsets(short)])
    for kept, ours in zip(subsets(long), logits, strict=True):
        truth = in_place(subject, long, kept, subject.tokenizer.mask_token_id, attending=False)
        assert torch.allclose(ours, truth, atol=1e-5 * float(truth.abs().max().clamp(1)))
    assert masked_model._droppable.holds(len(short))
    assert not masked_model._droppable.holds(len(long))


def test_the_self_test_is_what_saves_deberta(load, monkeypatch):
    """A mutant without it is wrong."""
    subject = load("deberta-v2", dtype="float32")
    row = subject.encode(axioms.TEXTS[0])[0]
    monkeypatch.setattr(MaskedModel, "_drops", lambda self, row: True)
    (logits,) = MaskedModel(subject).logits([row], [subsets(row)])
    truth = in_place(subject, row, subsets(row)[0], subject.tokenizer.mask_token_id, attending=False)
    assert not torch.allclose(logits[0], truth, atol=1e-2)


@pytest.mark.parametrize("first", [0, 2])
def test_positions_that_we_take_for_others_are_left_to_the_model(load, monkeypatch, first):
    """A family whose positions begin elsewhere than we know: tokens are then masked where they stand."""
    subject = load("roberta", dtype="float32")
    row = subject.encode(axioms.TEXTS[0])[0]
    truth = [in_place(subject, row, kept, subject.tokenizer.mask_token_id, attending=False) for kept in subsets(row)]
    monkeypatch.setattr(nbsal.model.architecture, "first_position", lambda model: first)
    (logits,) = MaskedModel(subject).logits([row], [subsets(row)])
    assert torch.allclose(logits, torch.stack(truth), atol=1e-5 * float(logits.abs().max().clamp(1)))
    monkeypatch.setattr(MaskedModel, "_places", lambda self, row: True)
    (taken,) = MaskedModel(subject).logits([row], [subsets(row)])
    assert not torch.allclose(taken, logits, atol=1e-2)


@pytest.mark.parametrize(("way", "filler"), [("mask", 4), ("pad", 0), (7, 7)])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "modernbert"])
def test_tokens_put_in_the_place_of_others_are_seen(load, architecture, way, filler):
    subject = load(architecture, dtype="float32")
    row = subject.encode(axioms.TEXTS[0])[0]
    (logits,) = MaskedModel(subject, way).logits([row], [subsets(row)])
    for kept, ours in zip(subsets(row), logits, strict=True):
        assert torch.allclose(ours, in_place(subject, row, kept, filler, attending=True), atol=1e-5)


@pytest.mark.parametrize("head", ["span", "token", "causal"])
def test_decisions_at_positions_keep_every_position(load, head):
    subject = load("llama" if head == "causal" else "bert", head, dtype="float32")
    row = subject.encode(("Who wrote it?", "The film is a joy.") if head == "span" else axioms.TEXTS[0])[0]
    (logits,) = MaskedModel(subject).logits([row], [subsets(row)])
    assert logits.shape[1] == len(row)
    truth = in_place(subject, row, subsets(row)[0], subject.tokenizer.mask_token_id, attending=False)
    assert torch.allclose(logits[0], truth, atol=1e-5)


@pytest.mark.parametrize("architecture", ["deberta-v2", "bert"])
def test_a_hidden_position_that_is_read_does_not_see_padding(load, architecture):
    """In DeBERTa a hidden token attends to all there is alike, what pads its batch among it."""
    subject = load(architecture, "token")
    rows = list(subject.encode(axioms.TEXTS))
    tables = [~np.eye(len(row), dtype=bool)[list(row.content)] for row in rows]
    for row, table, ours in zip(rows, tables, MaskedModel(subject).logits(rows, tables), strict=True):
        assert axioms.relative(ours, MaskedModel(subject).logits([row], [table])[0]) < 1e-9


def test_a_pooling_decoder_decides_at_the_last_token_left(load):
    subject = load("gpt2", dtype="float32")
    row = subject.encode("A warm and funny joy.")[0]
    bare = row.pick(row.content)
    kept = np.ones((2, len(bare)), bool)
    kept[0, -2:] = False
    kept[1] = False
    (logits,) = MaskedModel(subject).logits([bare], [kept])
    with torch.no_grad():
        cut = subject.logits(subject.inputs(Encoded([bare.pick(range(len(bare) - 2))], 0)))[0]
    assert torch.allclose(logits[0], cut, atol=1e-5)
    assert torch.isfinite(logits[1]).all()


def test_no_subset_is_read_twice(load):
    subject = load("bert", dtype="float32")
    rows = list(subject.encode(axioms.TEXTS[:2]))
    masked_model = MaskedModel(subject)
    tables = [np.vstack([subsets(row), subsets(row)]) for row in rows]
    found = masked_model.logits(rows, tables)
    distinct = sum(len(np.unique(table, axis=0)) for table in tables)
    assert masked_model.forwards == distinct
    again = masked_model.logits(rows[::-1], [subsets(row) for row in rows[::-1]])
    assert masked_model.forwards == distinct
    assert torch.equal(again[0], found[1][: len(again[0])])


def test_inputs_are_made_batch_by_batch(load, monkeypatch):
    """Those of all subsets together once took most of the memory of a game."""
    monkeypatch.setattr("nbsal.model.masking.TOKENS", 40)
    subject = load("bert", dtype="float32")
    rows, alive, most = list(subject.encode(axioms.TEXTS)), WeakSet(), []
    made, run = MaskedModel._shown, MaskedModel._run
    monkeypatch.setattr(MaskedModel, "_shown", lambda *given: [shown := made(*given), alive.add(shown)][0])
    monkeypatch.setattr(MaskedModel, "_run", lambda *given, **named: most.append(len(alive)) or run(*given, **named))
    masked_model = MaskedModel(subject)
    masked_model.logits(rows, [subsets(row, count=30) for row in rows])
    assert masked_model.forwards > 60 and 1 < max(most) < 20


def test_a_cancelled_call_goes_on_where_it_stopped(load, monkeypatch):
    monkeypatch.setattr("nbsal.model.masking.TOKENS", 16)
    subject = load("bert", dtype="float32")
    rows = list(subject.encode(axioms.TEXTS))
    tables = [subsets(row) for row in rows]
    masked_model, cancel, total = MaskedModel(subject), Event(), sum(map(len, tables))
    distinct = sum(len(np.unique(table, axis=0)) for table in tables)
    with pytest.raises(Cancelled), Meter(total, lambda at, _: at > total - distinct and cancel.set(), cancel) as meter:
        masked_model.logits(rows, tables, meter)
    before = masked_model.forwards
    assert 0 < before < distinct
    seen = []
    with Meter(total, lambda *at: seen.append(at)) as meter:
        masked_model.logits(rows, tables, meter)
    assert seen[-1] == (total, total)
    assert masked_model.forwards == distinct


def test_what_was_read_is_forgotten_once_the_model_learns():
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    row = subject.encode(axioms.TEXTS[0])[0]
    masked_model = MaskedModel(subject)
    (before,) = masked_model.logits([row], [subsets(row)])
    axioms.change_weights(subject.model)
    (now,) = masked_model.logits([row], [subsets(row)])
    assert torch.equal(now, MaskedModel(subject).logits([row], [subsets(row)])[0])
    assert not torch.allclose(now, before, atol=1e-2)


def test_errors_say_the_way_out(load):
    subject = load("bert", dtype="float32")
    row = subject.encode("A bore.")[0]
    with pytest.raises(UnknownName, match="remove, mask, pad"):
        MaskedModel(subject, "blur")
    with pytest.raises(InputError, match="ids run from 0"):
        MaskedModel(subject, 10**6)
    with pytest.raises(InputError, match="table of what stays"):
        MaskedModel(subject).logits([row], [[1, 0]])
    bare = nbsal.load(subject.model)
    bare.tokenizer = None
    with pytest.raises(InputError, match="no mask token"):
        MaskedModel(bare, "mask")
