"""Highlight and Layers in Chromium, by mouse and by keyboard."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.render import colours
from nbsal.render.headline import percent
from nbsal.widgets import Highlight, Layers
from nbsal.widgets.layers import LayerWords
from tests.browser import bench
from tests.browser.bench import REAL, SIGNED, tokens


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


def test_words_sum_their_tokens(show, sheet, views):
    root = show("highlight")
    frame = views["highlight"].result.by_word()
    expect(tokens(root)).to_have_text(frame["word"].tolist())
    place = frame["word"].tolist().index("unbelievably")
    tokens(root).nth(place).hover()
    score = re.search(r"score (\S+) · 5 tokens", root.locator(".nbsal-readout").inner_text())[1].replace("\u2212", "-")
    assert abs(float(score) - frame["score"][place]) <= 0.005 * abs(frame["score"][place]) + 1e-4
    tokens(root).nth(place).click()
    bench.expect_traits(sheet, selection=list(views["highlight"].result.row.words[place].tokens))


HUES = {"for": (0.941, 0.6, 0.235), "against": (0.416, 0.639, 0.878)}  # on light paper


def test_colour_and_mark_tell_the_sign(show, views, sheet):
    root = show("highlight")
    result = views["highlight"].result
    bench.choose(root, "Unit", "Tokens")
    sheet.mouse.move(0, 0)
    for k, i in enumerate(result.row.content):
        strength, side = abs(result.scores[i]) / result.largest, "for" if result.scores[i] > 0 else "against"
        style = tokens(root).nth(k).evaluate("node => getComputedStyle(node).backgroundColor")
        if strength >= 0.02:
            hue_and_alpha = [float(number) for number in re.findall(r"[\d.]+", style)]
            assert hue_and_alpha[:3] == pytest.approx(HUES[side], abs=1e-3)
            assert (hue_and_alpha[3:] or [1]) == pytest.approx([strength], abs=6e-4)
        marked = tokens(root).nth(k).evaluate("node => getComputedStyle(node).backgroundImage") != "none"
        assert marked == (result.scores[i] < 0 and strength >= colours.FAINT / colours.STRONGEST)
    bench.choose(root, "Show", "For only")
    assert root.locator(".nbsal-text .nbsal-against").count() == 0
    assert [strength > 0 for strength in strengths(root)] == [
        result.scores[i] / result.largest >= 0.02 for i in result.row.content
    ]


def test_clicks_select_a_token_a_span_or_one_token_more(show, sheet):
    root = show("highlight")
    bench.choose(root, "Unit", "Tokens")
    tokens(root).nth(3).hover()
    expect(readout(root).locator("b")).to_have_text("un\u00b7believably")  # a token is named in its word
    tokens(root).nth(1).click()
    bench.expect_traits(sheet, selection=[2])
    tokens(root).nth(4).click(modifiers=["Shift"])
    bench.expect_traits(sheet, selection=[2, 3, 4, 5])
    tokens(root).nth(6).click(modifiers=["Control"])
    bench.expect_traits(sheet, selection=[2, 3, 4, 5, 7])
    expect(tokens(root).and_(root.locator("[aria-selected=true]"))).to_have_count(5)
    tokens(root).nth(1).click()
    tokens(root).nth(1).click()
    bench.expect_traits(sheet, selection=[])


def test_every_action_of_the_text_has_its_key(show, sheet, views):
    sheet.set_viewport_size({"width": 500, "height": 900})  # several lines
    root = show("highlight")
    listbox = root.get_by_role("listbox", name="The text, word by word")
    listbox.focus()
    readout = root.locator(".nbsal-readout")
    for key, expected in [("ArrowRight", "warm"), ("End", "."), ("Home", "A"), ("PageDown", "bad")]:
        listbox.press(key)
        expect(readout.locator("b")).to_have_text(expected)
    listbox.press("Home")
    listbox.press("ArrowDown")
    second = listbox.get_attribute("aria-activedescendant")
    assert not second.endswith("-0")
    listbox.press("ArrowUp")
    listbox.press("Home")
    listbox.press("Enter")
    bench.expect_traits(sheet, selection=[1])
    listbox.press("Shift+ArrowRight")
    listbox.press("Shift+ArrowRight")
    bench.expect_traits(sheet, selection=[1, 2, 3])
    listbox.press("Escape")
    bench.expect_traits(sheet, selection=[])
    listbox.press("n")
    for _ in range(22):
        if "rank 1 of 22" in readout.inner_text():
            break
        listbox.press("n")
    frame = views["highlight"].result.by_word()
    expect(readout.locator("b")).to_have_text(frame["word"][frame["score"].abs().idxmax()])
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_search_goes_from_match_to_match(show):
    root = show(Highlight(bench.saliency_of([f"word{i}" for i in range(420)])).wait())
    find = root.get_by_label("Find in the text")
    find.fill("WORD41")
    expect(root.locator(".nbsal-match")).to_have_text(["word41", *(f"word41{i}" for i in range(10))])
    for expected in ["1 of 11", "2 of 11", "3 of 11"]:
        find.press("Enter")
        expect(root.locator(".nbsal-search output")).to_have_text(expected)
    expect(tokens(root).nth(411)).to_be_in_viewport()
    for expected in ["2 of 11", "1 of 11", "11 of 11"]:
        find.press("Shift+Enter")
        expect(root.locator(".nbsal-search output")).to_have_text(expected)
    find.fill("none")
    expect(root.locator(".nbsal-search output")).to_have_text("Not found")
    find.press("Escape")
    expect(root.locator(".nbsal-match")).to_have_count(0)


def test_layers_are_chosen_by_click_and_by_key(show, sheet):
    root = show("layers")
    grid = root.get_by_role("grid")
    root.get_by_role("rowheader", name="layer 5").click()
    bench.expect_traits(sheet, layer=5)
    expect(root.get_by_role("row", selected=True)).to_contain_text("layer 5")
    grid.focus()
    for key in ["Home", "ArrowUp", "ArrowUp", "ArrowRight"]:
        grid.press(key)
    expect(grid_readout(root)).to_have_text(re.compile(r"^warm · layer 3 · .*\d+.% of that layer’s strongest word$"))
    bench.expect_traits(sheet, layer=3)
    grid.press("Space")
    bench.expect_traits(sheet, selection=[2])
    expect(root.get_by_role("columnheader", selected=True)).to_have_text("warm")
    expect(tokens(root).nth(1)).to_have_attribute("aria-selected", "true")
    grid.press("Escape")
    bench.expect_traits(sheet, selection=[])


def grid_readout(root):
    """The line under the grid of layers."""
    return root.locator(".nbsal-layers-panel .nbsal-readout")


def strengths(root):
    """How strongly each word of the text is coloured."""
    return tokens(root).evaluate_all("nodes => nodes.map(node => Number(node.style.getPropertyValue('--s')))")


def test_walking_the_layers_paints_the_text_without_python(show, sheet, views):
    root = show("layers", live=True)
    words, grid, height = LayerWords(views["layers"].result), root.get_by_role("grid"), root.bounding_box()["height"]
    grid.focus()
    for layer in (2, 1, 0):
        grid.press("ArrowUp")
        bench.expect_traits(sheet, layer=layer)
        expected = np.abs(words.scores[layer]) / (words.largest(layer) or 1)
        strong = pytest.approx([share if share >= 0.02 else 0 for share in expected], abs=2e-3)
        bench.wait_for(sheet, lambda: strengths(root), strong)
    assert root.bounding_box()["height"] == height
    sheet.mouse.move(0, 0)
    root.get_by_role("gridcell").nth(20).hover()
    assert root.bounding_box()["height"] == height


def test_a_wide_grid_draws_only_visible_cells(show, sheet):
    view = Layers(bench.saliency_of([f"w{i}" for i in range(2000)], layers=7)).wait()
    root = show(view)
    words = LayerWords(view.result)
    strongest = words.names[np.abs(words.scores[view.chosen]).argmax()]
    expect(root.get_by_role("columnheader", name=strongest, exact=True)).to_be_in_viewport()  # where it starts
    assert root.get_by_role("gridcell").count() < 7 * 120
    root.get_by_role("grid").focus()
    root.get_by_role("grid").press("End")
    expect(grid_readout(root)).to_contain_text("w1999")
    expect(root.get_by_role("columnheader", name="w1999")).to_be_in_viewport()


def test_a_selected_span_can_be_explained(show, sheet):
    """Only what the page sends is tested here; the tests of Python cover its answer."""
    answers = nbsal.Explainer(nbsal.load("demo/answers"), SIGNED, layer=3)
    view = Highlight(answers, text=("Who ran?", "The old dog ran home."), check=False).wait()
    root = show(view, live=True)
    expect(root.locator(".nbsal-headline strong")).to_have_text(view.result.prediction)
    explain = root.get_by_role("button", name="Explain this span")
    expect(explain).to_be_disabled()
    tokens(root).nth(4).click()
    tokens(root).nth(5).click(modifiers=["Shift"])
    explain.click()
    bench.expect_traits(sheet, target=[6, 7], selection=[6, 7])


def test_faint_scores_can_be_raised_and_set_back(show):
    root = show("highlight")
    before = strengths(root)
    root.get_by_text("Display", exact=True).click()
    root.get_by_label("Faint scores").fill("90")
    assert sum(strengths(root)) > sum(before) and max(strengths(root)) == 1
    root.get_by_label("Full colour at").fill("50")
    assert strengths(root).count(1) > before.count(1)
    root.get_by_role("button", name="Back to standard").click()
    assert strengths(root) == before


HINT = "Point at a word to see its score."


def readout(root):
    return root.locator(".nbsal-main .nbsal-readout").first


def score_of(saliency, k):
    """What a readout says of word k after its name."""
    scores = saliency.word_scores
    share = percent(abs(scores[k]) / max(map(abs, scores)), 0)
    rank = sorted(map(abs, scores), reverse=True).index(abs(scores[k])) + 1
    return f" · {'for' if scores[k] > 0 else 'against'}, {share} · rank {rank} of {len(scores)}"


def test_a_readout_has_no_number_until_that_of_the_new_choice_is_there(show, sheet, views):
    sheet.set_viewport_size({"width": 880, "height": 900})  # any answer fits in one line: the text does not move
    root = show("highlight", live=True)
    before = views["highlight"].result
    tokens(root).nth(4).hover()
    expect(readout(root)).to_contain_text(f"funny{score_of(before, 4)}")
    sheet.evaluate("() => window.view.model.set('method', 'attcat')")
    sheet.evaluate("() => window.view.model.set('status', 'computing')")
    expect(readout(root).locator(".nbsal-score")).to_be_hidden()
    expect(readout(root).get_by_text("funny")).to_be_visible()
    after = Highlight(views["highlight"].explainer, text=REAL, method="attcat").wait()
    bench.answer(sheet, after)
    expect(readout(root)).to_contain_text(f"funny{score_of(after.result, 4)}")
    expect(readout(root).locator(".nbsal-score")).to_be_visible()
    assert score_of(before, 4) != score_of(after.result, 4)
    sheet.mouse.move(0, 0)
    expect(readout(root)).to_have_text(HINT)
    sheet.set_viewport_size({"width": 1100, "height": 900})
