"""Clouds in Chromium: where words lie at every width, and how they are chosen by mouse and by keys."""

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Clouds
from tests.browser import bench

TEXTS = [row["text"] for row in nbsal.samples.texts("reviews")[:80]]
BOXES = """words => words.map(word => {
  const text = word.querySelector("b");
  const [box, inner] = [word, text].map(part => part.getBoundingClientRect().toJSON());
  return { box, text: inner, size: parseFloat(getComputedStyle(text).fontSize) };
})"""

LENGTHS = "bars => bars.map(bar => parseFloat(getComputedStyle(bar, '::after').width))"


@pytest.fixture(scope="module")
def corpus(small):
    """Clouds of 80 texts."""
    saliencies = nbsal.Explainer(small, "gradxact").map(TEXTS, progress=False)
    return Clouds(saliencies, picked=["negative", "dull"]).wait()


@pytest.fixture(scope="module")
def few(small):
    """Clouds of so few texts that every word is drawn."""
    saliencies = nbsal.Explainer(small, "gradxact").map(TEXTS[:40], progress=False)
    return Clouds(saliencies, picked=["negative", "dull"]).wait()


@pytest.fixture(scope="module")
def tested(small):
    """Clouds of 20 texts whose words were hidden."""
    return Clouds(nbsal.Explainer(small, "gradxact"), TEXTS[:20], k=8).wait()


def cloud(root, label):
    return root.get_by_role("listbox", name=f"Words of {label}")


def test_words_stay_inside_their_cloud(show, sheet, few):
    sheet.set_viewport_size({"width": 300, "height": 900})
    root = show(few)
    for label in ("negative", "positive"):
        field = cloud(root, label).bounding_box()
        words = cloud(root, label).get_by_role("option").evaluate_all(BOXES)
        assert len(words) >= 20
        for word in words:
            box, text = word["box"], word["text"]
            assert box["left"] >= field["x"] - 1 and box["right"] <= field["x"] + field["width"] + 1
            assert box["top"] >= field["y"] - 1 and box["bottom"] <= field["y"] + field["height"] + 1
            assert text["left"] >= box["left"] - 1 and text["right"] <= box["right"] + 1
            assert 12 <= word["size"] <= 42
    assert sheet.evaluate("() => document.documentElement.scrollWidth") == 300
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_a_click_chooses_a_word_and_another_releases_it(show, sheet, few):
    root = show(few, live=True)
    cloud_of = few._clouds[0]
    word, label = cloud_of["words"][0], cloud_of["label"]
    option = cloud(root, label).get_by_role("option", name=word["word"], exact=True)
    height = root.bounding_box()["height"]
    option.hover()
    expect(root.locator(".nbsal-readout")).to_have_text(f"{word['word']}{word['line']}")
    assert root.bounding_box()["height"] == height
    option.click()
    bench.expect_traits(sheet, picked=[label, word["word"]])
    expect(option).to_have_attribute("aria-selected", "true")
    option.click()
    bench.expect_traits(sheet, picked=None)


def test_words_are_chosen_by_keys(show, sheet, few):
    root = show(few, live=True)
    positive, words = cloud(root, "positive"), few._clouds[1]["words"]
    positive.press("Home")
    positive.press("Enter")
    bench.expect_traits(sheet, picked=["positive", words[0]["word"]])
    positive.press("ArrowRight")
    positive.press("ArrowDown")
    expect(root.locator(".nbsal-readout b")).to_have_text(words[2]["word"])
    positive.press("Space")
    bench.expect_traits(sheet, picked=["positive", words[2]["word"]])


def test_words_stay_while_texts_are_explained(show, sheet, corpus):
    first, last = (Clouds(corpus.saliencies[:count]).wait() for count in (32, 80))
    partial = {"_clouds": first._clouds, "_summary": first._summary | {"total": 80}, "_headline": first._headline}
    root = show(first, live=True)
    bench.change(sheet, **partial, status="computing", progress=0.4)
    names = root.get_by_role("option").all_text_contents()
    bench.change(sheet, _clouds=last._clouds, _summary=last._summary | {"explained": 64})
    assert root.get_by_role("option").all_text_contents() == names
    bench.change(sheet, _clouds=last._clouds, _summary=last._summary, status="ready", progress=None)
    assert root.get_by_role("option").all_text_contents() != names
    bench.change(sheet, _headline=last._headline)
    expect(root.locator(".nbsal-headline").first).to_have_text(last.result.caption())


def test_only_words_whose_hiding_changes_decisions_stand_out(show, sheet, tested):
    root = show(tested, live=True)
    for drawn in tested._clouds:
        options = cloud(root, drawn["label"]).get_by_role("option")
        weights = options.evaluate_all(
            "nodes => nodes.map(({ firstChild: word }) => [word.textContent, getComputedStyle(word).fontWeight])"
        )
        states = {word["word"]: word["state"] for word in drawn["words"]}
        assert len(weights) > 4 and {weight for _, weight in weights} == {"400", "600"}
        assert all((weight == "600") == (states[name] == "changes") for name, weight in weights)
    root.get_by_role("button", name="List", exact=True).click()
    expect(options.first.locator("span")).to_have_text(drawn["words"][0]["cells"])
    bars = options.locator("i").evaluate_all(LENGTHS)
    assert bars == sorted(bars, reverse=True) and bars[0] > bars[-1] > 0
    root.get_by_role("button", name="Cloud", exact=True).click()


def test_a_finished_cloud_has_no_table(show, few):
    root = show(Clouds(few.cloud).wait(), live=True)
    expect(root.locator("table:visible, input:visible")).to_have_count(0)
    expect(root.get_by_text("Save")).to_be_visible()
