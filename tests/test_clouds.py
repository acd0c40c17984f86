"""Clouds: sums in closed form, whatever the order of texts, and images."""

import json
import math

import numpy as np
import pytest
from matplotlib import pyplot

import nbsal
from nbsal import clouds
from nbsal.errors import InputError, UnknownName
from nbsal.samples import idf
from tests import axioms
from tests.evaluation import known

TEXTS = ["a and the end", "end end", "the a", "and the"]
ONES = dict.fromkeys(("a", "and", "the", "end"), 1.0)


def told():
    subject = known.counting({"end": 1.0})
    return [known.scoring(subject, a=1, the=2, end=5)(text) for text in TEXTS]


def test_sums_are_credited_to_the_predicted_class():
    first, second = told()[0].row, "LABEL_1"
    assert len(first.content) == 4
    raw = clouds.rank(told(), ONES, normalise=False)
    assert raw.labels == ["LABEL_0", second]
    assert dict(raw.weights[second]) == {"a": 1, "and": 0, "the": 2, "end": 15}
    assert dict(raw.weights["LABEL_0"]) == {"the": 4, "a": 1, "and": 0}
    each = clouds.rank(told(), ONES)
    assert each.weights[second]["end"] == pytest.approx(5 / 8 + 1)


def test_rarity_weighs():
    cloud = clouds.rank(told(), {"a": 2.0, "the": 0.5}, normalise=False)
    assert dict(cloud.weights["LABEL_0"]) == {"the": 2, "a": 2, "and": 0}
    assert cloud.top("LABEL_0", 2)["token"].tolist() == ["a", "the"]  # of equal weights by name
    assert cloud.weights["LABEL_1"]["end"] == 30  # unknown tokens are the rarest


def test_overlap_counts_tokens_in_both_lists():
    cloud = clouds.rank(told(), ONES, normalise=False)
    assert cloud.overlap(1) == 0.0
    assert cloud.overlap(2) == 0.5  # the, a; end, the
    assert cloud.shared(2)["tokens"].item() == "the"
    assert cloud.overlap(6) == pytest.approx(3 / 6)
    with pytest.raises(InputError, match="from 1"):
        cloud.overlap(0)
    with pytest.raises(InputError, match="two classes"):
        clouds.rank(told()[1:2]).overlap(1)


def test_the_order_of_texts_changes_nothing(reviews):
    explain = nbsal.Explainer(reviews, "simple")
    many = explain.map([row["text"] for row in nbsal.samples.texts("reviews")[:24]], progress=False)
    order = np.random.default_rng(0).permutation(len(many))
    one, other = clouds.rank(many), clouds.rank([many[i] for i in order])
    assert {label: dict(w) for label, w in one.weights.items()} == {k: dict(w) for k, w in other.weights.items()}
    assert all(one.top(label).equals(other.top(label)) for label in one.labels)


def test_words_add_up_their_tokens(reviews):
    saliency = nbsal.Explainer(reviews, "gradxact", layer=5)("Unforgettable, UNFORGETTABLE whimsy!")
    cloud = clouds.rank([saliency], dict.fromkeys(saliency.tokens, 1.0), unit="word", normalise=False)
    words = saliency.by_word().assign(word=lambda f: f["word"].str.lower()).groupby("word")["score"].sum()
    assert len(words) < len(saliency.row.content)
    assert cloud.weights[saliency.prediction] == pytest.approx(words.to_dict())


def test_a_word_is_as_rare_as_its_rarest_token(reviews):
    saliency = nbsal.Explainer(reviews, "simple")("whimsy")
    pieces = [saliency.tokens[i] for i in saliency.row.content]
    assert len(pieces) > 1
    table = {piece: float(at + 1) for at, piece in enumerate(pieces)} | {"zebra": 99.0}
    weights = clouds.rank([saliency], table, unit="word").weights[saliency.prediction]
    assert weights["whimsy"] == pytest.approx(len(pieces))


def test_a_word_that_is_everywhere_weighs_nothing(reviews):
    """Rarity 0 is known, and no reason to look at the rarer pieces that the word consists of."""
    saliency = nbsal.Explainer(reviews, "simple")("whimsy")
    weights = clouds.rank([saliency], {"whimsy": 0.0, "zebra": 99.0}, unit="word").weights[saliency.prediction]
    assert weights["whimsy"] == 0


def test_a_table_of_rarity_from_any_texts(load):
    for architecture in ("bert", "roberta", "xlm-roberta"):
        subject = load(architecture, decoding=False)
        table = clouds.inverse_document_frequency([*axioms.TEXTS, "a film"], subject)
        assert table["film"] == pytest.approx(math.log(6 / 3))
        cloud = clouds.rank(nbsal.Explainer(subject, "simple").map(axioms.TEXTS, progress=False), table)
        assert all(math.isfinite(weight) for weights in cloud.weights.values() for weight in weights.values())
    with pytest.raises(InputError, match="no text"):
        clouds.inverse_document_frequency([], subject)


def test_leading_spaces_and_capitals_do_not_make_a_token_rare():
    assert [clouds.plain_token(token) for token in ("Ġthe", "▁The", "##ing", "▁")] == ["the", "the", "##ing", "▁"]


def test_the_shipped_table_is_used_unless_another_is_given(reviews):
    saliency = nbsal.Explainer(reviews, "simple")("lobster")
    (weight,) = clouds.rank([saliency]).weights[saliency.prediction].values()
    assert weight == pytest.approx(idf.load()["lobster"])
    assert json.loads(idf.TABLE.read_text())["documents"] > 3000


def test_clouds_are_drawn():
    cloud = clouds.rank(told(), ONES)
    one, other = cloud.wordcloud("LABEL_1", seed=1), cloud.wordcloud("LABEL_1", seed=1)
    assert one.size == (600, 300) and one.tobytes() == other.tobytes()
    assert np.asarray(one).min() < 128 < np.asarray(one).max()
    assert one.tobytes() != cloud.wordcloud("LABEL_0", seed=1).tobytes()
    figure = cloud.plot()
    assert [ax.get_title() for ax in figure.axes] == cloud.labels
    pyplot.close(figure)
    hostile = clouds.Cloud({"$x_1$ \u202e": {"$y_2$\x00\u202e": 1.0, "<b>": 2.0, "  ": 1.0}})
    hostile.plot().canvas.draw()
    pyplot.close("all")


def test_errors_say_the_way_out():
    cloud = clouds.rank(told(), ONES)
    with pytest.raises(UnknownName, match="LABEL_0, LABEL_1"):
        cloud.top("positive")
    with pytest.raises(UnknownName, match="token, word"):
        clouds.rank(told(), unit="letter")
    with pytest.raises(InputError, match="list is empty"):
        clouds.rank([])
    with pytest.raises(InputError, match="NaN"):
        clouds.rank([known.scoring(known.counting({}), end=float("nan"))("the end")])
    with pytest.raises(InputError, match="nothing to draw"):
        clouds.rank([known.scoring(known.counting({}), end=-1.0)("end")]).wordcloud("LABEL_0")
