"""Views of damaged data, hostile texts and long texts; and views that are saved without Python or a network."""

import pytest
from playwright.sync_api import expect

from nbsal import Explainer, load
from nbsal.render import html
from nbsal.widgets import Compare, Highlight, Layers
from tests.browser import bench
from tests.browser.bench import each_view
from tests.browser.conftest import open_page

DAMAGED = "The saved data of this view are damaged. Run the cell again."
STOPPED = "Python has stopped · run the cell again to continue"


def hostile(name):
    if name == "layers":
        return Layers(bench.saliency_of(bench.HOSTILE, layers=3)).wait()
    saliency = bench.saliency_of(bench.HOSTILE)
    return (Compare(saliency, saliency) if name == "compare" else Highlight(saliency)).wait()


def test_damaged_data_shows_an_error(show, sheet):
    broken = Highlight(bench.saliency_of(["a", "b"])).wait()
    broken._scores = b"\x00"
    root = show(broken)
    expect(root.get_by_role("alert")).to_have_text(DAMAGED)
    whole = Highlight(bench.saliency_of(["a", "b"])).wait()
    bench.change(sheet, _scores=whole._scores)
    expect(root.get_by_role("alert")).to_be_hidden()
    for part in (b"\x00", whole._scores[:-2]):  # cut inside a number, and between two
        bench.change(sheet, _scores=part)
        expect(root.get_by_role("alert")).to_have_text(DAMAGED)
        bench.change(sheet, _scores=whole._scores)
    bench.change(sheet, _tokens=whole._tokens | {"starts": b"\x80"})
    expect(root.get_by_role("alert")).to_have_text(DAMAGED)
    assert len(sheet.problems) == 4
    sheet.problems.clear()


def test_data_cut_between_two_rows_of_scores_are_damaged_too(show, sheet):
    whole = Compare(*[bench.saliency_of(["a", "b"])] * 2).wait()
    scores = whole._scores
    whole._scores = scores[: len(scores) // 2 + 4]
    expect(show(whole).get_by_role("alert")).to_have_text(DAMAGED)
    assert len(sheet.problems) == 1
    sheet.problems.clear()


def test_an_error_of_another_kind_folds_its_details(show, sheet):
    broken = Highlight(bench.saliency_of(["a", "b"])).wait()
    broken._result = {}
    alert = show(broken).get_by_role("alert")
    expect(alert.get_by_text("This view could not be drawn. Run the cell again.")).to_be_visible()
    expect(alert.get_by_text("TypeError")).to_be_hidden()
    alert.get_by_text("Details").click()
    expect(alert.get_by_text("TypeError")).to_be_visible()
    sheet.problems.clear()


def test_a_result_that_does_not_match_the_controls_is_dimmed(show, sheet, views):
    root = show("highlight", live=True)
    state = root.locator(".nbsal-state")
    bench.expect_dim(sheet, False)
    bench.change(sheet, status="error", error="The layer is too deep.")
    expect(root.get_by_role("alert").filter(visible=True)).to_have_text("The layer is too deep.")
    bench.expect_dim(sheet)
    expect(state).to_have_text("Not computed")
    bench.change(sheet, status="cancelled", error="")
    expect(root.get_by_role("alert").filter(visible=True)).to_have_count(0)
    bench.expect_dim(sheet)
    expect(state).to_have_text("Cancelled; showing the previous result")
    bench.change(sheet, status="computing")
    bench.expect_dim(sheet)
    expect(state).to_have_text("Updating\u2026")
    bench.change(sheet, status="ready")
    bench.expect_dim(sheet, False)
    root.locator(".nbsal-classes").get_by_role("button", name="negative").click()
    bench.expect_dim(sheet)
    expect(state).to_have_text("Updating\u2026")  # before Python answers
    root.locator(".nbsal-classes").get_by_role("button", name="negative").click()
    bench.expect_dim(sheet, False)  # the result is of what is chosen again


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ["highlight", "layers", "compare", "games", "heads", "workbench", "browse", "clouds"])
def test_an_error_stands_below_the_text_and_keeps_its_room_while_computing(show, sheet, name):
    root = show(name, live=True)
    above = ".nbsal-page" if name not in ("browse", "clouds") else ".nbsal-headline"
    expect(root).to_be_visible()
    calm = root.bounding_box()["height"]
    bench.change(sheet, status="error", error="The layer is too deep.")
    alert = root.get_by_role("alert").filter(visible=True)
    places = [
        part.bounding_box()["y"]
        for part in (root.locator(above).first, alert, root.locator(".nbsal-main > .nbsal-tools").last)
    ]
    assert places == sorted(places)
    high = root.bounding_box()["height"]
    bench.change(sheet, status="computing", error="")
    expect(alert).to_have_text("The layer is too deep.")
    assert alert.evaluate("node => Number(getComputedStyle(node).opacity)") < 1
    assert root.bounding_box()["height"] == high
    bench.change(sheet, status="ready")
    expect(alert).to_have_count(0)
    assert root.bounding_box()["height"] == calm


