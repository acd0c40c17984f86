"""Faithfulness against slow reference implementations, in closed form, and as published, bugs included."""

import math

import numpy as np
import pytest

import nbsal
from nbsal.ablation.decision import WAYS as WAYS_TO_HIDE
from nbsal.evaluation import faithfulness, published
from nbsal.evaluation._faithfulness import FRACTIONS, SHARES
from nbsal.evaluation.cache import RunOptions
from nbsal.explain.batches import explain_batch
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import InputError, UnknownName
from tests import axioms, zoo
from tests.evaluation import naive, toys
from tests.raising import refuses

TEXTS = [*axioms.TEXTS[:2], " ".join(axioms.TEXTS)]


def means(results, name="ours"):
    return results.mean().set_index("explainer").loc[[name], "mean"].to_numpy()


# Decoders look for their padding token to find the end of a text, so it cannot replace other tokens.
WAYS = [(name, way) for name in zoo.ARCHITECTURES for way in WAYS_TO_HIDE if way != "pad" or name in zoo.ENCODERS]


@pytest.mark.some(6)
@pytest.mark.parametrize(("architecture", "way"), WAYS)
def test_measures_equal_one_forward_pass_per_fraction(load, architecture, way):
    subject = load(architecture, decoding=False, dtype="float32")
    explain = nbsal.Explainer(subject, "gradxact")
    results = faithfulness({"ours": explain}, TEXTS, way=way, progress=False)
    truth = naive.deletion(subject, [explain(text) for text in TEXTS], [None] * 3, way, FRACTIONS, SHARES)
    assert np.allclose(means(results), truth, atol=1e-5)


def test_label_names_are_looked_up_in_each_model(load):
    """Two models with the same labels in a different order: each is explained for its own index."""
    subject = load("bert", decoding=False)
    named = [nbsal.load(subject.model, tokenizer=subject.tokenizer, labels=list(names)) for names in ("abc", "cab")]
    explainers = dict(zip(("first", "second"), (nbsal.Explainer(model, "gradxact") for model in named), strict=True))
    results = faithfulness(explainers, TEXTS, iter(["a", "b", "c"]), progress=False)
    for name, labels in {"first": [0, 1, 2], "second": [1, 2, 0]}.items():
        saliencies = [explainers[name](text, target=label) for text, label in zip(TEXTS, labels, strict=True)]
        truth = naive.deletion(subject, saliencies, labels, "pad", FRACTIONS)
        assert np.allclose(means(results, name), truth, atol=1e-10)


def test_measures_in_closed_form():
    subject = toys.word_sum_subject({"end": 2.0})
    explain = toys.fixed_scores(subject, end=1)
    results = faithfulness({"ours": explain}, ["end a a a a"], [1], way="remove", fractions=[0.2, 1], progress=False)
    full, half = 1 / (1 + math.exp(-2)), 0.5
    pieces = len(subject.encode("end a a a a")[0].content)
    assert pieces == 5
    assert np.allclose(means(results), [full - half, math.log(half / full), full - half, 0.0])
    other = faithfulness(
        {"ours": toys.fixed_scores(subject, end=-1)}, ["end a a a a"], [1], way="remove", progress=False
    )
    assert published._order(np.array([1.0, np.nan, 2.0, 1.0])) == [2, 0, 3, 1]
    assert np.allclose(means(other), [0, 0, 0, full - half])  # nine tenths of five tokens are four


def test_hidden_tokens_are_replaced_by_the_token_of_their_way():
    """In a bag of words where the mask and padding tokens have weights, the logits show which one was used."""
    subject = toys.word_sum_subject({"end": 2.0, "[MASK]": 1.0, "[PAD]": -1.0})
    explain, full = toys.fixed_scores(subject, end=1), math.log(1 + math.exp(-2))
    for way, logit in {"remove": 0, "mask": 1, "pad": -1}.items():
        results = faithfulness(explain, ["end"], [1], way=way, fractions=[1], progress=False).mean()
        assert math.isclose(results["mean"][1], full - math.log(1 + math.exp(-logit)), abs_tol=1e-9)


