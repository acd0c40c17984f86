"""Deletion: against slow replicas, in closed form, and as published, defects included."""

import math

import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import faithfulness, published
from nbsal.evaluation._faithfulness import FRACTIONS, SHARES
from nbsal.explainer import explain_batch
from nbsal.model import masking
from nbsal.model.tokens import Encoded
from tests import axioms, zoo
from tests.evaluation import known, naive

TEXTS = [*axioms.TEXTS[:2], " ".join(axioms.TEXTS)]


def means(found, name="ours"):
    return found.mean().set_index("explainer").loc[[name], "mean"].to_numpy()


# Decoders look for their padding token to find the end of a text, so that none can stand in the place of others.
WAYS = [(name, way) for name in zoo.ARCHITECTURES for way in masking.WAYS if way != "pad" or name in zoo.ENCODERS]


def deletes_as_slowly(subject, way):
    explain = nbsal.Explainer(subject, "gradxact")
    found = faithfulness({"ours": explain}, TEXTS, way=way, progress=False)
    truth = naive.deletion(subject, [explain(text) for text in TEXTS], [None] * 3, way, FRACTIONS, SHARES)
    assert np.allclose(means(found), truth, atol=1e-5)


@pytest.mark.parametrize(("architecture", "way"), WAYS)
def test_measures_are_those_of_one_forward_a_fraction(load, architecture, way):
    deletes_as_slowly(load(architecture, decoding=False, dtype="float32"), way)


@pytest.mark.parametrize("architecture", ["deberta-v2", "mpnet", "modernbert"])
def test_mutants_that_drop_where_distances_count_are_caught(load, architecture, monkeypatch):
    monkeypatch.setattr(masking.MaskedModel, "_drops", lambda self, row: True)
    with pytest.raises(AssertionError):
        deletes_as_slowly(load(architecture, decoding=False, dtype="float32"), "remove")


def test_gold_labels_are_explained_and_followed(load):
    subject = load("bert", decoding=False)
    explain, labels = nbsal.Explainer(subject, "gradxact"), [2, 0, 1]
    found = faithfulness({"ours": explain}, TEXTS, labels, progress=False)
    saliencies = [explain(text, target=label) for text, label in zip(TEXTS, labels, strict=True)]
    assert np.allclose(means(found), naive.deletion(subject, saliencies, labels, "pad", FRACTIONS), atol=1e-10)


def test_labels_by_name_are_each_models_own(load):
    """Two models that number the same labels otherwise: each is explained and followed by its own number."""
    subject = load("bert", decoding=False)
    named = [nbsal.load(subject.model, tokenizer=subject.tokenizer, labels=list(names)) for names in ("abc", "cab")]
    one, other = (nbsal.Explainer(each, "gradxact") for each in named)
    found = faithfulness({"one": one, "other": other}, TEXTS, iter(["a", "b", "c"]), progress=False)
    alone = faithfulness({"other": other}, TEXTS, [1, 2, 0], progress=False)
    assert np.array_equal(means(found, "other"), means(alone, "other"))
    assert not np.allclose(means(found, "other"), means(found, "one"))
    played = nbsal.evaluation.games({"one": one, "other": other}, TEXTS, iter("abc"), random=0, progress=False)
    whole = played.frame.query("game == 'hiding' and fraction == 0").set_index("explainer")["accuracy"]
    said = subject.logits(subject.inputs(subject.encode(TEXTS))).argmax(-1).tolist()
    assert whole["one"] == np.mean([a == b for a, b in zip(said, [0, 1, 2], strict=True)])
    assert whole["other"] == np.mean([a == b for a, b in zip(said, [1, 2, 0], strict=True)])


def test_a_model_that_counts_loses_what_it_must():
    subject = known.counting({"end": 2.0})
    explain = known.scoring(subject, end=1)
    found = faithfulness({"ours": explain}, ["end a a a a"], [1], way="remove", fractions=[0.2, 1], progress=False)
    whole, half = 1 / (1 + math.exp(-2)), 0.5
    pieces = len(subject.encode("end a a a a")[0].content)
    assert pieces == 5
    assert np.allclose(means(found), [whole - half, math.log(half / whole), whole - half, 0.0])
    other = faithfulness({"ours": known.scoring(subject, end=-1)}, ["end a a a a"], [1], way="remove", progress=False)
    assert np.allclose(means(other), [0, 0, 0, whole - half])  # nine tenths of five tokens are four


def test_mask_and_pad_tokens_are_seen(load):
    """In a bag where these two tokens count, it shows which of them stands in the place of others."""
    subject = known.counting({"end": 2.0, "[MASK]": 1.0, "[PAD]": -1.0})
    explain = known.scoring(subject, end=1)
    lost = {
        way: faithfulness(explain, ["end"], [1], way=way, fractions=[1], progress=False).mean()["mean"][1]
        for way in ("remove", "mask", "pad")
    }
    whole = math.log(1 + math.exp(-2))
    for way, logit in {"remove": 0, "mask": 1, "pad": -1}.items():
        assert math.isclose(lost[way], whole - math.log(1 + math.exp(-logit)), abs_tol=1e-9)


