"""Divergences of what a model would say with units hidden from what it would say, against a direct computation."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import nbsal
from nbsal.support.errors import InputError
from tests import axioms
from tests.answers import writers
from tests.answers.test_ways import PROMPT, REPLY
from tests.cases import cases
from tests.raising import refuses

SETTINGS = {"number": "divergence", "unit": "sentence", "check": False, "progress": False}
FILLER = 7


def answer(subject, method, **settings):
    return nbsal.answer(subject, PROMPT, REPLY, method=method, **SETTINGS | settings)


def direct(subject, reading):
    """The divergence of every token without each sentence, [sentence, reply token]."""

    def predictions(ids):
        places = range(reading.position(0), reading.position(0) + len(reading.reply_ids))
        with torch.no_grad():
            if size := reading.prompt.source_size:
                logits = subject.model(input_ids=ids[:, :size], decoder_input_ids=ids[:, size:]).logits
            else:
                logits = subject.model(ids).logits
        return logits[0, list(places)].double().softmax(-1)

    ids = torch.tensor([reading.row.ids])
    whole, results = predictions(ids), []
    for unit in reading.units("sentence"):
        changed = ids.clone()
        changed[0, list(unit.tokens)] = FILLER
        results.append(jensenshannon(whole.T, predictions(changed).T) ** 2)
    return np.array(results)


@cases("name", ["llama", "gpt2", "t5"])
def test_occlusion_measures_the_divergence_without_each_unit(name):
    subject = writers.load(name)
    result = answer(subject, nbsal.Occlusion(way=FILLER))
    truth = direct(subject, result.reading)
    assert axioms.relative(result.unit_scores().T, truth) < 1e-4 and truth.min() > 0 and truth.max() < np.log(2)
    span = result.of(slice(1, 4)).scores
    assert axioms.relative(span, result.scores[1:4].sum(0)[: len(span)]) < 1e-9


def test_nothing_hidden_diverges_by_nothing_and_shapley_values_share_all():
    """The log-probabilities that are stored beside it are what they are without."""
    subject = writers.load()
    result, plain = answer(subject, "shapley"), answer(subject, "shapley", number="logprob")
    experiment, whole_table = result.running.experiment, np.ones((1, len(result.units)), dtype=bool)
    (whole,), (empty,) = (experiment.numbers(table, number="divergence") for table in (whole_table, ~whole_table))
    assert abs(whole).max() < 1e-9 and axioms.relative(result.unit_scores().sum(1), -empty) < 1e-9
    assert axioms.relative(experiment.numbers(~whole_table), plain.running.experiment.numbers(~whole_table)) < 1e-6
    best = [each.running.experiment.numbers(~whole_table, number="best") for each in (result, plain)]
    assert np.array_equal(*best)
    assert axioms.relative(plain.running.experiment.numbers(~whole_table, number="divergence")[0], empty) < 1e-6
    subject.model.lm_head.weight.data *= 0.5
    assert abs(experiment.numbers(whole_table, number="divergence")).max() < 1e-9, "the model is another one now"


@cases("method", ["lime", "contextcite", "ridge", "kernel-shap"])
def test_methods_that_hide_take_it(method):
    subject = writers.load()
    result, occlusion = answer(subject, method), answer(subject, "occlusion")
    assert result.number == "divergence" and np.isfinite(result.scores).all()
    if method != "contextcite":  # its lasso drops what is small
        assert np.corrcoef(result.unit_scores().sum(0), occlusion.unit_scores().sum(0))[0, 1] > 0


def test_methods_that_hide_nothing_and_rivals_are_refused():
    subject = writers.load()
    with refuses("number") as caught:
        answer(subject, ["occlusion", "gae"])
    assert "occlusion" in str(caught.value) and "gae" in str(caught.value)
    result = answer(subject, "occlusion")
    with refuses("number"):
        result.rather(5, at=1)
    with pytest.raises(InputError):
        result.rather(" Ben wrote it.")
