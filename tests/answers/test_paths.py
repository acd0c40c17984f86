"""Path methods on replies: one path for all tokens, each row that of its token alone, and complete within its gap."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.scoring import running
from nbsal.methods.upper_layers import UpperLayers
from nbsal.model.text.tokens import Encoded
from nbsal.passes import reply_trace
from tests import axioms
from tests.answers import writers
from tests.answers.test_rows import check_row
from tests.answers.writers import REPLY, SOURCE, answer, cancelled
from tests.cases import cases

METHODS = {
    "integrated": {"steps": 4},
    "integrated adapts": {"steps": 3, "tolerance": 0.05},
    "integrated zero": {"steps": 4, "baseline": "zero"},
    "integrated pad": {"steps": 3, "baseline": "pad"},
    "gradient-shap": {"samples": 5, "baselines": ("mean", "pad")},
    "deeplift-shap": {},
    "smooth": {"samples": 3, "noise": 0.1},
}
NAMES = (*writers.MODELS, "t5", "bart")


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in NAMES}


def explained(subject, method, layer=0, **settings):
    return answer(subject, method.split()[0], options=METHODS[method] | {"layer": layer}, check=False, **settings)


@pytest.mark.some(5)
@pytest.mark.parametrize("layer", [0, 2, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method, layer):
    explain, result = explained(subjects[name], method, layer)
    for token in (0, 3):
        alone = check_row(explain, result, token)
        if method != "smooth":
            for entry in ("change", "gap", *["points"] * ("adapts" in method)):
                assert result.provenance[entry][token] == pytest.approx(alone.provenance[entry], abs=1e-8)


@cases("name", NAMES)
def test_all_tokens_share_the_forward_passes(subjects, forwards, monkeypatch, name):
    """Unless their features are too many: then they are summed in parts."""
    forwards.clear()
    explained(subjects[name], "integrated")
    own_states, mean_states, change, statistics = 1, 1, 1, 1
    assert len(forwards) == 4 + own_states + mean_states + change + statistics
    forwards.clear()
    whole = explained(subjects[name], "smooth")[1]
    assert len(forwards) == 3 + own_states + statistics
    forwards.clear()
    monkeypatch.setattr(reply_trace, "FEATURES", 2 * len(whole.reading.row) * 32)
    parts = explained(subjects[name], "smooth")[1]
    assert len(forwards) == 3 * -(-len(whole.ids) // 2) + own_states + statistics
    assert axioms.relative(parts.scores, whole.scores) < 1e-9


def test_a_long_reply_has_a_path_for_every_few_tokens(subjects, monkeypatch):
    explain = nbsal.Explainer(subjects["llama"], "integrated", steps=3)
    reply = " The company wrote it. " * 4
    whole = explain.reply("Who?", reply, progress=False)
    monkeypatch.setattr(running, "SHARED", 5)
    parts = explain.reply("Who?", reply, progress=False)
    assert axioms.relative(parts.scores, whole.scores) < 1e-7
    assert parts.provenance["gap"] == pytest.approx(whole.provenance["gap"], abs=1e-8)


def test_integrated_is_a_loop_over_points_of_the_embeddings(subjects):
    """Source and reply move together from the mean embedding; the first token stays."""
    subject, steps, token = subjects["llama"], 4, 3
    result = explained(subject, "integrated", number="logprob")[1]
    ids = torch.tensor([result.reading.row.ids[: result.reading.start + token]])
    table = subject.model.get_input_embeddings()
    states = table(ids).detach()
    base = table.weight.mean(0).expand_as(states).clone()
    base[:, 0] = states[:, 0]

    def value(embeddings):
        logits = subject.model(inputs_embeds=embeddings, use_cache=False).logits[0, -1]
        return logits.log_softmax(-1)[result.ids[token]]

    total = torch.zeros_like(states)
    for place, weight in zip(*np.polynomial.legendre.leggauss(steps), strict=True):
        point = (base + (1 + place) / 2 * (states - base)).detach().requires_grad_()
        total += weight / 2 * torch.autograd.grad(value(point), point)[0]
    expected = (total * (states - base)).sum(-1)[0].detach()
    assert axioms.relative(result.scores[token, : len(expected)], expected) < 1e-6
    assert result.scores[token, 0] == 0 != result.scores[token, 1]
    with torch.no_grad():
        change = float(value(states) - value(base))
    assert result.provenance["change"][token] == pytest.approx(change, abs=1e-6)


@cases("name", ["gpt2", "gemma2", "bart"])
def test_more_steps_close_the_gap(subjects, name):
    gaps = []
    for steps in (2, 24):
        result = answer(subjects[name], "integrated", options={"steps": steps})[1]
        changes, missed = np.array(result.provenance["change"]), np.array(result.provenance["gap"])
        assert result.scores.sum(1) == pytest.approx(changes + missed)
        gaps.append(np.abs(missed).sum() / np.abs(changes).sum())
        assert any("tolerance=" in note for note in result.notes()) == (gaps[-1] > 0.05)
        assert any(f"{100 * gaps[-1]:.1f}" in note for note in result.notes())
    assert gaps[1] < 0.02 and gaps[1] < gaps[0]


@pytest.mark.full
@cases("name", ["llama", "t5"])
def test_each_token_stops_by_its_own_gap(subjects, name):
    progress, options = [], METHODS["integrated adapts"]
    explain = nbsal.Explainer(subjects[name], "integrated", **options)
    result = explain.reply(SOURCE, REPLY, progress=lambda *at: progress.append(at))
    points, count = result.provenance["points"], len(result.ids)
    assert len(points) == count and len(set(points)) > 1 and progress[-1] == (count, count)
    gaps, changes = (np.abs(result.provenance[entry]) for entry in ("gap", "change"))
    assert (gaps <= options["tolerance"] * changes).all()
    for steps in set(points):
        fixed = answer(subjects[name], "integrated", options={"steps": steps})[1]
        same = [axioms.relative(result.scores[token], fixed.scores[token]) < 1e-9 for token in range(count)]
        assert same == [number == steps for number in points]
    assert "points" not in fixed.provenance and "points" not in result.of(0).provenance


def test_the_mean_is_that_of_what_the_table_of_embeddings_gives():
    """Marian scales its embeddings, so that the mean of the weights alone would be too small."""
    subject = writers.load("marian")
    result = answer(subject, "integrated", options={"steps": 1})[1]
    row, target = result.reading.row, result.running.predictions.target(0)
    upper = UpperLayers(nbsal.trace.record(subject, Encoded([row], 0), [target], keep=[0]), 0)
    moves = (upper.states - upper.baseline("mean"))[0].detach()
    weight = subject.model.get_input_embeddings().weight.detach()
    expected = (weight[list(row.ids)] - weight.mean(0)) * 32**0.5
    kept = [at for at in range(len(moves)) if at not in row.content]
    expected[kept] = 0
    assert torch.allclose(moves, expected[: len(moves)], atol=1e-9)
    zero = upper.baseline("zero")[0].detach()
    assert torch.equal(zero[kept], upper.states[0, kept].detach()) and zero.any(1).sum() == len(kept)


def test_a_span_states_its_own_change_and_gap(subjects, tmp_path):
    result = explained(subjects["llama"], "integrated")[1]
    span = result.of(slice(1, 4))
    for entry in ("change", "gap"):
        assert span.provenance[entry] == pytest.approx(sum(result.provenance[entry][1:4]))
    assert not {"change", "gap"} & set(result.rather(9, 2).provenance)
    layers = span.every_layer()
    assert axioms.relative(layers.at(0).scores, span.scores) < 1e-6 and "gap" not in layers.provenance
    result.save(tmp_path / "answer.json")
    assert nbsal.Answer.load(tmp_path / "answer.json").of(0).provenance["gap"] == result.provenance["gap"][0]


@cases("method, parts", [("integrated", 1), ("smooth", 3)])
def test_a_cancelled_path_keeps_whole_rows_only(subjects, monkeypatch, method, parts):
    monkeypatch.setattr(reply_trace, "FEATURES", 2 * 60 * 32)
    explain, whole = explained(subjects["llama"], method)
    partial = cancelled(lambda **watch: explain.reply(SOURCE, REPLY, **watch), len(whole.ids) // 2).partial
    count = partial.explained
    assert (count > 0) == (parts > 1) and np.array_equal(partial.scores[:count], whole.scores[:count])
    assert not partial.scores[count:].any()
