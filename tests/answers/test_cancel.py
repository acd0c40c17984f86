"""Replies whose explanation is cancelled: what was finished stays, whole, and the rest is marked."""

import threading

import numpy as np
import pytest

import nbsal
from nbsal.explain import reply as replying
from nbsal.explain.scoring import running
from nbsal.passes import reply_trace
from nbsal.support.errors import Cancelled
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE, cancelled
from tests.cases import cases
from tests.raising import refuses

CHUNK = 2


@pytest.fixture(scope="module")
def subject():
    return writers.load()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(reply_trace, "_chunk", lambda *_: CHUNK)
    monkeypatch.setattr(running, "BATCH", CHUNK)


@cases("method, after", [("gae", 1), ("gradxact", 4), ("lrp", 1), ("attn-lrp", 4), ("random", 1)])
def test_a_cancelled_call_keeps_the_tokens_that_were_explained(subject, method, after):
    explain = nbsal.Explainer(subject, method)
    whole = explain.reply(SOURCE, REPLY, progress=False)
    partial = cancelled(lambda **watch: explain.reply(SOURCE, REPLY, **watch), after).partial
    count = partial.explained
    assert after <= count <= after + CHUNK and count < len(whole.ids) == whole.explained
    assert np.array_equal(partial.scores[:count], whole.scores[:count]) and partial.scores[:count].any(1).all()
    assert not partial.scores[count:].any()
    assert partial.provenance["explained"] == count and "explained" not in whole.provenance
    assert partial.tokens().equals(whole.tokens()) and len(partial.notes()) == len(whole.notes()) + 1


def test_the_model_explains_what_a_cancelled_call_left_out(subject, tmp_path):
    explain = nbsal.Explainer(subject, "gradxact")
    whole = explain.reply(SOURCE, REPLY, progress=False)
    partial = cancelled(lambda **watch: explain.reply(SOURCE, REPLY, **watch), 1).partial
    for span in (0, -1, slice(0, 4)):
        assert axioms.relative(partial.of(span).scores, whole.of(span).scores) < 1e-6
    partial.save(tmp_path / "partial.json")
    loaded = nbsal.Answer.load(tmp_path / "partial.json")
    assert loaded.explained == partial.explained and loaded.of(0).scores.any()
    with refuses("span"):
        loaded.of(-1)
    complete = replying.explain_again(partial, explain)
    assert complete.explained == len(complete.ids) and axioms.relative(complete.scores, whole.scores) < 1e-12


def test_subsets_that_were_run_are_not_run_again(subject):
    """A method that hides explains all tokens or none, but its subsets stay."""
    explain = nbsal.Explainer(subject, "shapley")

    def call(**watch):
        return explain.reply(SOURCE, REPLY, batch_size=2, **watch)

    partial = cancelled(call, 1).partial
    assert partial.explained == 0 and not partial.scores.any() and partial.statistics.logprob.all()
    whole, before = call(progress=False), partial.running.experiment.ablation.forwards
    assert 0 < before < whole.running.experiment.ablation.forwards
    assert axioms.relative(partial.of(2).scores, whole.of(2).scores) < 1e-12
    assert partial.running.experiment.ablation.forwards == whole.running.experiment.ablation.forwards


def test_a_reply_that_is_cancelled_while_it_is_written_keeps_its_text(subject):
    written, cancel = [], threading.Event()

    def on_token(text):
        written.append(text)
        if len(written) == 3:
            cancel.set()

    with pytest.raises(Cancelled) as caught:
        nbsal.answer(subject, SOURCE, cancel=cancel, on_token=on_token, progress=False)
    partial = caught.value.partial
    assert isinstance(partial, str) and partial == "".join(written)
    assert nbsal.answer(subject, SOURCE, progress=False).text.startswith(partial)
