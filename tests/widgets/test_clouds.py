"""The Clouds view: the layout of wordcloud, the texts of a picked word, and words that classes share."""

import threading

import pytest

import nbsal
from nbsal.errors import UnknownName
from nbsal.widgets import Clouds
from nbsal.widgets.corpus_view import CHUNK, excerpt
from tests.raising import refuses
from tests.widgets.test_view import from_page

TEXTS = [
    "A warm and funny film.",
    "A dull bore of a film.",
    "Warm, warm, warm: a joy.",
    "The plot is a mess and the acting is worse.",
    "Nothing warm here, only a dull, endless bore.",
]


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


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
    layout = [(w["word"], w["size"], w["x"]) for w in words(view, "positive")]
    assert layout == [(word, size, x) for word, _, size, x, _ in cloud.layout("positive", 10)]
    assert words(view, "positive")[0]["share"] == 1


def test_words_do_not_overlap(view):
    for cloud in view._clouds:
        boxes = [(w["x"], w["x"] + w["width"], w["y"] - w["size"] * 0.4, w["y"]) for w in cloud["words"][:4]]
        for i, (left, right, top, bottom) in enumerate(boxes):
            assert left >= 0 and right <= cloud["size"][0] + 1 and bottom <= cloud["size"][1] + 1
            for other in boxes[:i]:
                assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top


def test_a_click_on_a_word_shows_its_texts(view, explain):
    label = explain(TEXTS[2]).prediction
    from_page(view, picked=[label, "warm"])
    view.wait()
    expected = [n for n, text in enumerate(TEXTS) if "warm" in text.lower() and explain(text).prediction == label]
    assert sorted(view.texts_with(label, "warm")) == expected and view._texts_shown["count"] == len(expected) > 0
    for text in view._texts_shown["texts"]:
        assert {piece.lower() for piece, _, marked in text["pieces"] if marked} == {"warm"}
    from_page(view, picked=None)
    assert view.wait()._texts_shown["texts"] == []


def test_a_picked_word_calls_back_with_its_texts(view):
    selections = []
    view.on_select(lambda rows: selections.append(rows["number"].tolist()))
    from_page(view, picked=["negative", "dull"])
    assert selections == [view.texts_with("negative", "dull")] and selections[0]


def test_words_of_several_classes_are_marked(view):
    frame = view.to_frame()
    shared = frame[frame["shared"]]
    assert {w["word"] for cloud in view._clouds for w in cloud["words"] if "also" in w} <= set(shared["word"])
    assert (frame.groupby("word")["class"].nunique()[shared["word"]] == 2).all()
    assert not shared.empty and "underline" in view.to_html()
    assert f"{view.cloud.overlap(10):.1%}" in view._result["notes"][1]


def test_k_and_unit_can_be_changed(view):
    view.k = 3
    assert [len(cloud["words"]) for cloud in view.wait()._clouds] == [3, 3]
    view.unit = "token"
    assert view.wait().cloud.unit == "token"


def test_texts_are_explained_once(view, monkeypatch):
    monkeypatch.setattr(nbsal.Explainer, "map", lambda *_, **__: pytest.fail("it explains again"))
    view.k, view.picked = 5, ["positive", "film"]
    assert view.wait().status == "ready"


def test_other_texts_can_be_explained(view):
    view.explain(["Great.", "Awful."])
    assert len(view.wait().saliencies) == 2
    with refuses("texts"):
        view.explain("Great.")


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
    assert started.acquire(timeout=20) and started.acquire(timeout=20)
    assert len(view.saliencies) == CHUNK and view.result.text_count == CHUNK and 0 < view.progress < 1
    view.cancel()
    go.release()
    assert view.wait(20).status == "cancelled"
    go.release(5)
    view.k = 7
    assert view.wait(20).result.text_count == 2 * CHUNK + 5
    assert counts == [CHUNK] * 3 + [5], "only the cancelled ones are explained again"


def test_a_cloud_is_shown_without_texts(view):
    plain = Clouds(view.cloud).wait()
    assert [c["label"] for c in plain._clouds] == ["negative", "positive"] and plain.unit == "word"
    with refuses("unit", UnknownName) as caught:
        plain.unit = "token"
    assert caught.value.valid == ("word",)
    plain.picked = ["positive", "warm"]
    assert plain.wait()._texts_shown["count"] == 0


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
    assert "warm" in html and view.to_png()[:4] == b"\x89PNG"
    for dropped in ("<svg", "<style", "<script"):
        assert dropped not in view._repr_mimebundle_()[0]["text/html"]


def test_an_excerpt_is_short_and_contains_its_token(explain):
    saliency = explain("A dull film. " * 30 + "Only the end is warm and lovely. " + "A dull film. " * 30)
    pieces = excerpt(saliency, [saliency.tokens.index("warm")])
    text = "".join(piece for piece, *_ in pieces)
    assert "warm and lovely" in text and len(text) < 200 and text[0] == text[-1] == "\N{HORIZONTAL ELLIPSIS}"
    assert [piece for piece, _, marked in pieces if marked] == ["warm"]


def test_a_word_wider_than_its_cloud_is_shortened_and_the_others_stay():
    cloud = nbsal.clouds.Cloud({"a": {"x" * 500: 3.0, "joy": 2.0, "film": 1.0}})
    drawn = [word["word"] for word in Clouds(cloud).wait()._clouds[0]["words"]]
    assert drawn[1:] == ["joy", "film"] and drawn[0].startswith("xxx") and len(drawn[0]) == 30
