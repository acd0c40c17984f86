"""The lens: the last layer says what the model says, and ranks are those of the vocabulary."""

import pytest
import torch

import nbsal
from nbsal.answers import lens
from nbsal.errors import UnknownName
from nbsal.model.tokenize import token_name
from tests.answers import writers
from tests.raising import refuses

PROMPT = "The film is a joy. Who wrote the book?"


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("size", [64, 8192])
def test_the_last_layer_says_what_the_model_says(monkeypatch, name, size):
    monkeypatch.setattr(lens, "VOCABULARY", size)
    subject = writers.load(name)
    answer = nbsal.answer(subject, PROMPT, " Ann wrote it.", progress=False)
    frame = answer.lens(k=3)
    last = frame[frame["layer"] == subject.depth]
    assert last["logprob"].to_numpy() == pytest.approx(answer.statistics.logprob, abs=1e-5)
    assert last["rank"].tolist() == answer.statistics.rank.tolist()
    assert len(frame) == (subject.depth + 1) * len(answer.ids)
    with torch.no_grad():
        ids = torch.tensor([answer.reading.row.ids])
        states = subject.model(ids, output_hidden_states=True).hidden_states
        logits = subject.lm_head.logits(
            subject.lm_head.features(states[1][0, answer.reading.start - 1 : -1]), torch.arange(400)
        )
    first = frame[frame["layer"] == 1]
    expected = [(row > row[i]).sum().item() + 1 for row, i in zip(logits, answer.ids, strict=True)]
    assert first["rank"].tolist() == expected
    assert [len(best) for best in first["best"]] == [3] * len(answer.ids)


def test_layers_are_chosen():
    answer = nbsal.answer(writers.load(), PROMPT, " Ann.", progress=False)
    assert set(answer.lens([0, 2])["layer"]) == {0, 2}
    with refuses("layers", UnknownName):
        answer.lens([9])


@pytest.mark.parametrize("load", [writers.load, writers.load_sides])
def test_a_layer_speaks_of_the_prompts_tokens(load):
    subject = load()
    answer = nbsal.answer(subject, PROMPT, " Ann wrote it.", method="random", progress=False)
    last = answer.lens()["layer"].max()
    frame = answer.speaks(last, 1, tau=4)
    assert len(frame) == 4 and frame["probability"].is_monotonic_decreasing
    for name, chance, positions in frame.itertuples(index=False):
        index = answer.reading.prompt.ids[positions[0]]
        assert {answer.reading.prompt.ids[position] for position in positions} == {index}
        assert name == token_name(subject.tokenizer, index)
        same = nbsal.answer(subject, PROMPT, [answer.ids[0], index], method="random", progress=False)
        assert chance == pytest.approx(same.tokens()["probability"][1], rel=1e-4), "the last layer is the model"
    with refuses("layers", UnknownName):
        answer.speaks(99, 1)
    with refuses("tau"):
        answer.speaks(0, 1, tau=0)
