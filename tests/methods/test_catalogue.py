"""The catalogue: complete, comparable in one call, and as good as its promises."""

import re

import numpy as np
import pytest

import nbsal
from nbsal.methods import catalogue

TEXTS = ["A warm and funny film.", "The plot is a bore, endlessly dull.", "Good food, good people, good grief."]
NAMES = (
    "gradcam simple gradxact smooth integrated decoded-gradcam decoded-simple decoded-gradxact raw-attention rollout "
    "attention-cam attention-gradcam attcat gae alti lrp partial-lrp transformer-attribution mask-lrp attn-lrp "
    "occlusion lime shapley gradient-shap deeplift-shap random"
).split()
THERMOSTAT = "gradxact integrated lime occlusion shapley gradient-shap deeplift-shap".split()
ALLENNLP = "simple smooth integrated".split()


@pytest.fixture(scope="module")
def frame(reviews):
    """All methods on three texts, in one frame."""
    return nbsal.compare(reviews, catalogue.names(), TEXTS, progress=False).to_frame()


def test_every_name_is_there():
    suffixed = [f"{name}@thermostat" for name in THERMOSTAT] + [f"{name}@allennlp" for name in ALLENNLP]
    assert set(NAMES + suffixed) <= set(catalogue.names())


def test_every_method_says_what_it_is():
    table = catalogue.table()
    assert list(table.index) == catalogue.names()
    assert table[["family", "paper", "cost", "promise"]].map(len).min().min() > 0
    assert table["cost"].str.match(r"\d|samples \(").all()


def test_one_frame_compares_all(frame, reviews):
    tokens = sum(len(row) for row in reviews.encode(TEXTS))
    assert list(frame.columns[:4]) == ["method", "text", "position", "token"]
    assert (frame.groupby("method").size() == tokens).all()
    assert list(frame["method"].unique()) == catalogue.names()
    assert np.isfinite(frame["score"]).all()
    assert not frame.duplicated(["method", "text", "position"]).any()
    of_one = frame[(frame["method"] == "gradcam") & (frame["text"] == 1)]
    alone = nbsal.Explainer(reviews, "gradcam")(TEXTS[1]).scores
    assert np.allclose(of_one["score"], alone, atol=1e-5 * alone.max())


@pytest.mark.parametrize("name", catalogue.names())
def test_costs_are_what_is_run(reviews, name, monkeypatch):
    """Rows that pass the model, against the number that begins the cost."""
    rows, row, logits = [], reviews.encode(TEXTS[0])[0], nbsal.Subject.logits
    counting = lambda self, inputs: rows.append(len(inputs["input_ids"])) or logits(self, inputs)  # noqa: E731
    monkeypatch.setattr(nbsal.Subject, "logits", counting)
    nbsal.Explainer(reviews, name)(TEXTS[0])
    said, _, more = catalogue.table().loc[name, "cost"].partition(",")
    plain = re.sub(r"\b[a-z]+ \((\d+)\)", r"\1", said)
    number = eval(
        plain.replace("content tokens", str(len(row.content))).replace("tokens", str(len(row))).replace("x", "*")
    )
    if "no subset twice" in more:
        assert number / 3 < sum(rows) <= number + 6
    else:
        assert sum(rows) == number


PROMISES = {
    "0 or more": lambda part: part["score"].min() >= 0,
    "0 to 1": lambda part: part["score"].between(0, 1).all(),
    "scores sum to 1": lambda part: part["score"].sum() == pytest.approx(1, abs=1e-5),
    "sums to 1": lambda part: part["score"].sum() == pytest.approx(1, abs=1e-5),
    "0 at the first position": lambda part: part["score"].iloc[0] == 0,
    "0 at special tokens": lambda part: not part.loc[part["special"], "score"].any(),
    "every position of a type": lambda part: (part.groupby("token")["score"].nunique() == 1).all(),
}


@pytest.mark.parametrize("name", catalogue.names())
def test_promises_are_kept(frame, name):
    promise = catalogue.table().loc[name, "promise"]
    for _, part in frame[frame["method"] == name].groupby("text"):
        for said, holds in PROMISES.items():
            assert holds(part) or said not in promise, said


def test_promises_can_be_broken(frame):
    """The checks are not empty: some method breaks each of them."""
    for said, holds in PROMISES.items():
        assert not all(holds(part) for _, part in frame.groupby(["method", "text"])), said
