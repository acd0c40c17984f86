"""Views of damaged data, hostile texts and long texts; and views that are saved without Python or a network."""

import pytest
from playwright.sync_api import expect

from nbsal import Explainer, load
from nbsal.render import html
from nbsal.widgets import Compare, Highlight, Layers
from tests.browser import bench
from tests.browser.bench import each_view
from tests.browser.conftest import open_page

DAMAGED = "This view cannot be drawn: its data is damaged. Run the cell again."


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


def test_a_result_that_does_not_match_the_controls_is_dimmed(show, sheet):
    root = show("highlight", live=True)
    bench.change(sheet, status="error", error="The text is empty.")
    expect(root.get_by_role("alert").first).to_have_text("The text is empty. Showing the previous result.")
    dimmed = "() => Number(getComputedStyle(document.querySelector('.nbsal-text')).opacity) < 1"
    assert sheet.evaluate(dimmed)
    bench.change(sheet, status="cancelled", error="")
    expect(root.locator(".nbsal-progress")).to_contain_text("Cancelled; showing the previous result.")
    bench.change(sheet, status="computing")
    assert not sheet.evaluate(dimmed)
    bench.change(sheet, status="ready")
    assert not sheet.evaluate(dimmed)


def test_a_closed_connection_shows_an_error(show, sheet):
    root = show("highlight", live=True)
    sheet.evaluate("() => { window.view.model.send = () => { throw new Error('Cannot send'); }; }")
    root.get_by_label("method").select_option("attcat")
    expect(root.get_by_text("The connection to Python is closed. Run the cell again.")).to_have_count(1)
    root.get_by_role("button", name="csv").click()
    expect(root.get_by_text("The connection to Python is closed. Run the cell again.")).to_have_count(2)


def test_an_invalid_number_is_cleared(show, sheet):
    root = show(Highlight(Explainer(load("demo/reviews"), "decoded-gradcam"), text=bench.REAL).wait(), live=True)
    for typed in ("-3", "0.2"):
        root.get_by_label("tau").fill(typed)
        root.get_by_label("tau").press("Tab")
        expect(root.get_by_label("tau")).to_have_value("")
    root.get_by_label("tau").fill("3")
    root.get_by_label("tau").press("Tab")
    expect(root.get_by_label("tau")).to_have_value("3")


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
    inside.locator("[data-trait=level]").check()
    expect(inside.get_by_role("option", name="unbelievably")).to_be_visible()
    assert page.problems == []
    page.context.close()
