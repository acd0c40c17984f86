"""Units of the sources hidden: dropped, masked and literal runs agree, no subset is run twice, scores are judged."""

import itertools

import numpy as np
import pytest
import torch

import nbsal
from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import read_prompt, tokenize_reply, with_reply
from nbsal.answers.sources import parse_prompt
from nbsal.errors import ModelError
from nbsal.model import prefixes
from nbsal.model.target import number_of
from tests import axioms
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

PROMPT = "The film is a joy. The plot is a bore. Ann wrote the book. Ben read it."


def reading_of(subject, prompt=PROMPT, reply=" Ann wrote it."):
    read = read_prompt(subject, parse_prompt(prompt, []), None, None)
    return with_reply(subject, read, tokenize_reply(subject, read, reply)[0])


def masked_by_hand(subject, reading, hidden):
    """Log-probabilities of the reply with some positions hidden by the attention mask, everything in place."""
    ids = torch.tensor([reading.row.ids])
    mask = torch.ones_like(ids)
    mask[0, hidden] = 0
    with torch.no_grad():
        logits = subject.model(ids, attention_mask=mask, use_cache=False).logits[0]
    values = []
    for at in range(reading.start, len(reading.row)):
        before = max(i for i in range(at) if mask[0, i])
        values.append(float(logits[before].log_softmax(-1)[reading.row.ids[at]]))
    return values


@cases("name", writers.MODELS)
def test_hidden_units_are_as_if_nobody_attended_to_them(name):
    subject = writers.load(name)
    reading = reading_of(subject, f"{PROMPT} {PROMPT}")
    units = reading.units("sentence")
    hiding = Hiding(subject, reading, units)
    subsets = np.array(list(itertools.product([True, False], repeat=len(units))))[:8]
    values = hiding.values(subsets)
    for subset, row in zip(subsets, values, strict=True):
        hidden = [
            token for unit, stays in zip(units, subset, strict=True) for token in unit.tokens if not stays and token
        ]
        assert row == pytest.approx(masked_by_hand(subject, reading, hidden), abs=1e-9)
    assert (hiding.way == "masked in place") == (name == "gemma2"), "its windows count places, not positions"


def test_a_window_that_holds_hidden_tokens_only_is_named():
    subject = writers.load("gemma2")
    subject.model.config.sliding_window = 4
    reading = reading_of(subject)
    with pytest.raises(ModelError) as caught:
        Hiding(subject, reading, reading.units("sentence")).values([[False] * 4])
    assert caught.value.part == "attention mask"


def test_no_subset_is_run_twice_and_all_tokens_come_from_each(forwards):
    subject = writers.load()
    reading = reading_of(subject)
    hiding = Hiding(subject, reading, reading.units("sentence"))
    table = ~np.eye(4, dtype=bool)
    assert hiding.values(table).shape == (4, len(reading.reply_ids)) and hiding.forwards == 4
    hiding.values(np.concatenate([table, np.ones((1, 4), dtype=bool)]))
    assert hiding.forwards == 5
    result = nbsal.answer(subject, PROMPT, " Ann wrote it.", method="occlusion", progress=False)
    assert result.provenance["subsets"] == 5, "one for each of four units, and one with all"


def test_a_batch_equals_its_singles():
    subject = writers.load(dtype=torch.float32)
    reading = reading_of(subject)
    subsets = np.array(list(itertools.product([True, False], repeat=4)))
    together = Hiding(subject, reading, reading.units("sentence")).values(subsets)
    alone = [Hiding(subject, reading, reading.units("sentence")).values(subset[None])[0] for subset in subsets]
    assert np.abs(together - np.stack(alone)).max() < 1e-5


