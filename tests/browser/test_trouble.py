"""Views fed with trouble, and views that must live alone: nothing is executed, everything is shown as typed."""

import pytest
from playwright.sync_api import expect

from nbsal import render
from nbsal.widgets import Compare, Highlight, Layers
from tests.browser import bench
from tests.browser.bench import each_view
from tests.browser.conftest import watched


def hostile(name):
    if name == "layers":
        return Layers(bench.saliency_of(bench.HOSTILE, layers=3)).wait()
    found = bench.saliency_of(bench.HOSTILE)
    return (Compare(found, found) if name == "compare" else Highlight(found)).wait()


def test_a_view_that_cannot_be_drawn_says_so(show, sheet):
    broken = Highlight(bench.saliency_of(["a", "b"])).wait()
    broken._scores = b"\x00"
    root = show(broken)
    expect(root.get_by_role("alert")).to_contain_text("cannot be drawn")
    whole = Highlight(bench.saliency_of(["a", "b"])).wait()
    bench.change(sheet, _scores=whole._scores)
    expect(root.get_by_role("alert")).to_be_hidden()
    bench.change(sheet, _scores=b"\x00")
    expect(root.get_by_role("alert")).to_contain_text("cannot be drawn")
    assert len(sheet.problems) == 2
    sheet.problems.clear()


@each_view
def test_hostile_tokens_are_only_shown(show, sheet, name):
    view = hostile(name)
    root = show(view)
    assert len(bench.HOSTILE) == 100
    expect(root.locator(".nbsal-text").first).to_have_text(render.visible(view.text), use_inner_text=False)
    root.get_by_label("words").check()
    shown = root.locator(".nbsal-text").first.evaluate("node => node.textContent")
    assert shown == render.visible(view.text)
    root.locator(".nbsal-mark").nth(1).hover()
    assert root.locator("script, img, svg, b, style").count() == 0
    assert sheet.evaluate("() => 'pwned' in window") is False


@each_view
@pytest.mark.parametrize("interactive", [False, True])
def test_hostile_tokens_do_nothing_in_a_saved_page(chromium, tmp_path, name, interactive):
    view, file = hostile(name), tmp_path / "page.html"
    file.write_text(view.to_html(interactive=interactive), encoding="utf-8")
    page = watched(chromium, offline=True)
    page.goto(file.as_uri())
    shown = page.locator("section.nbsal .nbsal-text" if interactive else "p").first
    expect(shown).to_be_visible()
    assert shown.evaluate("node => node.textContent") == render.visible(view.text)
    assert page.locator("body").locator("img, svg").count() == 0
    assert page.evaluate("() => 'pwned' in window") is False and page.problems == []
    page.context.close()


@each_view
def test_hostile_tokens_are_drawn_as_they_are(name, monkeypatch):
    from matplotlib.text import Text

    drawn = []
    create = Text.__init__

    def noted(self, x=0, y=0, text="", **settings):
        drawn.append((text, settings.get("parse_math")))
        create(self, x, y, text, **settings)

    monkeypatch.setattr(Text, "__init__", noted)
    view = hostile(name)
    assert view.to_png().startswith(b"\x89PNG")
    if name != "layers":
        joined = "".join(text for text, _ in drawn)
        assert "".join(render.visible(view.text).split()) in "".join(joined.split())
        assert {parse for text, parse in drawn if "$" in text} == {False}


@each_view
def test_a_saved_page_lives_without_python_or_network(chromium, tmp_path, views, name):
    file = tmp_path / "page.html"
    file.write_text(views[name].to_html(interactive=True), encoding="utf-8")
    page = watched(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    count = root.get_by_role("option").count()
    root.get_by_label("words").check()
    expect(root.get_by_role("option", name="unbelievably").first).to_be_visible()
    assert root.get_by_role("option").count() < count
    expect(root.get_by_label("method").first).to_be_disabled()
    assert page.problems == []
    page.context.close()


def test_a_frozen_view_lives_in_its_frame(chromium, tmp_path, views):
    file = tmp_path / "page.html"
    frozen = views["highlight"].freeze(interactive=True)._repr_html_()
    file.write_text(f"<!doctype html><meta charset='utf-8'><body>{frozen}", encoding="utf-8")
    page = watched(chromium, offline=True)
    page.goto(file.as_uri())
    inside = page.frame_locator("iframe")
    inside.get_by_label("words").check()
    expect(inside.get_by_role("option", name="unbelievably")).to_be_visible()
    assert page.problems == []
    page.context.close()