def test_a_finished_result_says_how_to_change_it(show, sheet):
    view = Highlight(bench.saliency_of(["a", "b"])).wait()
    state = show(view).locator(".nbsal-state")
    expect(state).to_have_text(html.snapshot_line(in_cell=False))
    script, style, traits = bench.show_arguments(view)
    del traits["_saved"]  # a live kernel has saved nothing
    sheet.evaluate(bench.SHOW, [script, style, traits])
    expect(state).to_have_text("A finished result · pass an explainer to change it")


def stop_python(sheet):
    """Close the connection as a host does whose kernel has ended: traits go nowhere, messages raise an error."""
    sheet.evaluate("() => { window.view.model.send = () => { throw new Error('Cannot send'); }; }")


def test_the_end_of_python_is_said_once_and_the_typed_text_stays(show, sheet):
    root = show("highlight", live=True)
    root.get_by_role("button", name="Edit text").click()
    area, state = root.get_by_label("Text", exact=True), root.locator(".nbsal-state")
    area.press("End")
    sheet.keyboard.type("Go")
    sheet.evaluate("() => window.view.model.set('status', 'computing')")
    sheet.wait_for_timeout(1200)  # the check that follows the last key is over
    stop_python(sheet)
    expect(state).to_have_text(STOPPED)  # while an answer is awaited, without another key
    sheet.keyboard.type("od.")
    expect(area).to_have_value(f"{bench.REAL}Good.")
    expect(root.locator(".nbsal-text")).to_have_text(f"{bench.REAL}Good.")
    expect(state).to_have_text(STOPPED)
    expect(root.get_by_text("Python has stopped")).to_have_count(1)
    expect(root.get_by_role("alert").filter(visible=True)).to_have_count(0)
    bench.expect_dim(sheet)  # the colours are of an older text
    expect(root.get_by_role("button", name="Cancel")).to_be_hidden()
    expect(root.locator(".nbsal-work")).to_be_hidden()


def test_without_python_only_what_needs_it_is_disabled(show, sheet):
    root = show("highlight", live=True)
    stop_python(sheet)
    tokens = root.get_by_role("listbox", name="The text, word by word").get_by_role("option")
    tokens.nth(1).hover()
    expect(root.locator(".nbsal-state")).to_have_text(STOPPED)
    bench.expect_dim(sheet, False)  # the result is still that of the text
    for control in [".nbsal-method-picker", ".nbsal-stepper", ".nbsal-popover:has-text('Save')"]:
        expect(root.locator(control)).to_have_js_property("inert", True)
    for button in [root.locator("button.nbsal-class").nth(0), root.get_by_role("button", name="Edit text")]:
        expect(button).to_be_disabled()
    bench.choose(root, "Unit", "Tokens")
    expect(tokens.nth(3)).to_have_text("un")
    expect(root.locator("button.nbsal-class").nth(0)).to_be_disabled()  # also when drawn again
    tokens.nth(1).click()
    bench.expect_traits(sheet, selection=[2])
    expect(root.locator(".nbsal-readout")).to_contain_text("· rank ")


def test_a_request_that_fails_says_so_in_the_state_line(show, sheet):
    root = show("highlight", live=True)
    stop_python(sheet)
    root.get_by_text("Save", exact=True).press("Enter")  # a pointer would cross the text and find out by itself
    root.get_by_role("button", name="Table (.csv)").press("Enter")
    expect(root.locator(".nbsal-state")).to_have_text(STOPPED)
    expect(root.get_by_role("alert").filter(visible=True)).to_have_count(0)


@pytest.mark.full
def test_the_typed_text_stays_when_the_kernel_is_killed(lab, chromium):
    page = open_page(chromium)
    setup = "import nbsal\nexplain = nbsal.Explainer(nbsal.load('demo/reviews'), 'decoded-gradcam')"
    cell = f"view = nbsal.widgets.Highlight(explain, text={bench.REAL!r})\nview"
    notebook = lab.open(page, lab.write("killed.ipynb", setup, cell))
    notebook.run_all()
    root = page.get_by_role("group", name="nbsal highlight")
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.press("Control+End")
    page.keyboard.type(" So")
    notebook.until("view.result.text.endswith('So')", "True")
    notebook.kill()
    page.keyboard.insert_text(" good.")  # at once: JupyterLab's dialog on the dead kernel takes the focus
    expect(root.locator(".nbsal-state")).to_have_text(STOPPED, timeout=30_000)
    expect(area).to_have_value(f"{bench.REAL} So good.")
    expect(root.locator(".nbsal-text")).to_have_text(f"{bench.REAL} So good.")
    assert root.locator(".nbsal-headline").evaluate("node => getComputedStyle(node).opacity") != "1"
    page.context.close()


