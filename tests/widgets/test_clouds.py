"""The Clouds view: the words of each class, the texts of a picked word, and words that classes share."""

import dataclasses
import re
import threading

import numpy as np
import pytest

import nbsal
from nbsal.render import sheet
from nbsal.render.headline import plain
from nbsal.support.errors import UnknownName
from nbsal.support.validation import plural
from nbsal.widgets import Clouds
from nbsal.widgets.content import word_clouds
from nbsal.widgets.corpus_view import CHUNK
from tests.browser import bench
from tests.raising import refuses
from tests.widgets.test_view import from_page

TEXTS = [
    "A warm and funny film.",
    "A dull bore of a film.",
    "Warm, warm, warm: a joy.",
    "The plot is a mess and the acting is worse.",
    "Nothing warm here, only a dull, endless bore.",
]


@pytest.fixture
def view(explain):
    clouds = Clouds(explain, TEXTS, k=10, unit="word").wait()
    yield clouds
    clouds.close()


def words(view, label):
    return next(cloud["words"] for cloud in view._clouds if cloud["label"] == label)


def test_clouds_are_those_of_the_saliencies(view, explain):
    cloud = nbsal.clouds.rank(explain.map(TEXTS, progress=False), unit="word")
    assert [sent["label"] for sent in view._clouds] == cloud.labels == ["negative", "positive"]
    for label in cloud.labels:
        top = [(word, weight) for word, weight in cloud.words(label, 10)]
        assert [(w["word"], w["share"]) for w in words(view, label)] == [
            (word, pytest.approx(weight / top[0][1], abs=1e-4)) for word, weight in top
        ]
        assert all(weight > 0 for _, weight in top) and words(view, label)[0]["share"] == 1


def many_classes(counts):
    """Finished results with so many texts of each class."""
    return [
        dataclasses.replace(
            bench.saliency_of([f"word{i}{k}", "film"]),
            prediction=f"class {i}",
            target=f"class {i}",
            scores=np.array([0.0, 2.0, 1.0, 0.0]),
        )
        for i, count in enumerate(counts)
        for k in range(count)
    ]


def test_words_of_few_texts_are_drawn_smaller():
    texts = many_classes([40])  # each of them with a word of its own, and "film" in all
    view = Clouds(texts, idf={"film": 0.1, "rarest": 1.0}, unit="word", k=41).wait()
    (cloud,) = view._clouds
    weights = dict(view.cloud.words("class 0", 41))
    assert weights["film"] > weights["word00"] > weights["film"] / 3, "a third of it, as it is in one text of three"
    shares = {word["word"]: word["share"] for word in cloud["words"]}
    assert shares["film"] == 1 and shares["word00"] == pytest.approx(weights["word00"] / weights["film"] / 3, abs=1e-3)
    few = Clouds(texts[:20], idf={"film": 0.1, "rarest": 1.0}, unit="word").wait()._clouds[0]["words"]
    assert few[-1]["share"] > 2 * shares["word00"], "of few texts no word is in many"
    assert "not tested: no model" in view.result.caption() and cloud["words"][0]["state"] == "ranked"
    (drawn,) = (block for block in view.sheet().blocks if isinstance(block, sheet.SizedWords))
    assert len({word.size for word in drawn.words}) == 2 and {word.text for word in drawn.words} == shares.keys()
    assert view.to_frame()["texts"].tolist() == [40, *[1] * 40]


def test_the_words_are_hidden(small):
    explain, texts = nbsal.Explainer(small, "gradxact"), [row["text"] for row in nbsal.samples.texts("reviews")[:20]]
    view = Clouds(explain, texts, k=8).wait()
    audit = nbsal.audit(explain, texts, least=1, progress=False)
    assert any(word["state"] == "changes" for cloud in view._clouds for word in cloud["words"])
    for cloud in view._clouds:
        for word in cloud["words"]:
            effect = audit.hide([word["word"]])
            decided = [
                (audit.predictions[text], after)
                for text, after in zip(effect.texts, effect.without, strict=True)
                if audit.classes[audit.predictions[text]] == cloud["label"]
            ]
            count = sum(before != after for before, after in decided)
            assert word["cells"][2] == f"changes {count} of {len(decided)}"
            assert word["state"] == ("changes" if count else "idle")
    named = [text for kind, text in view._headline if kind == "class"]
    states = {word["word"]: word["state"] for cloud in view._clouds for word in cloud["words"]}
    assert named and all(states[word] == "changes" for word in named)
    for cloud in view._clouds:
        _, table = word_clouds.cloud_blocks(view.result, cloud["label"], "list")
        hues = {word: bar.hue for word, bar, *_ in table.rows}
        assert hues == {word: cloud["hue"] if states[word] == "changes" else "idle" for word in hues}


def test_words_beyond_the_first_are_not_tested(explain, monkeypatch):
    monkeypatch.setattr(word_clouds, "MOST_TESTED", 3)
    view = Clouds(explain, TEXTS, k=10).wait()
    states = [word["state"] for cloud in view._clouds for word in cloud["words"]]
    assert 3 <= len(states) - states.count("ranked") <= 6 and states.count("ranked") > 5
    assert f"{states.count('ranked')} ranked, not tested." in view.result.caption()
    shown = [word["share"] for cloud in view._clouds for word in cloud["words"] if word["state"] != "ranked"]
    assert min(shown) >= 0.5, "the largest ones are"


def test_entities_of_html_are_no_words(explain):
    view = Clouds(explain, ["A warm film &amp; isn&#39;t dull.", "A joy, isn #39;t it?"], k=50).wait()
    names = {word["word"] for cloud in view._clouds for word in cloud["words"]} | {*view.cloud.weights["negative"]}
    assert names and not names & {"39", "amp", "&", "#", ""}