@pytest.mark.parametrize("way", ["remove", "text", 7])
@pytest.mark.parametrize("name", writers.MODELS)
def test_a_prompt_is_read_once_up_to_the_first_change(monkeypatch, name, way):
    monkeypatch.setattr(prefixes, "LEAST_SAVED", 0)
    subject = writers.load(name)
    reading = reading_of(subject, f"{PROMPT} {PROMPT}")
    units = reading.units("word")
    table, results, computed = ~np.eye(len(units), dtype=bool), [], []

    def count(module, args, kwargs):
        hidden = args[0] if args else kwargs["hidden_states"]
        computed[-1] += hidden.shape[0] * hidden.shape[1]

    subject.blocks[0].register_forward_pre_hook(count, with_kwargs=True)
    for reuses in (None, False):
        hiding = Hiding(subject, reading, units, way)
        hiding._reuses = reuses
        computed.append(0)
        results.append(hiding.values(table))
        assert hiding._reuses is not None and hiding._reuses == (reuses is None)
    assert np.abs(results[0] - results[1]).max() < 1e-10 * np.ptp(results[1], 0).max()
    assert computed[0] < 0.8 * computed[1]


def test_a_writer_that_looks_ahead_reads_the_whole_prompt(monkeypatch):
    monkeypatch.setattr(prefixes, "LEAST_SAVED", 0)
    subject = writers.load()
    reading = reading_of(subject)
    values = []
    subject.blocks[1].register_forward_pre_hook(lambda module, args: (args[0] + args[0].mean(1, True), *args[1:]))
    for reuses in (None, False):
        hiding = Hiding(subject, reading, reading.units("word"), 7)
        hiding._reuses = reuses
        values.append(hiding.values(~np.eye(len(hiding.units), dtype=bool)))
        assert not hiding._reuses
    assert axioms.relative(*values) < 1e-9


def test_shapley_values_sum_to_the_change():
    subject = writers.load()
    result = nbsal.answer(subject, PROMPT, " Ann wrote it.", method="shapley", progress=False)
    hiding = Hiding(subject, result.reading, result.units)
    empty, full = hiding.values([[False] * 4, [True] * 4])
    assert result.unit_scores().sum(1) == pytest.approx(full - empty, abs=1e-6)


@cases("number", ["logprob", "logit", "logit-prob"])
def test_numbers(number):
    logits = torch.tensor([[0.0, 2.0, -1.0], [0.0, 800.0, 0.0]])
    values = number_of(logits, torch.tensor([1, 1]), number)
    p = float(logits[0].softmax(0)[1])
    expected = {"logit": 2.0, "logprob": np.log(p), "logit-prob": np.log(p / (1 - p))}[number]
    assert float(values[0]) == pytest.approx(expected, rel=1e-5) and torch.isfinite(values).all()


def test_units_are_judged_against_random_orders():
    subject = writers.load()
    prompt = PROMPT + " Prices fell on Monday. The striker scored twice. It was warm."
    results = nbsal.answer(subject, prompt, " Ann wrote it.", method=["shapley", "random"], progress=False)
    judged = {name: result.judge(random=12, subsets=20) for name, result in results.items()}
    exact = judged["shapley"]
    assert exact.drop >= exact.random_drops.mean() and exact.rank_correlation > 0.8
    assert -1 <= judged["random"].rank_correlation <= 1
    frame = exact.frame()
    hiding = Hiding(subject, results["shapley"].reading, results["shapley"].units)
    best = int(results["shapley"].unit_scores().sum(0).argmax())
    stays = np.arange(7) != best
    full, without = hiding.values([[True] * 7, stays])
    assert frame["value"][0] == pytest.approx(full.sum() - without.sum())
    drops = results["shapley"].sources(7, "reply")["drop"]
    assert drops[0] == pytest.approx(full.sum() - without.sum()) and drops.notna().any()
    part = exact.of("Ann")
    assert part.curve[0] == pytest.approx(exact.hidden[0, list(part.tokens)].sum())
    assert len(exact.plot().lines) == 2 and frame.attrs["finding"] in repr(exact)
    with refuses("unit"):
        nbsal.answer(subject, "One unit", " Ann.", progress=False).judge()
