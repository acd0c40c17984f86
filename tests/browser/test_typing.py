"""Typing in Chromium: what is sent when, what is dim at once, and that no answer of an older text is ever drawn."""

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Compare, Games, Highlight, Layers, Workbench
from nbsal.widgets.base import progress_words
from tests.browser import bench
from tests.browser.bench import REAL, tokens

# Records when which text is sent.
RECORD = """() => {
  const { model } = window.view;
  window.sent = [];
  model.on('change:text', () => window.sent.push([performance.now(), model.get('text')]));
}"""
# Records the opacities that the headline and a panel have one after the other.
WATCH_OPACITY = """() => {
  const look = () => {
    for (const node of document.querySelectorAll('.nbsal-headline, .nbsal-layers-panel')) {
      const opacity = Number(getComputedStyle(node).opacity);
      if (opacity !== window.opacities.at(-1)) window.opacities.push(opacity);
    }
    requestAnimationFrame(look);
  };
  window.opacities = [];
  look();
}"""
KINDS = {"highlight": Highlight, "layers": Layers, "compare": Compare, "games": Games, "workbench": Workbench}
each_kind = pytest.mark.parametrize("name", ["highlight", "compare", "workbench"])


def edit(root):
    """Open the editor with the caret at the end; its text area."""
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.press("Control+End")
    return area


def of_text(views, name, text, **settings):
    """A view like the one of that name, of another text."""
    explain = views["highlight"].explainer
    if name == "compare":
        settings = {"other_method": "decoded-gradcam"} | settings
    return KINDS[name](explain, text=text, **settings).wait()


def answers(root):
    """What is said and drawn of the result."""
    return root.locator(".nbsal-headline, .nbsal-evidence, .nbsal-share, .nbsal-notes").all_inner_texts()


def test_texts_are_sent_at_most_every_80_ms_and_the_last_one_always(show, sheet):
    root = show("highlight", live=True)
    edit(root)
    sheet.evaluate(RECORD)
    sheet.keyboard.type(" A joy, from start to end.", delay=15)
    sheet.wait_for_function("(last) => window.view.model.get('text') === last", arg=f"{REAL} A joy, from start to end.")
    sent = sheet.evaluate("() => window.sent")
    gaps = np.diff([at for at, _ in sent])
    assert sent[0][1] == f"{REAL} ", "the first key at once"
    assert len(gaps) > 2 and gaps.min() >= 80
    sheet.wait_for_timeout(200)
    assert len(sheet.evaluate("() => window.sent")) == len(sent)


@pytest.mark.some(1)
@each_kind
def test_what_was_drawn_is_dim_at_once_and_words_keep_their_shades(show, sheet, name):
    root = show(name, live=True)
    texts = root.get_by_role("listbox", name="The text").first
    shades = "nodes => nodes.map(node => [node.textContent, node.style.getPropertyValue('--s')])"
    before = texts.get_by_role("option").evaluate_all(shades)
    edit(root)
    bench.expect_dim(sheet, False)
    dim = sheet.evaluate(
        """() => {
          document.execCommand('insertText', false, ' Fine');
          return document.querySelector('section').classList.contains('nbsal-stale');
        }"""
    )
    assert dim, "in the same task as the key"
    bench.expect_dim(sheet)
    expect(texts).to_have_text(f"{REAL} Fine")
    assert texts.get_by_role("option").evaluate_all(shades) == before
    expect(root.locator(".nbsal-state")).to_have_text("Updating\u2026")


def test_a_view_is_dim_once_while_a_text_is_typed(show, sheet, views):
    answers = [of_text(views, "workbench", f"{REAL}{'So'[:k]}", panels=["layers"]) for k in range(1, 3)]
    sheet.clock.install()  # the page's time passes only as told, however busy the machine is
    edit(show("workbench", live=True))
    sheet.clock.pause_at(sheet.evaluate("() => Date.now() + 1000"))
    sheet.evaluate(WATCH_OPACITY)
    for answer, letter in zip(answers, "So", strict=True):
        sheet.keyboard.type(letter)
        sheet.clock.run_for(110)
        bench.answer(sheet, answer)
        sheet.clock.run_for(50)
    sheet.clock.resume()
    bench.expect_dim(sheet, False)
    assert sheet.evaluate("() => window.opacities") == [1, 0.66, 1]


