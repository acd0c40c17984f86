"""The list of methods: a page requests it once, when a picker needs it, and nothing typed until then is lost."""

import pytest
from playwright.sync_api import expect

from tests.browser import bench

# Shows views whose Python answers requests for lists of methods once `reply()` is called; `asked` has their names.
SHOW = """async ([views, lists]) => {
  globalThis[Symbol.for('nbsal.method-lists')] = new Map();
  document.body.replaceChildren();
  const waiting = [];
  window.asked = [];
  window.reply = () => { for (const answer of waiting.splice(0)) answer(); };
  for (const [script, style, state] of views) {
    const sheet = document.createElement('style');
    sheet.textContent = style;
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
      if (ask !== 'methods') return;
      window.asked.push(key);
      waiting.push(() => listener({ id, reply: lists[key] }));
    };
    const el = document.createElement('div');
    document.body.append(sheet, el);
    window.view = { model, close: view.render({ model, el }) };
  }
}"""


@pytest.fixture
def show_all(show, sheet, views):
    """show_all(names) -> the roots of views whose requests are answered by `window.reply()`."""

    def show_views(*names):
        show(names[0])
        each = [views[name] for name in names]
        lists = {key: entries for view in each for key, entries in bench.method_lists(view).items()}
        sheet.evaluate(SHOW, [[bench.show_arguments(view, live=True) for view in each], lists])
        return [sheet.locator("section.nbsal").nth(i) for i in range(len(names))]

    return show_views


def picker(root):
    return root.locator(".nbsal-method-picker > summary").first


def asked(sheet):
    return sheet.evaluate("() => window.asked")


@pytest.mark.full
def test_two_views_of_one_model_request_the_list_once(show_all, sheet, views):
    roots = show_all("highlight", "workbench")
    assert asked(sheet) == []
    expect(picker(roots[1])).to_contain_text("Gradient × input")
    for root in roots:
        picker(root).click()
        sheet.evaluate("() => window.reply()")
        options = root.locator(".nbsal-method")
        expect(options).to_have_count(len(views["highlight"].handle_methods(asked(sheet)[0])))
        expect(root.get_by_role("listbox", name="Recommended methods").get_by_role("option")).to_have_count(8)
        picker(root).press("Escape")
    assert len(asked(sheet)) == 1


def test_a_method_is_chosen_by_keys_before_the_list_is_there(show_all, sheet):
    (root,) = show_all("highlight")
    picker(root).press("Enter")
    sheet.keyboard.type("attcat")
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, method=bench.SIGNED)
    sheet.evaluate("() => window.reply()")
    bench.expect_traits(sheet, method="attcat")
    expect(picker(root)).to_be_focused()
    expect(picker(root)).to_contain_text("AttCAT")
