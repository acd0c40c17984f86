"""Test clouds: sums in closed form for any order of texts, and images."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot

import nbsal
from nbsal.evaluation import clouds
from nbsal.samples import idf
from nbsal.support.errors import UnknownName
from tests import axioms
from tests.evaluation import toys
from tests.raising import refuses

TEXTS = ["a and the end", "end end", "the a", "and the"]
EQUAL = dict.fromkeys(("a", "and", "the", "end"), 1.0)


def saliencies():
    subject = toys.word_sum_subject({"end": 1.0})
    return [toys.fixed_scores(subject, a=1, the=2, end=5)(text) for text in TEXTS]


def test_scores_count_for_the_class_that_was_explained():
    texts = saliencies()
    assert len(texts[0].row.content) == 4
    raw = clouds.rank(texts, EQUAL, normalise=False)
    assert raw.labels == ["LABEL_0", "LABEL_1"]
    assert dict(raw.weights["LABEL_1"]) == {"a": 1, "and": 0, "the": 2, "end": 15}
    assert dict(raw.weights["LABEL_0"]) == {"the": 4, "a": 1, "and": 0}
    assert clouds.rank(texts, EQUAL).weights["LABEL_1"]["end"] == pytest.approx(5 / 8 + 1)
    cloud = clouds.rank([replace(texts[0], target="LABEL_0"), *texts[1:]], EQUAL, normalise=False)
    assert cloud.weights["LABEL_0"]["end"] == 5 and cloud.weights["LABEL_1"]["end"] == 10
    assert replace(texts[0], target="LABEL_0 at the [2]").explained_class == texts[0].prediction == "LABEL_1"


def test_weights_are_multiplied_by_rarity():
    cloud = clouds.rank(saliencies(), {"a": 2.0, "the": 0.5}, normalise=False)
    assert dict(cloud.weights["LABEL_0"]) == {"the": 2, "a": 2, "and": 0}
    assert cloud.top("LABEL_0", 2)["token"].tolist() == ["a", "the"]  # equal weights are ordered by name
    assert cloud.weights["LABEL_1"]["end"] == 30  # tokens that the table lacks count as the rarest


def test_overlap_counts_tokens_in_both_lists():
    cloud = clouds.rank(saliencies(), EQUAL, normalise=False)
    assert cloud.overlap(1) == 0.0
    assert cloud.overlap(2) == 0.5  # the, a; end, the
    assert cloud.shared(2)["tokens"].item() == "the"
    assert cloud.overlap(6) == pytest.approx(2 / 6)  # "and" has no weight for the first class
    assert clouds.Cloud({"a": {}, "b": {"x": 1.0}}).overlap(5) == 0.0
    with refuses("count"):
        cloud.overlap(0)
    with refuses(None):
        clouds.rank(saliencies()[1:2]).overlap(1)


def test_a_word_has_the_sum_of_its_tokens_scores(reviews):
    saliency = nbsal.Explainer(reviews, "gradxact", layer=5)("Unforgettable, UNFORGETTABLE whimsy!")
    cloud = clouds.rank([saliency], dict.fromkeys(saliency.tokens, 1.0), unit="word", normalise=False)
    words = saliency.by_word().assign(word=lambda f: f["word"].str.lower()).groupby("word")["score"].sum()
    assert len(words) < len(saliency.row.content)
    assert cloud.weights[saliency.prediction] == pytest.approx(words.to_dict())


def test_a_word_is_as_rare_as_its_rarest_token(reviews):
    """A rarity of 0 in the table counts; it is not replaced by that of the word's tokens."""
    saliency = nbsal.Explainer(reviews, "simple")("whimsy")
    pieces = [saliency.tokens[i] for i in saliency.row.content]
    assert len(pieces) > 1
    table = {piece: float(at + 1) for at, piece in enumerate(pieces)} | {"zebra": 99.0}
    for rarities, weight in ((table, len(pieces)), ({"whimsy": 0.0, "zebra": 99.0}, 0)):
        weights = clouds.rank([saliency], rarities, unit="word").weights[saliency.prediction]
        assert weights["whimsy"] == pytest.approx(weight)


def test_inverse_document_frequency_of_texts(load):
    for architecture in ("bert", "roberta", "xlm-roberta"):
        subject = load(architecture, decoding=False)
        table = clouds.inverse_document_frequency([*axioms.TEXTS, "a film"], subject)
        assert table["film"] == pytest.approx(math.log(6 / 3))
        cloud = clouds.rank(nbsal.Explainer(subject, "simple").map(axioms.TEXTS, progress=False), table)
        assert all(math.isfinite(weight) for weights in cloud.weights.values() for weight in weights.values())
    with refuses("texts"):
        clouds.inverse_document_frequency([], subject)


def test_the_default_table_is_that_of_wikitext(reviews):
    saliency = nbsal.Explainer(reviews, "simple")("lobster")
    (weight,) = clouds.rank([saliency]).weights[saliency.prediction].values()
    assert weight == pytest.approx(idf.load()["lobster"])
    assert [clouds.plain_token(token) for token in ("Ġthe", "▁The", "##ing", "▁")] == ["the", "the", "##ing", "▁"]


def test_no_type_of_a_cloud_is_smaller_than_asked(monkeypatch):
    """A word of hardly any weight is a speck beside heavy ones, or as large as asked."""
    monkeypatch.setattr("wordcloud.WordCloud.to_image", lambda drawn: [size for _, size, *_ in drawn.layout_])
    cloud = clouds.Cloud({"a": {"heavy": 1.0} | {f"light{n}": 0.02 for n in range(9)}})
    assert min(cloud.wordcloud("a")) < 10 <= 40 <= min(cloud.wordcloud("a", smallest=40))


def test_clouds_are_drawn():
    cloud = clouds.rank(saliencies(), EQUAL)
    image, again = cloud.wordcloud("LABEL_1", seed=1), cloud.wordcloud("LABEL_1", seed=1)
    assert image.size == (600, 300) and image.tobytes() == again.tobytes()
    assert np.asarray(image).min() < 128 < np.asarray(image).max()
    assert image.tobytes() != cloud.wordcloud("LABEL_0", seed=1).tobytes()
    figure = cloud.plot()
    assert [ax.get_title() for ax in figure.axes] == cloud.labels
    pyplot.close(figure)
    hostile = clouds.Cloud({"$x_1$ \u202e": {"$y_2$\x00\u202e": 1.0, "<b>": 2.0, "  ": 1.0}})
    hostile.plot().canvas.draw()
    pyplot.close("all")


def test_wrong_arguments_are_refused():
    cloud = clouds.rank(saliencies(), EQUAL)
    with refuses("label", UnknownName) as caught:
        cloud.top("positive")
    assert caught.value.valid == ("LABEL_0", "LABEL_1")
    for call in (lambda count: cloud.top("LABEL_0", count), cloud.shared):
        with refuses("count"):
            call(-1)
    with refuses("unit", UnknownName) as caught:
        clouds.rank(saliencies(), unit="letter")
    assert caught.value.valid == ("token", "word")
    subject = toys.word_sum_subject({})
    broken = replace(toys.fixed_scores(subject)("the end"), scores=np.full(4, np.nan))
    for no_scores in ([], [broken]):
        with refuses("saliencies"):
            clouds.rank(no_scores)
    with refuses("label"):
        clouds.rank([toys.fixed_scores(subject, end=-1.0)("end")]).wordcloud("LABEL_0")
