"""Parts of a reply at every layer, and the lens: each layer is the answer of that layer, the last is the model."""

import pytest
import torch

import nbsal
from nbsal.explain.scoring import statistics
from nbsal.model.text.tokenize import token_name
from nbsal.support.errors import UnknownName
from nbsal.widgets import Layers
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE
from tests.cases import cases
from tests.raising import refuses

SPAN = slice(1, 4)


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in ("llama", "t5")}


def answer(subject, method="gradxact", **options):
    return nbsal.Explainer(subject, method, **options).reply(SOURCE, REPLY, progress=False)


@cases("name, method", [("llama", "gradxact"), ("t5", "gradxact"), ("llama", "gradcam"), ("t5", "gradcam")])
def test_every_layer_of_a_span_is_the_span_at_that_layer(subjects, name, method):
    subject = subjects[name]
    span = answer(subject, method, layer=1).of(SPAN)
    layers = span.every_layer()
    assert layers.scores.shape == (subject.depth + 1, len(span.row))
    for layer in range(subject.depth + 1):
        expected = answer(subject, method, layer=layer).of(SPAN)
        assert axioms.relative(layers.at(layer).scores, expected.scores) < 1e-6
    assert (layers.target, layers.prediction, layers.text) == (span.target, span.prediction, span.text)
    assert layers.probabilities == span.probabilities and layers.provenance["parameters"]["layer"] == "every"


def test_the_layers_view_shows_a_span_and_a_rival(subjects, tmp_path):
    result = answer(subjects["llama"], layer=1)
    span, rival = result.of(SPAN), result.rather(9, 2)
    assert axioms.relative(rival.every_layer().scores[1], rival.scores) < 1e-6
    view = Layers(span).wait()
    assert (view.result.scores == span.every_layer().scores).all() and view.layer == view.chosen == 1
    assert view.result.target == span.target and view.result.target in view.to_html()
    assert Layers(span, layer=2).wait().chosen == 2
    with refuses("method"):
        Layers(answer(subjects["llama"], "gae").of(SPAN))
    span.save(tmp_path / "span.json")
    loaded = type(span).load(tmp_path / "span.json")
    assert (loaded.scores == span.scores).all()
    with refuses("span"):
        Layers(loaded)


RIVAL = "the film is dull ."


@cases("name, method", [("llama", "gradxact"), ("t5", "gae"), ("llama", "occlusion"), ("t5", "gradxact")])
def test_another_reply_is_the_difference_of_both(subjects, name, method):
    result, other = answer(subjects[name], method), nbsal.Explainer(subjects[name], method).reply(SOURCE, RIVAL)
    against = result.rather(RIVAL)
    start = result.reading.start
    whole = [one.running.score_sum(one.reading.content)[:start] for one in (result, other)]
    assert axioms.relative(against.scores, whole[0] - whole[1]) < 1e-6
    assert len(against.row) == start and " - " in against.target
    with refuses("span"):
        against.every_layer()


@cases("rival, argument", [(9, "token"), ("", "reply"), ("the film " * 500, "token")])
def test_another_reply_is_checked(subjects, rival, argument):
    with refuses(argument):
        answer(subjects["llama"]).rather(rival)


@cases("name, size", [("llama", 64), ("gpt2", 8192), ("gemma2", 64)])
def test_the_last_layer_says_what_the_model_says(monkeypatch, name, size):
    monkeypatch.setattr(statistics, "VOCABULARY", size)
    subject = writers.load(name)
    result = nbsal.answer(subject, SOURCE, " Ann wrote it.", progress=False)
    frame = result.lens(k=3)
    last = frame[frame["layer"] == subject.depth]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-5)
    assert last["rank"].tolist() == result.statistics.rank.tolist()
    assert len(frame) == (subject.depth + 1) * len(result.ids)
    with torch.no_grad():
        ids = torch.tensor([result.reading.row.ids])
        states = subject.model(ids, output_hidden_states=True).hidden_states
        logits = subject.lm_head.logits(
            subject.lm_head.features(states[1][0, result.reading.start - 1 : -1]), torch.arange(400)
        )
    (first,) = [part for _, part in result.lens([1], k=3).groupby("layer")]
    expected = [(row > row[i]).sum().item() + 1 for row, i in zip(logits, result.ids, strict=True)]
    assert first["rank"].tolist() == expected
    assert [len(best) for best in first["best"]] == [3] * len(result.ids)


@cases("name", ["llama", "t5"])
def test_a_layer_speaks_of_the_prompts_tokens(subjects, name):
    subject = subjects[name]
    result = nbsal.answer(subject, SOURCE, " Ann wrote it.", method="random", progress=False)
    last = result.lens()["layer"].max()
    frame = result.speaks(last, 1, tau=4)
    assert len(frame) == 4 and frame["probability"].is_monotonic_decreasing
    for name, chance, positions in frame.itertuples(index=False):
        index = result.reading.prompt.ids[positions[0]]
        assert {result.reading.prompt.ids[position] for position in positions} == {index}
        assert name == token_name(subject.tokenizer, index)
        same = nbsal.answer(subject, SOURCE, [result.ids[0], index], method="random", progress=False)
        assert chance == pytest.approx(same.tokens()["probability"][1], rel=1e-4), "the last layer is the model"
    with refuses("layers", UnknownName):
        result.speaks(99, 1)
    with refuses("tau"):
        result.speaks(0, 1, tau=0)
