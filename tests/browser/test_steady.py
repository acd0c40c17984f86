"""Readouts and heights in Chromium: numbers are those of what is chosen, and nothing moves on hover or progress."""

import pytest
from playwright.sync_api import expect

from nbsal.render.headline import percent
from nbsal.widgets import Highlight
from tests.browser import bench
from tests.browser.bench import REAL, every_view, tokens

HINT = "Point at a word to see its score."


def readout(root):
    return root.locator(".nbsal-main .nbsal-readout").first


def score_of(saliency, k):
    """What a readout says of word k after its name."""
    scores = [word.score for word in saliency.weighed_words()]
    share = percent(abs(scores[k]) / max(map(abs, scores)), 0)
    rank = sorted(map(abs, scores), reverse=True).index(abs(scores[k])) + 1
    return f" · {'for' if scores[k] > 0 else 'against'}, {share} · rank {rank} of {len(scores)}"


@pytest.mark.parametrize("change", [{"method": "attcat"}, {"target": "negative"}, {"layer": 1}], ids=str)
def test_a_readout_has_no_number_until_that_of_the_new_choice_is_there(show, sheet, views, change):
    sheet.set_viewport_size({"width": 880, "height": 900})  # any answer fits in one line: the text does not move
    root = show("highlight", live=True)
    before = views["highlight"].result
    tokens(root).nth(4).hover()
    expect(readout(root)).to_contain_text(f"funny{score_of(before, 4)}")
    ((name, value),) = change.items()
    sheet.evaluate("([name, value]) => window.view.model.set(name, value)", [name, value])
    sheet.evaluate("() => window.view.model.set('status', 'computing')")
    expect(readout(root).locator(".nbsal-score")).to_be_hidden()
    expect(readout(root).get_by_text("funny")).to_be_visible()
    after = Highlight(views["highlight"].explainer, text=REAL, **change).wait()
    bench.answer(sheet, after)
    expect(readout(root)).to_contain_text(f"funny{score_of(after.result, 4)}")
    expect(readout(root).locator(".nbsal-score")).to_be_visible()
    assert score_of(before, 4) != score_of(after.result, 4)
    sheet.mouse.move(0, 0)
    expect(readout(root)).to_have_text(HINT)
    sheet.set_viewport_size({"width": 1100, "height": 900})


def height(root):
    return root.bounding_box()["height"]


@pytest.mark.some(1)
@every_view
@pytest.mark.parametrize("width", [400, 1400])
def test_pointing_and_computing_never_change_the_height(show, sheet, views, name, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(name, live=True)
    words = root.locator(".nbsal-word" if name == "clouds" else ".nbsal-text .nbsal-mark:visible")
    sheet.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")  # laid out
    before, count = height(root), words.count()
    assert count > 5
    for k in range(0, count, -(-count // 8)):
        words.nth(k).hover(force=True)
        assert height(root) == before, words.nth(k).inner_text()
    sheet.mouse.move(0, 0)
    status = "([status, progress]) => { const { model } = window.view; model.set('progress', progress); "
    status += "model.set('status', status); }"
    cancel = root.get_by_role("button", name="Cancel")
    for state, progress in [("computing", None), ("computing", 0.4), ("cancelling", 0.4), ("cancelled", None)]:
        sheet.evaluate(status, [state, progress])
        expect(cancel).to_be_visible(visible=state != "cancelled")
        assert height(root) == before, state
    bench.answer(sheet, views[name])
    assert height(root) == before, "the same result again"
    sheet.evaluate("() => { window.view.model.send = () => { throw new Error('Cannot send'); }; }")
    words.nth(0).click(force=True)
    expect(root.locator(".nbsal-state")).to_contain_text("Python has stopped")
    assert height(root) == before or name in ("clouds", "browse", "games"), "a press may open something"
    sheet.set_viewport_size({"width": 1100, "height": 900})