def test_an_invalid_number_is_cleared(show):
    root = show(Highlight(Explainer(load("demo/reviews"), "decoded-gradcam"), text=bench.REAL).wait(), live=True)
    root.get_by_text("Display", exact=True).click()
    top = root.get_by_label("Decode from the top tokens")
    for typed in ("-3", "0.2"):
        top.fill(typed)
        top.press("Tab")
        expect(top).to_have_value("")
    top.fill("3")
    top.press("Tab")
    expect(top).to_have_value("3")


def test_truncated_text_is_marked(show, views):
    long = "A dull, endless bore. " * 200
    root = show(Highlight(views["highlight"].explainer, text=long).wait())
    tail = root.locator(".nbsal-text .nbsal-unread")
    read = root.locator(".nbsal-text").evaluate("node => node.textContent.length")
    assert read == len(long) and 0 < tail.evaluate("node => node.textContent.length") < read
    typed = show(Highlight(views["highlight"].explainer, text="A joy. [SEP] ").wait())
    expect(typed.locator(".nbsal-text")).to_contain_text("[SEP]")
    expect(typed.locator(".nbsal-unread")).to_have_count(0)


@pytest.mark.parametrize("name", [*bench.NAMES, "heads", "games", "browse", "workbench"])
def test_score_colours_remain_under_forced_colours_and_in_print(show, sheet, name):
    root = show(name)
    paints = """root => [...root.querySelectorAll('.nbsal-mark, .nbsal-piece, .nbsal-cell')].map(
      node => getComputedStyle(node)).filter(s => s.printColorAdjust === 'exact').map(s => s.backgroundColor)"""
    before = root.evaluate(paints)
    sheet.emulate_media(forced_colors="active")
    after = root.evaluate(paints)
    sheet.emulate_media(forced_colors="none")
    assert after == before and len(set(before)) > 1


@each_view
def test_hostile_tokens_appear_as_plain_text(show, sheet, name):
    view = hostile(name)
    root = show(view)
    assert len(bench.HOSTILE) == 100
    expect(root.locator(".nbsal-text").first).to_have_text(html.visible(view.text), use_inner_text=False)
    bench.choose(root, "Unit", "Tokens")
    content = root.locator(".nbsal-text").first.evaluate("node => node.textContent")
    assert content == html.visible(view.text)
    root.locator(".nbsal-mark").nth(1).hover()
    assert root.locator("script, img, svg, style").count() == 0
    assert root.locator("b").get_by_text("bold", exact=True).count() == 0
    assert sheet.evaluate("() => 'pwned' in window") is False


@each_view
@pytest.mark.parametrize("interactive", [False, True])
def test_hostile_tokens_do_nothing_in_a_saved_page(chromium, tmp_path, name, interactive):
    view, file = hostile(name), tmp_path / "page.html"
    file.write_text(view.to_html(interactive=interactive), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    text = page.locator("section.nbsal .nbsal-text" if interactive else "p[dir=auto]").first
    expect(text).to_be_visible()
    assert text.evaluate("node => node.textContent") == html.visible(view.text)
    assert page.locator("body").locator("img, svg").count() == 0
    assert page.evaluate("() => 'pwned' in window") is False and page.problems == []
    page.context.close()


@pytest.mark.some(1)
@each_view
def test_hostile_tokens_are_drawn_as_they_are(name, monkeypatch):
    texts = bench.drawn_texts(monkeypatch)
    view = hostile(name)
    assert view.to_png().startswith(b"\x89PNG")
    assert not [text for text in texts if "$" in text.get_text() and text.get_parse_math()]
    if name != "layers":
        joined = "".join(text.get_text() for text in texts)
        assert "".join(html.visible(view.text).split()) in "".join(joined.split())


@each_view
def test_a_saved_page_works_without_python_or_network(chromium, tmp_path, views, name):
    file = tmp_path / "page.html"
    file.write_text(views[name].to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    text = root.locator(".nbsal-text").first.get_by_role("option")
    expect(text.get_by_text("unbelievably", exact=True)).to_be_visible()
    count = text.count()
    bench.choose(root, "Unit", "Tokens")
    expect(text.get_by_text("unbelievably", exact=True)).to_have_count(0)
    assert text.count() > count
    expect(root.get_by_role("button", name="Edit text")).to_be_hidden()
    assert page.problems == []
    page.context.close()


def test_a_frozen_view_works_in_its_frame(chromium, tmp_path, views):
    file = tmp_path / "page.html"
    frozen = views["highlight"].freeze(interactive=True)._repr_html_()
    file.write_text(f"<!doctype html><meta charset='utf-8'><body>{frozen}", encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    inside = page.frame_locator("iframe")
    text = inside.get_by_role("listbox", name="The text, word by word").get_by_role("option")
    expect(text.get_by_text("unbelievably", exact=True)).to_be_visible()
    bench.choose(inside, "Unit", "Tokens")
    expect(text.nth(3)).to_have_text("un")
    assert page.problems == []
    page.context.close()
