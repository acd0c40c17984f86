"""Undo in Chromium, in the views that explain one text: by its button and by Ctrl+Z, one change after the other."""

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Compare, Games, Highlight, Layers
from tests.browser.bench import REAL, trait

KINDS = {"highlight": Highlight, "layers": Layers, "games": Games, "compare": Compare}
TRAITS = ["text", "method", "layer", "target"]


@pytest.fixture(scope="module")
def explained(reviews):
    explain = nbsal.Explainer(reviews, "decoded-gradcam")
    return {name: kind(explain, text=REAL).wait() for name, kind in KINDS.items()}


def values(sheet):
    return [trait(sheet, name) for name in TRAITS]


@pytest.mark.parametrize("name", KINDS)
def test_undo_takes_back_one_change_after_the_other(show, sheet, explained, name):
    root = show(explained[name], live=True)
    undo = root.get_by_role("button", name="Undo")
    expect(undo).to_be_hidden()
    steps = [values(sheet)]

    def changed():
        steps.append(values(sheet))
        assert steps[-1] != steps[-2]

    root.get_by_role("button", name="Previous layer").first.click()
    changed()
    root.get_by_role("group", name="Explain").get_by_role("button", name="negative").click()
    changed()
    root.locator(".nbsal-method-picker > summary").first.click()
    root.get_by_label("Find a method").first.fill("Grad-CAM")
    root.get_by_role("option", name="Grad-CAM").first.locator("visible=true").press("Enter")
    if trait(sheet, "method") != steps[-1][1]:
        changed()
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.press("Control+End")
    sheet.keyboard.type("ab", delay=20)
    sheet.wait_for_function("() => window.view.model.get('text').endsWith('ab')")
    steps.append(values(sheet))
    area.press("Control+z")
    assert len(set(map(str, [values(sheet), steps[-2]]))) == 2 or area.input_value() != REAL, "the editor's own key"
    root.get_by_role("button", name="Done").click()
    expect(undo).to_be_visible()
    undo.click()
    assert trait(sheet, "text") == REAL
    while steps and steps[-1] != values(sheet):
        steps.pop()
    for before in reversed(steps[:-1]):
        root.locator(".nbsal-text").first.press("Control+z")
        assert values(sheet) == before
    root.locator(".nbsal-text").first.focus()
    expect(undo).to_be_hidden()


def test_undo_in_compare_takes_back_both_targets_and_the_method_of_b(show, sheet, explained):
    root = show(explained["compare"], live=True)
    root.get_by_role("group", name="Explain").get_by_role("button", name="negative").click()
    assert (trait(sheet, "target"), trait(sheet, "other_target")) == ("negative", "negative")
    sheet.evaluate("() => window.view.model.set('other_method', 'attcat')")
    root.get_by_role("button", name="Undo").click()
    assert trait(sheet, "other_method") == "decoded-gradcam"
    root.get_by_role("button", name="Undo").click()
    assert (trait(sheet, "target"), trait(sheet, "other_target")) == (None, None)


def test_undo_forgets_what_was_before_a_swap(show, sheet, explained):
    root = show(explained["compare"], live=True)
    sheet.evaluate(
        """() => {
          const { model } = window.view;
          const emit = (id) => queueMicrotask(() => window.listener({ id, reply: 'swapped' }));
          model.send = ({ id }) => id && emit(id);
        }"""
    )
    root.get_by_role("button", name="Previous layer").first.click()
    expect(root.get_by_role("button", name="Undo")).to_be_visible()
