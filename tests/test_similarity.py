"""The parts of pairs of tokens in a similarity: they sum to it, and follow the roles of both texts."""

import itertools
import threading

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import nbsal
from nbsal.explain import similarity
from nbsal.support.errors import Cancelled, ModelError
from tests import wrapped, zoo
from tests.raising import refuses

wrapped.peer("sentence_transformers")
FIRST, SECOND = "A warm and funny film.", "The plot is a joy."


def embeddings(subject, text):
    """Embeddings of a text and of the same text with padding in place of its content."""
    encoded = subject.encode(text)
    inputs = subject.inputs(encoded)
    masked = inputs | {"input_ids": inputs["input_ids"].clone()}
    masked["input_ids"][0, list(encoded[0].content)] = subject.tokenizer.pad_token_id
    with torch.no_grad():
        return [subject.model.module.embed(**each)[0].double() for each in (inputs, masked)]


@pytest.mark.some(2)
@pytest.mark.parametrize(("pooling", "function"), [("mean", "cosine"), ("cls", "dot"), ("mean", "dot")])
def test_pairs_sum_to_four_similarities(tmp_path, pooling, function):
    model = wrapped.sentence_transformer(tmp_path, pooling)
    model.similarity_fn_name = function
    subject = nbsal.load(model, similar_to=SECOND)
    pairs = similarity.token_pairs(subject, FIRST, SECOND, progress=False)
    ends = [embeddings(subject, text) for text in (FIRST, SECOND)]
    if function == "cosine":
        ends = [[vector / vector.norm() for vector in both] for both in ends]
    dots = [float(first @ second) for first, second in itertools.product(*ends)]
    assert pairs.similarity == pytest.approx(dots[0], abs=1e-5)
    assert pairs.similarity == pytest.approx(float(model.similarity(*model.encode([FIRST, SECOND])[:, None])), abs=1e-5)
    assert pairs.change == pytest.approx(dots[0] - dots[1] - dots[2] + dots[3], abs=1e-5)
    assert pairs.scores.sum() == pytest.approx(pairs.change, abs=1e-4) and abs(pairs.gap) < 1e-4
    assert abs(pairs.change) > 1e-3
    special = np.array(pairs.first.special)
    assert not pairs.scores[special].any() and pairs.scores[~special].any(), "special tokens do not change"


@pytest.fixture
def subject():
    body = zoo.model("bert", "sequence").base_model
    return nbsal.load(body, tokenizer=zoo.tokenizer("wordpiece"), similar_to=SECOND)


def test_the_texts_may_change_places(subject):
    texts = ((FIRST, SECOND), (SECOND, FIRST))
    one, other = (similarity.token_pairs(subject, *pair, steps=6, progress=False) for pair in texts)
    assert abs(one.gap) < 1e-4 < abs(one.change) and np.allclose(one.scores, other.scores.T, atol=1e-6)
    frame, ax = one.to_frame(), Figure().add_subplot()
    assert list(frame.index) == list(one.first.tokens) and list(frame.columns) == list(one.second.tokens)
    assert one.plot(ax=ax) is ax and ax.images
    labels = [label.get_text() for label in one.plot().get_yticklabels()]
    assert labels == [one.first.tokens[i] for i in one.first.content]


def test_it_can_be_cancelled_and_reports_its_steps(subject):
    cancel, done = threading.Event(), []

    def report(steps, total):
        done.append((steps, total))
        cancel.set()

    with pytest.raises(Cancelled):
        similarity.token_pairs(subject, FIRST, SECOND, steps=20, progress=report, cancel=cancel)
    assert done == [(similarity.POINTS, 40)]


def test_what_compares_no_embeddings_is_refused(tmp_path, load, subject):
    model = wrapped.sentence_transformer(tmp_path)
    model.similarity_fn_name = "euclidean"
    for other in (load("bert"), nbsal.load(model, similar_to="A joy.")):
        with pytest.raises(ModelError) as caught:
            similarity.token_pairs(other, FIRST, SECOND)
        assert caught.value.part == "similarity"
    with refuses("steps"):
        similarity.token_pairs(subject, "A", "B", steps=0)
