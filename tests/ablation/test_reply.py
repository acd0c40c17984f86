"""Units of the sources hidden: dropped, masked and literal runs agree, no subset is run twice, scores are judged."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation import reuse
from nbsal.ablation.engine import Ablation
from nbsal.ablation.known import known_of
from nbsal.ablation.reply import ReplyText
from nbsal.ablation.texts import TEXT
from nbsal.model.subject import Subject
from nbsal.model.target import number_of
from nbsal.support.errors import ModelError
from tests import axioms
from tests.ablation.runs import hide
from tests.answers import writers
from tests.answers.writers import reading_of

PROMPT = "The film is a joy. The plot is a bore. Ann wrote the book. Ben read it."


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


def test_a_window_that_holds_hidden_tokens_only_is_named():
    subject = writers.load("gemma2")
    subject.model.config.sliding_window = 4
    reading = reading_of(subject, PROMPT)
    with pytest.raises(ModelError) as caught:
        hide(subject, reading, reading.units("sentence")).numbers([[False] * 4])
    assert caught.value.part == "attention mask"


def test_no_subset_is_run_twice_and_a_batch_equals_its_singles():
    subject = writers.load(dtype=torch.float32)
    reading = reading_of(subject, PROMPT)
    experiment = hide(subject, reading, reading.units("sentence"))
    table = ~np.eye(4, dtype=bool)
    together = experiment.numbers(table)
    assert together.shape == (4, len(reading.reply_ids)) and experiment.ablation.forwards == 4
    experiment.numbers(np.concatenate([table, np.ones((1, 4), dtype=bool)]))
    assert experiment.ablation.forwards == 5
    alone = [hide(subject, reading, reading.units("sentence")).numbers(subset[None])[0] for subset in table]
    assert np.abs(together - np.stack(alone)).max() < 1e-5


@pytest.mark.parametrize("way", ["remove", "text", 7])
@pytest.mark.parametrize("name", writers.MODELS)
def test_a_prompt_is_read_once_up_to_the_first_change(monkeypatch, name, way):
    monkeypatch.setattr(reuse, "LEAST_SAVED", 0)
    subject = writers.load(name)
    reading = reading_of(subject, f"{PROMPT} joy joy joy joy {PROMPT}")
    units = reading.units("word")
    table, results, computed = np.vstack([~np.eye(len(units), dtype=bool), np.ones(len(units), dtype=bool)]), [], []

    def count(module, args, kwargs):
        hidden = args[0] if args else kwargs["hidden_states"]
        computed[-1] += hidden.shape[0] * hidden.shape[1]

    subject.blocks[0].register_forward_pre_hook(count, with_kwargs=True)
    for reuses in (True, True, False):  # the first one tests the model too
        monkeypatch.setattr(reuse, "can_reuse", lambda subject, reuses=reuses: reuses)
        computed.append(0)
        results.append(hide(subject, reading, units, way).numbers(table))
        assert known_of(subject).reuse.holds(len(reading.row))
    assert np.abs(results[1] - results[2]).max() < 1e-10 * np.ptp(results[2], 0).max()
    assert computed[1] < 0.8 * computed[2] and computed[1] < computed[0]


def test_a_writer_that_looks_ahead_reads_the_whole_prompt(monkeypatch):
    monkeypatch.setattr(reuse, "LEAST_SAVED", 0)
    subject = writers.load()
    reading = reading_of(subject, PROMPT)
    values = []
    subject.blocks[1].register_forward_pre_hook(lambda module, args: (args[0] + args[0].mean(1, True), *args[1:]))
    for reuses in (True, False):
        monkeypatch.setattr(reuse, "can_reuse", lambda subject, reuses=reuses: reuses)
        experiment = hide(subject, reading, reading.units("word"), 7)
        values.append(experiment.numbers(~np.eye(len(experiment.units), dtype=bool)))
        assert not known_of(subject).reuse.holds(len(reading.row))
    assert axioms.relative(*values) < 1e-9


def test_numbers():
    logits = torch.tensor([[0.0, 2.0, -1.0], [0.0, 800.0, 0.0]])
    p = float(logits[0].softmax(0)[1])
    for number, expected in {"logit": 2.0, "logprob": np.log(p), "logit-prob": np.log(p / (1 - p))}.items():
        values = number_of(logits, torch.tensor([1, 1]), number)
        assert float(values[0]) == pytest.approx(expected, rel=1e-5) and torch.isfinite(values).all()


def test_the_whole_text_is_read_once_and_then_forgotten(monkeypatch):
    """By the statistics of the reply, its method and its check, once the model is known to allow it."""
    monkeypatch.setattr(reuse, "LEAST_SAVED", 0)
    subject, whole, logits = writers.load(), [], Subject.logits
    documents = [f"The film number {number} is a joy. " * 3 for number in range(6)]

    def answer():
        return nbsal.answer(subject, "Why?", " Ann wrote it.", documents=documents, method="occlusion", progress=False)

    size = len(answer().reading.row)
    monkeypatch.setattr(
        Subject, "logits", lambda self, inputs: whole.append(inputs["input_ids"].shape[1]) or logits(self, inputs)
    )
    result = answer()
    assert whole.count(size) == 1
    assert not result.running.experiment.ablation._texts, "its keys and values take memory"


def test_a_prompt_that_is_written_anew_does_not_go_on_from_another(monkeypatch):
    """As where a template writes the time: its whole prompt has other tokens than the one that was read."""
    monkeypatch.setattr(reuse, "LEAST_SAVED", 0)
    subject = writers.load()
    reading = reading_of(subject, f"{PROMPT} {PROMPT}")
    ids, units = np.array(reading.prompt.ids), reading.units("word")

    def write(stays):
        return tuple(np.where(ids == ids[0], ids, ids[::-1])[stays[: len(ids)]].tolist())

    text = ReplyText(subject, reading.row, reading.start, way=TEXT, write=write)
    plain = ReplyText(subject, reading.row, reading.start)
    table = np.ones((len(units), len(reading.row)), dtype=bool)
    for subset, unit in zip(table, units, strict=True):
        subset[list(unit.tokens)] = False
    (truth,) = Ablation(subject).values([text], [table])
    together = Ablation(subject)
    with together.reading_once():
        together.outputs(plain)
        (values,) = together.values([text], [table])
    assert known_of(subject).reuse.holds(len(reading.row))
    assert axioms.relative(values, truth) < 1e-9
