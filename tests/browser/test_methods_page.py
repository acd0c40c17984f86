"""The picker of methods by keys, before the list of methods is there and after."""

import pytest
from playwright.sync_api import expect

from tests.browser import bench

# Shows a view whose Python answers the request for the list of methods once `reply()` is called.
SHOW = """async ([[script, style, state], lists]) => {
  globalThis[Symbol.for('nbsal.method-lists')] = new Map();
  const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
  const { default: view } = await import(url);
  const model = nbsal.offlineModel(nbsal.restoreBytes(state));
  const { on } = model;
  let listener;
  model.on = (event, call) => {
    if (event === 'msg:custom') listener = call;
    on(event, call);
  };
  model.send = ({ ask, id, key }) => {
    if (ask === 'methods') window.reply = () => listener({ id, reply: lists[key] });
  };
  const [sheet, el] = [document.createElement('style'), document.createElement('div')];
  sheet.textContent = style;
  document.body.replaceChildren(sheet, el);
  window.view = { model, close: view.render({ model, el }) };
}"""


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


def test_a_method_is_chosen_by_keys_before_the_list_is_there(show, sheet, views):
    root, view = show("highlight"), views["highlight"]
    sheet.evaluate(SHOW, [bench.show_arguments(view, live=True), bench.method_lists(view)])
    picker = root.locator(".nbsal-method-picker > summary")
    picker.press("Enter")
    sheet.keyboard.type("attcat")
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, method=bench.SIGNED)
    sheet.evaluate("() => window.reply()")
    bench.expect_traits(sheet, method="attcat")
    expect(picker).to_be_focused()
    expect(picker).to_contain_text("AttCAT")


def test_a_method_is_found_and_chosen_by_keys(show, sheet):
    root = show("highlight", live=True)
    picker = root.locator(".nbsal-method-picker > summary")
    picker.press("Enter")
    expect(root.get_by_label("Find a method")).to_be_focused()
    sheet.keyboard.type("mask")
    expect(root.locator(".nbsal-choice:visible").first).to_contain_text("Mask-LRP")
    sheet.keyboard.press("ArrowDown")
    bench.expect_traits(sheet, method=bench.SIGNED)  # moving chooses nothing
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, method="mask-lrp")
    expect(picker).to_be_focused()
    expect(root.get_by_label("Find a method")).to_be_hidden()
    picker.press("Space")
    expect(root.get_by_label("Find a method")).to_be_focused()
    expect(root.get_by_label("Find a method")).to_have_value("")
    sheet.keyboard.press("Tab")
    sheet.keyboard.press("Enter")
    expect(root.locator(".nbsal-more").first).to_have_attribute("open", "")
    bench.expect_traits(sheet, method="mask-lrp")  # Enter unfolds
    sheet.keyboard.press("Escape")
    expect(picker).to_be_focused()
    expect(root.get_by_label("Find a method")).to_be_hidden()


def test_every_class_can_be_found_and_chosen(show, sheet, views):
    view, labels = views["highlight"], [f"label {k}" for k in range(28)]
    root = show("highlight", live=True)
    result = view._result | {"probabilities": [[name, 0.01] for name in labels[:12]], "target": "label 11"}
    bench.change(sheet, _choices=view._choices | {"labels": labels}, _result=result)
    listed = root.locator(".nbsal-class")
    expect(listed).to_have_count(7)
    expect(listed.last).to_contain_text("label 11")  # what is explained is always in the row
    root.get_by_text("21 more", exact=False).click()
    sheet.keyboard.type("LABEL 27")
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, target="label 27")


def test_classes_have_one_order(show, views):
    root = show("highlight", live=True)
    order = root.locator("[data-outcome]").evaluate_all("nodes => nodes.map(node => node.dataset.outcome)")
    assert order == ["positive", "negative"], "the likeliest first"
    root = show("games", live=True)
    assert root.locator("[data-outcome]").evaluate_all("nodes => nodes.map(node => node.dataset.outcome)") == order
