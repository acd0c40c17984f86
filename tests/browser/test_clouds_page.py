"""Clouds in Chromium: where words lie at every width, their hues, and how they are chosen by mouse and by keys."""

import colorsys
import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Clouds
from tests.browser import bench

TEXTS = [row["text"] for row in nbsal.samples.texts("reviews")]
BOXES = """words => words.map(word => {
  const [box, text] = [...word.children].map(part => part.getBoundingClientRect());
  return { box: box.toJSON(), text: text.toJSON(), size: parseFloat(word.lastChild.getAttribute("font-size")) };
})"""


@pytest.fixture(scope="module")
def corpus(reviews):
    """Clouds of 160 texts."""
    saliencies = nbsal.Explainer(reviews, "decoded-gradxact").map(TEXTS, progress=False)
    return Clouds(saliencies, picked=["negative", "dull"]).wait()


def cloud(root, label):
    return root.get_by_role("listbox", name=f"Words of {label}")


def measured(root, label):
    return cloud(root, label).get_by_role("option").evaluate_all(BOXES)


@pytest.mark.some(3)
@pytest.mark.parametrize("width", [300, 400, 560, 680, 760, 900, 1400])
def test_words_never_touch_and_stay_inside_their_cloud(show, sheet, corpus, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(corpus)
    for label in ("negative", "positive"):
        field = cloud(root, label).bounding_box()
        words = measured(root, label)
        assert len(words) >= (20 if width < 400 else 27)
        for i, word in enumerate(words):
            box, text = word["box"], word["text"]
            assert box["left"] >= field["x"] - 1 and box["right"] <= field["x"] + field["width"] + 1
            assert box["top"] >= field["y"] - 1 and box["bottom"] <= field["y"] + field["height"] + 1
            assert text["left"] >= box["left"] - 1 and text["right"] <= box["right"] + 1
            assert 12 <= word["size"] <= 42
            for other in (entry["box"] for entry in words[:i]):
                across = max(box["left"] - other["right"], other["left"] - box["right"])
                down = max(box["top"] - other["bottom"], other["top"] - box["bottom"])
                assert max(across, down) >= 5, f"{i} at {width}"
    assert sheet.evaluate("() => document.documentElement.scrollWidth") == width


def test_a_resized_view_lays_its_words_out_again(show, sheet, corpus):
    sheet.set_viewport_size({"width": 1400, "height": 900})
    root = show(corpus)
    before = measured(root, "negative")
    sheet.set_viewport_size({"width": 500, "height": 900})
    expect(root.locator(".nbsal-words svg").first).to_have_attribute("width", re.compile("^4"))
    assert measured(root, "negative") != before
    sheet.set_viewport_size({"width": 1400, "height": 900})
    expect(root.locator(".nbsal-words svg").first).to_have_attribute("width", re.compile("^6"))
    assert [word["size"] for word in measured(root, "negative")] == [word["size"] for word in before]


def test_type_grows_with_the_root_of_the_weight(show, sheet, corpus):
    sheet.set_viewport_size({"width": 1400, "height": 900})
    root = show(corpus)
    words = corpus._clouds[0]["words"]
    names = cloud(root, "negative").get_by_role("option").all_text_contents()
    shares = {word["word"]: word["share"] for word in words}
    for name, word in zip(names, measured(root, "negative"), strict=True):
        assert word["size"] == pytest.approx(12 + 30 * shares[name] ** 0.5, abs=0.1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_class_has_a_hue_that_is_neither_orange_nor_blue(show, sheet, corpus, theme):
    root = show(corpus)
    sheet.emulate_media(color_scheme=theme)
    hues = []
    for label in ("negative", "positive"):
        colour = cloud(root, label).locator("text").first.evaluate("node => getComputedStyle(node).fill")
        red, green, blue = (int(channel) / 255 for channel in re.findall(r"\d+", colour))
        hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
        assert saturation > 0.3 and not 15 <= 360 * hue <= 40 and not 195 <= 360 * hue <= 240
        hues.append(round(360 * hue))
    assert abs(hues[0] - hues[1]) > 60


def test_the_clouds_say_what_python_says(show, sheet, corpus):
    root = show(corpus, live=True)
    result = corpus.result
    expect(root.locator(".nbsal-headline")).to_have_text(result.caption())
    expect(root.get_by_text(result.overlap(), exact=True)).to_be_visible()
    expect(root.get_by_text(result.hint(), exact=True)).to_be_visible()
    heading, note = result.picked_heading()
    expect(root.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    expect(root.get_by_text(note, exact=True)).to_be_visible()
    expect(root.locator(".nbsal-quotes li")).to_have_count(len(result.texts))
    expect(root.locator(".nbsal-quotes .nbsal-highlighted").first).to_have_text("dull")
    expect(cloud(root, "negative").get_by_role("option", selected=True)).to_have_text("dull")


def test_a_click_chooses_a_word_and_another_releases_it(show, sheet, corpus):
    root = show(corpus, live=True)
    words = corpus._clouds[1]["words"]
    option = cloud(root, "positive").get_by_role("option", name=words[1]["word"], exact=True)
    height = root.bounding_box()["height"]
    option.hover()
    share = f"{100 * words[1]['share']:.0f}\u202f%"
    count = f"{words[1]['texts']} text{'' if words[1]['texts'] == 1 else 's'}"
    expect(root.locator(".nbsal-readout")).to_have_text(
        f"{words[1]['word']} · positive · in {count} · {share} of the strongest word"
    )
    assert root.bounding_box()["height"] == height
    option.click()
    bench.expect_traits(sheet, picked=["positive", words[1]["word"]])
    expect(option).to_have_attribute("aria-selected", "true")
    expect(root.locator(".nbsal-outdated")).to_have_count(1)
    option.click()
    bench.expect_traits(sheet, picked=None)


def test_words_are_chosen_by_keys(show, sheet, corpus):
    root = show(corpus, live=True)
    positive, words = cloud(root, "positive"), corpus._clouds[1]["words"]
    positive.press("Home")
    positive.press("Enter")
    bench.expect_traits(sheet, picked=["positive", words[0]["word"]])
    positive.press("ArrowRight")
    positive.press("ArrowDown")
    expect(root.locator(".nbsal-readout b")).to_have_text(words[2]["word"])
    positive.press("Space")
    bench.expect_traits(sheet, picked=["positive", words[2]["word"]])


def test_a_list_holds_the_words_that_find_no_room(show, sheet, corpus):
    sheet.set_viewport_size({"width": 760, "height": 900})
    corpus.k = 100
    root = show(corpus.wait(), live=True)
    drawn = root.get_by_role("option").count()
    listed = sum(len(entry["words"]) for entry in corpus._clouds)
    expect(root.get_by_text(f"{listed - drawn} words more in the list")).to_be_visible()
    root.get_by_role("button", name="List").click()
    bench.expect_traits(sheet, form="list")
    expect(root.get_by_role("option")).to_have_count(listed)
    names = cloud(root, "negative").get_by_role("option").locator("b")
    expect(names).to_have_text([word["word"] for word in corpus._clouds[0]["words"]])
    names.nth(3).click()
    bench.expect_traits(sheet, picked=["negative", corpus._clouds[0]["words"][3]["word"]])
    root.get_by_role("button", name="Cloud").click()
    expect(root.get_by_role("option")).to_have_count(drawn)
    shared = {word["word"] for entry in corpus._clouds for word in entry["words"] if "also" in word}
    underlined = root.locator("g[role=option] text").evaluate_all(
        "nodes => nodes.filter(n => getComputedStyle(n).textDecorationLine === 'underline').map(n => n.textContent)"
    )
    assert underlined and set(underlined) <= shared
    corpus.k = 30
    corpus.wait()


def test_the_number_of_words_and_the_unit_are_set(show, sheet, corpus):
    root = show(corpus, live=True)
    steps = root.get_by_role("group", name="Words per cloud")
    expect(steps).to_contain_text("30 words")
    steps.get_by_role("button", name="More words").click()
    bench.expect_traits(sheet, k=35)
    for _ in range(6):
        steps.get_by_role("button", name="Fewer words").click()
    bench.expect_traits(sheet, k=5)
    expect(steps.get_by_role("button", name="Fewer words")).to_be_disabled()
    bench.choose(root, "Unit", "Tokens")
    bench.expect_traits(sheet, unit="token")


def test_words_stay_while_texts_are_explained(show, sheet, corpus):
    first, last = (Clouds(corpus.saliencies[:count]).wait() for count in (64, 160))
    partial = {"_clouds": first._clouds, "_summary": first._summary | {"total": 160}}
    root = show(first, live=True)
    bench.change(sheet, **partial, status="computing", progress=0.4)
    names = root.get_by_role("option").all_text_contents()
    bench.change(sheet, _clouds=last._clouds, _summary=last._summary | {"explained": 128})
    assert root.get_by_role("option").all_text_contents() == names
    bench.change(sheet, _clouds=last._clouds, _summary=last._summary, status="ready", progress=None)
    assert root.get_by_role("option").all_text_contents() != names
    expect(root.locator(".nbsal-headline")).to_have_text(last.result.caption())


def test_a_cloud_without_texts_offers_none(show, sheet, corpus):
    root = show(Clouds(corpus.cloud, picked=["positive", "warm"]).wait())
    expect(root.get_by_text("This cloud was saved without its texts.")).to_be_visible()
    expect(root.get_by_text("Select a word")).to_have_count(0)
    root.get_by_text("Display", exact=True).click()
    expect(root.get_by_role("button", name="Tokens")).to_be_disabled()