def test_a_text_of_one_token_and_constant_scores(reviews):
    found = faithfulness(nbsal.Explainer(reviews, "gradcam"), ["joy"], progress=False)
    assert np.isfinite(found.frame["value"]).all()
    subject = known.counting({"end": 1.0})
    same = faithfulness({"ours": known.scoring(subject)}, ["end a"], [1], fractions=[0.5], way="remove", progress=False)
    first = faithfulness(
        {"ours": known.scoring(subject, end=1)}, ["end a"], [1], fractions=[0.5], way="remove", progress=False
    )
    assert same.frame.equals(first.frame)  # of equal scores the first position comes first


def test_the_order_of_texts_changes_nothing(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    one = faithfulness(explain, TEXTS, [0, 1, 2], random=2, progress=False)
    other = faithfulness(explain, TEXTS[::-1], [2, 1, 0], random=2, progress=False)
    assert one.frame.equals(other.frame)


PAIRS = [(" ".join(axioms.TEXTS[:2]), axioms.TEXTS[i]) for i in (0, 1, 2, 3, 2, 0)]
LONG = [*[" ".join(axioms.TEXTS[i:]) for i in range(3)], "A bore.", *axioms.TEXTS, " ".join(axioms.TEXTS[::-1])] * 3


def literally(explain, texts, labels, **settings):
    def scores(row, label):
        return explain_batch({"one": explain}, Encoded([row], 0), [label])["one"][0].scores

    return naive.published(explain.subject, scores, texts, labels, **settings)


@pytest.mark.parametrize("method", ["mask-lrp@published", "gradxact", "rollout"])
@pytest.mark.parametrize("texts", [LONG, PAIRS], ids=["texts", "pairs"])
def test_the_published_variant_is_the_published_program(load, texts, method):
    subject = load("bert", decoding=False)
    options = {"mask": nbsal.heads.HeadMask.from_array(np.eye(3, 4, dtype=int))} if "lrp" in method else {}
    explain, labels = nbsal.Explainer(subject, method, **options), [i % 3 for i in range(len(texts))]
    for workers, least in [(2, 0.0), (3, 0.2), (1, 0.0)]:
        found = published.published_deletion(
            {"ours": explain}, texts, labels, workers=workers, min_probability=least, progress=False
        )
        assert np.allclose(means(found), literally(explain, texts, labels, workers=workers, least=least), atol=1e-12)


def test_every_published_defect_matters(load, monkeypatch):
    """Mutants that repair one of them each, and must be noticed."""
    subject = load("bert", decoding=False)
    explain, labels = nbsal.Explainer(subject, "gradxact"), [i % 3 for i in range(len(LONG))]
    truth = literally(explain, LONG, labels)
    assert np.allclose(means(faithfulness({"ours": explain}, LONG, labels, variant="published", progress=False)), truth)
    repairs = {
        "SHORTEST": 0,
        "SKIPPED": (),
        "FRACTIONS": tuple(FRACTIONS),
        "_order": lambda scores: published.np.argsort(scores).tolist(),
        "_weights": lambda worker, likely: np.ones(len(worker)),
    }
    for name, repaired in repairs.items():
        with monkeypatch.context() as patch:
            patch.setattr(published, name, repaired)
            found = faithfulness({"ours": explain}, LONG, labels, variant="published", progress=False)
            assert not np.allclose(means(found), truth), name
    whole = faithfulness({"ours": explain}, LONG, labels, progress=False)
    assert not np.allclose(means(whole)[:2], truth)


def test_the_published_order_puts_nan_last():
    assert published._order(np.array([1.0, np.nan, 2.0, 1.0])) == [2, 0, 3, 1]


def test_errors_say_the_way_out(load, reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    both = {"one": explain, "other": nbsal.Explainer(load("bert", decoding=False), "gradcam")}
    with pytest.raises(InputError, match="explainers of one model at a time"):
        faithfulness(both, ["joy " * 30], [1], variant="published", progress=False)
    with pytest.raises(UnknownName, match="published"):
        faithfulness(explain, ["A joy."], variant="original")
    with pytest.raises(InputError, match="pass labels="):
        faithfulness(explain, ["A joy."], variant="published")
    with pytest.raises(InputError, match="No text has 20 tokens"):
        faithfulness(explain, ["A joy."], [1], variant="published")
    with pytest.raises(InputError, match="nothing is left"):
        published.published_deletion(explain, ["joy " * 30], [0], min_probability=1.0, progress=False)
    with pytest.raises(InputError, match="shares above 0"):
        faithfulness(explain, ["A joy."], fractions=[0])
    with pytest.raises(UnknownName, match="remove, mask, pad"):
        faithfulness(explain, ["A joy."], way="blur", progress=False)
    with pytest.raises(InputError, match="cannot be ranked"):
        faithfulness(known.scoring(known.counting({}), end=float("inf")), ["the end"], progress=False)