@pytest.mark.some(2)
@each_kind
def test_an_answer_of_an_older_text_is_never_drawn(show, sheet, views, name):
    root = show(name, live=True)
    edit(root)
    before = answers(root)
    sheet.keyboard.type("So")
    sheet.wait_for_function("(last) => window.view.model.get('text') === last", arg=f"{REAL}So")
    bench.answer(sheet, of_text(views, name, "A dull, endless bore."))
    assert answers(root) == before and bench.is_dim(sheet)
    expect(root.locator(".nbsal-state")).to_have_text("Updating\u2026")
    root.get_by_text("Display", exact=True).click()
    root.get_by_role("button", name="For only", exact=True).click()  # draws again
    assert "bore" not in str(answers(root))
    bench.answer(sheet, of_text(views, name, f"{REAL}So"))
    bench.expect_dim(sheet, False)
    assert answers(root) != before
    expect(root.locator(".nbsal-text").first).to_have_text(f"{REAL}So")


def test_an_answer_that_came_while_a_letter_was_typed_is_drawn_once_the_letter_is_gone(show, sheet, views):
    root = show("highlight", live=True)
    area = edit(root)
    sheet.keyboard.type(" Awful!")
    sheet.wait_for_function("(last) => window.view.model.get('text') === last", arg=f"{REAL} Awful!")
    area.dispatch_event("compositionstart")  # nothing is sent meanwhile
    sheet.keyboard.type("x")
    answer = of_text(views, "highlight", f"{REAL} Awful!")
    before = answers(root)
    bench.answer(sheet, answer)
    assert answers(root) == before and bench.is_dim(sheet)
    sheet.keyboard.press("Backspace")
    area.dispatch_event("compositionend")
    sheet.wait_for_function("() => !document.querySelector('section').classList.contains('nbsal-stale')")
    assert answers(root) != before and answer.result.statement().text() in answers(root)


@pytest.mark.some(1)
@each_kind
def test_a_text_set_by_python_or_a_link_reaches_the_editor_that_has_the_focus(show, sheet, views, name):
    root = show(name, live=True)
    area = edit(root)
    sheet.keyboard.type("x")
    sheet.evaluate("() => window.view.model.set('text', 'A dull bore.')")
    expect(area).to_have_value("A dull bore.")
    expect(area).to_be_focused()
    expect(root.locator(".nbsal-text").first).to_have_text("A dull bore.")
    sheet.wait_for_timeout(200)
    bench.expect_traits(sheet, text="A dull bore.")  # what was typed before does not come back
    bench.answer(sheet, of_text(views, name, "A dull bore."))
    bench.expect_dim(sheet, False)
    expect(area).to_be_focused()


def test_a_preview_is_marked_and_has_no_numbers(show, sheet, views):
    view = of_text(views, "highlight", REAL, method="integrated")
    root = show(view, live=True)
    tokens(root).nth(1).click()
    score = root.locator(".nbsal-readout .nbsal-score")
    expect(score).to_be_visible()
    preview = nbsal.Explainer(view.subject, "gradxact")(REAL)
    sheet.evaluate("() => window.view.model.set('status', 'computing')")
    bench.change(sheet, _preview=True, **view.publish(preview))
    expect(root.locator(".nbsal-state")).to_have_text("Updating\u2026 · preview")
    bench.change(sheet, progress=0.4, _left=progress_words(0.4, 11.2))
    expect(root.locator(".nbsal-state")).to_have_text("Computing\u2026 40\u202f% · about 12 s left · preview")
    expect(root.locator(".nbsal-headline")).to_have_text(preview.statement().text())
    expect(root.locator(".nbsal-notes")).to_contain_text("Gradient × input")
    bench.expect_dim(sheet, False)  # it is of the typed text
    expect(score).to_be_hidden()
    bench.answer(sheet, view)
    expect(score).to_be_visible()
    expect(root.locator(".nbsal-state")).not_to_contain_text("preview")