PAIRS = [(" ".join(axioms.TEXTS[:2]), axioms.TEXTS[i]) for i in (0, 1, 2, 3, 2, 0)] * 2  # at least one for each worker
LONG = [*[" ".join(axioms.TEXTS[i:]) for i in range(3)], "A bore.", *axioms.TEXTS, " ".join(axioms.TEXTS[::-1])] * 2


def naive_published(explain, texts, labels, **settings):
    def scores(row, label):
        return explain_batch({"ours": explain}, Encoded([row], 0), [label])["ours"][0].scores

    return naive.published(explain.subject, scores, texts, labels, **settings)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", ["mask-lrp@published", "gradxact", "rollout"])
@pytest.mark.parametrize("texts", [LONG, PAIRS], ids=["texts", "pairs"])
def test_the_published_variant_equals_the_published_program(load, texts, method):
    subject = load("bert", decoding=False)
    options = {"mask": nbsal.heads.HeadMask.from_array(np.eye(3, 4, dtype=int))} if "lrp" in method else {}
    explain, labels = nbsal.Explainer(subject, method, **options), [i % 3 for i in range(len(texts))]
    settings = {"workers": 3, "min_probability": 0.2}
    results = published.published_deletion({"ours": explain}, texts, labels, RunOptions(progress=False), **settings)
    assert np.allclose(means(results), naive_published(explain, texts, labels, **settings), atol=1e-12)
    results = faithfulness({"ours": explain}, texts, labels, variant="published", progress=False)
    assert np.allclose(means(results), naive_published(explain, texts, labels), atol=1e-12)


def test_wrong_arguments_are_refused(load, small, monkeypatch):
    explain = nbsal.Explainer(small, "gradcam")
    with refuses("fractions"):
        faithfulness(explain, ["A joy."], fractions=[0])
    with refuses("way", UnknownName) as caught:
        faithfulness(explain, ["A joy."], way="blur", progress=False)
    assert caught.value.valid[:3] == ("remove", "mask", "pad")
    monkeypatch.setattr(toys.FixedScores, "__module__", "nbsal.methods")  # the published variants may give 0/0
    for score in (float("inf"), float("nan")):
        with refuses("explainers"):
            faithfulness(toys.fixed_scores(toys.word_sum_subject({}), end=score), ["the end"], progress=False)
    for names, error in ((["auc"], UnknownName), ([], InputError)):
        with refuses("measures", error):
            faithfulness(explain, ["A joy."], measures=names, progress=False)
    both = {"first": explain, "second": nbsal.Explainer(load("bert", decoding=False), "gradcam")}
    with refuses("explainers"):
        faithfulness(both, ["joy " * 30], [1], variant="published", progress=False)
    with refuses("variant", UnknownName) as caught:
        faithfulness(explain, ["A joy."], variant="original")
    assert caught.value.valid == ("published",)
    with refuses("labels"):
        faithfulness(explain, ["A joy."], variant="published")
    with refuses("texts"):
        faithfulness(explain, ["A joy."], [1], variant="published")
    with refuses("min_probability"):
        published.published_deletion(explain, ["joy " * 30], [0], RunOptions(progress=False), min_probability=1.0)


def test_measures_that_are_not_asked_for_take_no_forward_passes(small):
    explain, cache = nbsal.Explainer(small, "gradcam"), nbsal.evaluation.Cache()
    text = ["a warm and funny film that is never dull"]
    some = faithfulness(explain, text, measures=["log-odds", "aopc"], cache=cache, progress=False)
    (ablation,) = cache.ablations.values()
    assert some.measures == ["aopc", "log-odds"] and ablation.forwards <= 1 + len(FRACTIONS)
    every = faithfulness(explain, text, progress=False).frame
    for measure in ("aopc", "log-odds", "sufficiency"):
        one = faithfulness(explain, text, measures=[measure], cache=cache, progress=False).frame
        expected = every[every["measure"] == measure]["value"]
        assert one["measure"].unique().tolist() == [measure] and np.allclose(one["value"], expected)