def test_the_four_classes_with_most_texts_have_hues():
    view = Clouds(many_classes([2, 1, 3, 2, 1, 4]), idf={}).wait()
    assert [cloud["hue"] for cloud in view._clouds] == [0, None, 1, 2, None, 3]
    drawn = [block.hue for block in view.sheet().blocks if isinstance(block, sheet.SizedWords)]
    assert drawn == [0, None, 1, 2, None, 3] and view.to_png()[:4] == b"\x89PNG"


def test_no_word_scores_for_a_class():
    cloud = nbsal.clouds.Cloud({"bad": {"film": -1.0}, "good": {"joy": 2.0}}, "word")
    view = Clouds(cloud).wait()
    assert view.result.caption() == "Ranked first for bad: no word; for good: joy (not tested: no model)."
    assert "No word scores for bad." in view.to_html() and view.to_png()[:4] == b"\x89PNG"


def test_a_click_on_a_word_shows_its_texts(view, explain):
    label = explain(TEXTS[2]).prediction
    from_page(view, picked=[label, "warm"])
    view.wait()
    expected = [n for n, text in enumerate(TEXTS) if "warm" in text.lower() and explain(text).prediction == label]
    assert sorted(view.texts_with(label, "warm")) == expected != []
    assert view.result.table.numbers.tolist() == view.texts_with(label, "warm")
    assert plain(view._table["heading"]).startswith(f"“warm” scores for {label} in {plural(len(expected), 'text')}")
    for row in view._table["rows"]:
        assert {piece.lower() for piece, _, marked in row["pieces"] if marked} == {"warm"}
        without = nbsal.audit(explain, TEXTS, least=1, progress=False).hide(["warm"])
        after = without.without[without.texts.index(row["number"])]
        assert (row["remark"][1] == "with or without it") == (view.subject.labels[after] == label)
    from_page(view, picked=None)
    assert len(view.wait()._table["rows"]) == len(TEXTS)


def test_a_picked_word_calls_back_with_its_texts(view):
    selections = []
    view.on_select(lambda rows: selections.append(rows["number"].tolist()))
    from_page(view, picked=["negative", "dull"])
    assert selections == [view.texts_with("negative", "dull")] and selections[0]


def test_words_of_several_classes_are_marked(view):
    frame = view.to_frame()
    shared = frame[frame["shared"]]
    assert {w["word"] for cloud in view._clouds for w in cloud["words"] if w["shared"]} <= set(shared["word"])
    assert (frame.groupby("word")["class"].nunique()[shared["word"]] == 2).all()
    assert not shared.empty and "underline" in view.to_html() and (frame["weight"] > 0).all()
    count = shared["word"].nunique()
    assert (
        view._summary["overlap"]
        == f"{plural(count, 'word')} in 10 {'is' if count == 1 else 'are'} shared by both classes"
    )
    assert view.cloud.overlap(10) == count / 10 and "Underlined" in view._summary["hint"]


def test_k_and_unit_can_be_changed(view):
    view.k = 3
    assert [len(cloud["words"]) for cloud in view.wait()._clouds] == [3, 3]
    view.unit = "token"
    assert view.wait().cloud.unit == "token"


def test_many_texts_are_shown_as_they_are_explained_and_a_cancelled_view_resumes(explain, monkeypatch):
    started, go = threading.Semaphore(0), threading.Semaphore(0)
    original = nbsal.Explainer.map
    counts = []

    def slow(self, texts, **settings):
        started.release()
        go.acquire()
        counts.append(len(texts))
        return original(self, texts, **settings)

    monkeypatch.setattr(nbsal.Explainer, "map", slow)
    view = Clouds(explain, [f"A film {i}." for i in range(2 * CHUNK + 5)])
    go.release()
    assert started.acquire(timeout=120) and started.acquire(timeout=120)
    assert len(view.saliencies) == CHUNK and view.result.text_count == CHUNK and 0 < view.progress < 1
    view.cancel()
    go.release()
    assert view.wait(120).status == "cancelled"
    go.release(5)
    view.k = 7
    assert view.wait(120).result.text_count == 2 * CHUNK + 5
    assert counts == [CHUNK] * 3 + [5], "only the cancelled ones are explained again"


def test_a_cloud_is_shown_without_texts(view):
    saved = Clouds(view.cloud).wait()
    assert [c["label"] for c in saved._clouds] == ["negative", "positive"] and saved.unit == "word"
    with refuses("unit", UnknownName) as caught:
        saved.unit = "token"
    assert caught.value.valid == ("word",)
    saved.picked = ["positive", "warm"]
    assert saved.wait()._table["total"] == 0 == len(saved.selected())
    assert "text" not in saved._clouds[0]["words"][0]["line"].replace("not tested", "")
    assert "texts" not in saved.result.caption() and "Select" not in saved._summary["hint"]


def test_impossible_arguments_are_refused(view, explain):
    with refuses("texts"):
        Clouds(explain)
    for source in (3, [], "texts"):
        with refuses("source"):
            Clouds(source)
    with refuses("source"):
        Clouds(view.saliencies, TEXTS)
    with refuses("picked"):
        Clouds(explain, TEXTS, picked=["positive"])
    with refuses("texts"):
        Clouds(view.saliencies).explain(TEXTS)


def test_exports_hold_the_words(view):
    html = view.to_html()
    assert view.result.caption() in re.sub("<[^>]*>", "", html)
    assert "warm" in html and view.to_png()[:4] == b"\x89PNG"
    for dropped in ("<svg", "<style", "<script"):
        assert dropped not in view._repr_mimebundle_()[0]["text/html"]
