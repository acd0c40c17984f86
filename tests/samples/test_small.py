"""The embedded model demo/reviews-small: it needs no other package, and a live page runs exactly what is stored."""

import re

import pytest
import torch

import nbsal
from nbsal import cli, live, samples
from nbsal.samples import base, small
from nbsal.support.errors import WeightsError
from tests.docs import examples
from tests.docs.repository import ROOT
from tests.training import evaluate


@pytest.fixture(scope="module")
def subject():
    return nbsal.load(small.NAME)


@pytest.fixture
def alone(monkeypatch):
    """Hide the base weights, as where nbsal is installed without extras."""
    monkeypatch.setattr(base, "installed", lambda name: [])


@pytest.mark.usefixtures("alone")
def test_the_quickstart_needs_no_base_weights():
    for page in (ROOT / "README.md", ROOT / ".docs" / "index.md"):
        namespace = {}
        exec(compile(examples.blocks(page)[0], str(page), "exec"), namespace)
        assert namespace["view"].subject.name == small.NAME
        namespace["view"].close()
    assert cli.main(["explain", "A joy."]) == 0


@pytest.mark.usefixtures("alone")
def test_without_base_weights_the_error_names_the_models_that_need_none():
    with pytest.raises(WeightsError) as caught:
        nbsal.load("demo/reviews")
    names = set(re.findall(r"demo/[\w-]+", str(caught.value)))
    assert names == {small.NAME, "demo/notes"}
    assert all(nbsal.load(name).decodes for name in names)


def test_the_model_is_what_its_file_holds_and_what_a_live_page_runs(subject):
    parameters, lm_parameters = (dict(m.named_parameters()) for m in (subject.model, samples.build_lm(small.NAME)))
    stored = samples.delta("reviews-small")
    assert stored.keys() == parameters.keys() | lm_parameters.keys()
    assert small.rounded(parameters)[small.EMBEDDINGS].equal(stored[small.EMBEDDINGS])
    inputs = subject.inputs(subject.encode([row["text"] for row in samples.texts("reviews")[:8]]))
    assert subject.logits(inputs).equal(live.rounded(subject).logits(inputs))


def test_the_lm_head_decodes_every_layer(subject):
    encoded = subject.encode("The second half of the film is warm and beautifully played by its small cast.")
    record = nbsal.trace.record(subject, encoded)
    ids, places = torch.tensor(encoded[0].ids), list(encoded[0].content)
    for layer in range(subject.depth + 1):
        probabilities = subject.lm_head.probabilities(record.hidden[layer][0, places], ids[places])
        assert (probabilities.argmax(-1) == torch.arange(len(places))).float().mean() > 0.8, layer


def test_hiding_confirms_the_strongest_words(subject):
    assert evaluate.confirmed(subject, subject.default_layer, most=40) > 0.9 > evaluate.confirmed(subject, 3, most=40)
