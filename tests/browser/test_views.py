"""Heads, Games, Clouds, Browse and Workbench in Chromium, by mouse and by keyboard; and with hostile texts."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.evaluation import games
from nbsal.render import html
from nbsal.widgets import Browse, Clouds, Games, Heads, Workbench
from nbsal.widgets.token_games import RANDOM_NAME
from tests import zoo
from tests.browser import bench
from tests.browser.bench import MANY, REAL, tokens, trait
from tests.browser.conftest import open_page


def head(root, name):
    return root.get_by_role("gridcell", name=re.compile(rf"^Head {re.escape(name)},"))


def test_heads_that_are_on_are_selected_and_a_click_switches_one(show, sheet, views):
    root = show("heads", live=True)
    expect(root.get_by_role("gridcell", selected=True)).to_have_count(int(views["heads"].mask.selected.sum()))
    head(root, "5.11").click()
    assert trait(sheet, "toggled") == [[5, 11]]
    expect(head(root, "5.11")).to_have_attribute("aria-selected", "true")
    expect(root.get_by_text("head 5.11, on")).to_be_visible()
    head(root, "5.11").click()
    assert trait(sheet, "toggled") == []
    expect(head(root, "5.11")).to_have_attribute("aria-selected", "false")


def test_pointing_at_a_head_describes_it_and_requests_its_attention(show, sheet, views):
    root = show("heads", live=True)
    about = views["heads"]._heads["about"][3][8]
    head(root, "3.8").hover()
    expect(root.get_by_text(f"head 3.8, on: {about}")).to_be_visible()
    sheet.wait_for_function("() => String(window.view.model.get('head')) === '3,8'")


def test_heads_are_reached_and_switched_by_keys(show, sheet):
    root = show("heads", live=True)
    grid = root.get_by_role("grid", name="heads")
    grid.focus()
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "Space"]:
        grid.press(key)
    assert trait(sheet, "toggled") == [[2, 1]]
    root.get_by_role("button", name="Reset").click()
    assert trait(sheet, "toggled") == []


def test_the_attention_of_a_head_follows_the_selection(show, sheet, views):
    root = show("heads", live=True)
    expect(root.get_by_text("Attention of head 2.1, averaged over all tokens")).to_be_visible()
    tokens(root).nth(1).click()
    expect(root.get_by_text("Attention of head 2.1, from warm")).to_be_visible()
    view = views["heads"]
    read = nbsal.trace.record(view.subject, view.subject.encode(REAL), needs={"attention"}).attention[2][0, 1, 2]
    seen = [float(read[i]) for i in view.result.row.content]
    styles = tokens(root, "Attended tokens").evaluate_all(
        "nodes => nodes.map(n => Number((getComputedStyle(n).backgroundColor.match(/[\\d.]+/g) ?? [])[3] ?? 0))"
    )
    assert styles.index(max(styles)) == seen.index(max(seen))
    image = root.locator("canvas").evaluate(
        "node => [node.width, node.getContext('2d').getImageData(0, 0, 1, 1).data[3]]"
    )
    assert image[0] == len(view.result.tokens) and image[1] > 0


def test_dragging_along_the_curve_hides_tokens_and_the_prediction_follows(show, sheet, views):
    root = show("games", live=True)
    view = views["games"]
    curve = root.get_by_role("slider", name="positive")
    box = curve.bounding_box()
    sheet.mouse.move(box["x"] + 46, box["y"] + 50)
    sheet.mouse.down()
    sheet.mouse.move(box["x"] + box["width"] / 2, box["y"] + 90, steps=5)
    sheet.mouse.up()
    at = trait(sheet, "at")
    assert at == pytest.approx(len(view.result.order) / 2, abs=2)
    gone = root.locator(".nbsal-hidden")
    row, order = view.result.row, view.result.order
    hidden = [row.text[slice(*row.offsets[i])] for i in sorted(order[:at])]
    expect(gone).to_have_text(hidden)
    probabilities = view._game["outcomes"]["hiding"][view._game["points"].index(at)]
    for share in probabilities:
        expect(root.get_by_role("group", name="prediction")).to_contain_text(f"{100 * share:.1f}%")
    expect(root.get_by_text(f"{at} of {len(order)} tokens hidden")).to_be_visible()
    sheet.mouse.move(box["x"] + 60, box["y"] + 50)
    assert trait(sheet, "at") == at, "the button is up"


def test_the_steps_of_a_curve_are_reached_by_keys_and_read_out(show, sheet, views):
    root = show("games")
    curve = root.get_by_role("slider", name="positive")
    for key, expected in [("Home", 0), ("ArrowRight", 1), ("ArrowUp", 2), ("ArrowLeft", 1), ("ArrowDown", 0)]:
        curve.press(key)
        assert trait(sheet, "at") == views["games"]._game["points"][expected]
    curve.press("End")
    size = len(views["games"].result.order)
    expect(curve).to_have_attribute("aria-valuetext", re.compile(f"^{size} of {size} tokens hidden.*positive"))
    expect(root.locator(".nbsal-hidden")).to_have_count(size)
    root.locator("[data-trait=game]").select_option(index=1)
    expect(root.locator(".nbsal-hidden")).to_have_count(0)
    expect(root.get_by_text(f"{RANDOM_NAME}, AUC")).to_be_visible()
    expect(root.locator(".nbsal-chart text", has_text="probability of positive")).to_have_count(1)
    expect(root.get_by_text("Shaded: range of the random orders")).to_be_visible()


def test_curves_of_many_texts_are_drawn(show, sheet, views):
    explain = views["games"].explainer
    results = games({"ours <b>": explain}, MANY, random=3, progress=False)
    root = show(Games(results, at=5).wait())
    expect(root.locator(".nbsal-legend-item")).to_have_text([re.compile("^ours <b>, AUC"), re.compile("^random, AUC")])
    root.get_by_role("slider", name="accuracy").press("End")
    expect(root.get_by_text("100% of the tokens hidden. accuracy")).to_be_visible()


def test_a_click_on_a_word_lists_its_texts(show, sheet, views):
    root = show("clouds", live=True)
    expect(root.locator("li")).to_have_count(views["clouds"]._texts_shown["count"])
    expect(root.locator("li .nbsal-highlighted").first).to_have_text("dull")
    cloud = root.get_by_role("listbox", name="words of positive")
    first, second = (word["word"] for word in views["clouds"]._clouds[1]["words"][:2])
    cloud.get_by_role("option", name=second, exact=True).click()
    assert trait(sheet, "picked") == ["positive", second]
    expect(cloud.get_by_role("option", selected=True)).to_have_text(second)
    expect(root.get_by_text(re.compile(f"{second}, \\d+% of the largest"))).to_be_visible()
    cloud.press("Home")
    cloud.press("Enter")
    assert trait(sheet, "picked") == ["positive", first]
    shared = [w["word"] for w in views["clouds"]._clouds[1]["words"] if "also" in w]
    underlined = cloud.get_by_role("option").evaluate_all(
        "nodes => nodes.filter(n => getComputedStyle(n).textDecorationLine === 'underline').map(n => n.textContent)"
    )
    assert underlined == shared != []


def test_words_stay_inside_their_cloud(show, sheet):
    root = show("clouds")
    outside = root.locator(".nbsal-cloud svg").evaluate_all(
        """svgs => svgs.flatMap(svg => {
          const box = svg.getBoundingClientRect();
          const sides = [...svg.children].map(word => word.getBoundingClientRect());
          return sides.filter(word => word.left < box.left - 2 || word.right > box.right + 2);
        }).length"""
    )
    assert outside == 0


def test_a_table_is_sorted_filtered_and_a_text_opened(show, sheet, views):
    root = show("browse", live=True)
    rows = root.get_by_role("table").locator("tbody tr")
    expect(rows).to_have_count(len(MANY))
    expect(tokens(root)).to_have_count(len(views["browse"].result.opened.row.content))
    root.get_by_role("button", name="Confidence").click()
    assert (trait(sheet, "sort"), trait(sheet, "descending")) == ("confidence", False)
    bench.change(sheet)
    expect(root.get_by_role("columnheader", name="Confidence")).to_have_attribute("aria-sort", "ascending")
    root.get_by_role("button", name="Confidence").click()
    assert trait(sheet, "descending") is True
    root.get_by_role("button", name="open text 2").press("Enter")
    assert trait(sheet, "opened") == 2
    rows.nth(3).locator("td").nth(1).click()
    assert trait(sheet, "opened") == 3
    root.get_by_label("Predicted class").select_option("negative")
    root.get_by_label("Misclassified only").check()
    root.get_by_label("Contains the word").fill("dull")
    sheet.wait_for_function("() => window.view.model.get('token') === 'dull'")
    assert (trait(sheet, "label"), trait(sheet, "wrong")) == ("negative", True)


def test_the_panes_of_a_workbench_share_a_selection_and_are_reached_by_keys(show, sheet):
    root = show("workbench", live=True)
    tokens(root).nth(2).click()
    left = root.get_by_role("listbox", name="Remaining tokens").get_by_role("option").nth(2)
    expect(left).to_have_attribute("aria-selected", "true")
    tab = root.get_by_role("tab", name="games")
    expect(tab).to_have_attribute("aria-selected", "true")
    tab.press("ArrowRight")
    expect(root.get_by_role("tab", name="layers")).to_be_focused()
    assert trait(sheet, "pane") == "layers"
    expect(root.get_by_role("tabpanel")).to_have_count(1)
    root.get_by_role("tab", name="heads").click()
    root.get_by_role("button", name="Use mask-lrp").click()
    assert trait(sheet, "method") == "mask-lrp"


OURS = ["heads", "games", "clouds", "browse", "workbench"]


@pytest.fixture(scope="module")
def hostile(checkpoints):
    """hostile(name) -> a view of a hundred hostile tokens with hostile classes; the model reads 64 tokens."""
    folder, labels = zoo.save(checkpoints, "bert", "sequence"), [bench.HOSTILE[0], bench.HOSTILE[1], bench.HOSTILE[3]]
    subject = nbsal.load(folder, labels=labels)
    cached = {}

    def view_of(name):
        if name not in cached:
            cached[name] = make(name).wait()
        return cached[name]

    def make(name):
        text, plain = " ".join(bench.HOSTILE), [bench.saliency_of(bench.HOSTILE)]
        if name == "clouds":
            return Clouds(plain, k=200, picked=[bench.HOSTILE[0], bench.HOSTILE[5]], idf={})
        if name == "browse":
            return Browse(plain, labels=[bench.HOSTILE[2]], opened=0, token="")
        explain = nbsal.Explainer(subject, "gradxact")
        if name == "heads":
            return Heads(subject, text=text, head=[0, 1])
        return Games(explain, text=text, at=3) if name == "games" else Workbench(explain, text=text, pane="games")

    return view_of


def typed(view):
    """The text as the page displays it, with control characters made visible."""
    return html.visible(" ".join(bench.HOSTILE))


def assert_harmless(page, view, name):
    root = page.locator("section.nbsal")
    if name == "clouds":
        drawn = root.locator(".nbsal-word").evaluate_all("nodes => nodes.map(node => node.textContent)")
        assert set(drawn) == {word["word"] for cloud in view._clouds for word in cloud["words"]} and len(drawn) > 20
    else:
        assert root.locator(".nbsal-text").last.evaluate("node => node.textContent") == typed(view)
    assert root.locator("script, img, b, style, svg [onload]").count() == 0
    assert page.evaluate("() => 'pwned' in window") is False


@pytest.mark.parametrize("name", OURS)
def test_hostile_tokens_appear_as_plain_text(show, sheet, hostile, name):
    view = hostile(name)
    root = show(view, live=True)
    assert_harmless(sheet, view, name)
    for mark in (".nbsal-mark", ".nbsal-switch", ".nbsal-word", "tbody td"):
        if root.locator(mark).count() > 1:
            root.locator(mark).nth(1).hover(force=True)
    assert_harmless(sheet, view, name)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("interactive", [False, True])
def test_hostile_tokens_do_nothing_in_a_saved_page(chromium, tmp_path, hostile, name, interactive):
    view, file = hostile(name), tmp_path / "page.html"
    file.write_text(view.to_html(interactive=interactive), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    if interactive:
        assert_harmless(page, view, name)
    else:
        content = page.locator("body").evaluate("node => node.textContent")
        words = (
            [word["word"] for cloud in view._clouds for word in cloud["words"]] if name == "clouds" else [typed(view)]
        )
        assert all(word in content for word in words)
        assert page.locator("body").locator("svg, script").count() == 0
    assert page.evaluate("() => 'pwned' in window") is False and page.problems == []
    page.context.close()


@pytest.mark.parametrize("name", OURS)
def test_hostile_tokens_are_drawn_as_they_are(hostile, name, monkeypatch):
    texts = bench.drawn_texts(monkeypatch)
    assert hostile(name).to_png().startswith(b"\x89PNG")
    assert not [text for text in texts if "$" in text.get_text() and text.get_parse_math()]


@pytest.mark.parametrize("name", OURS)
def test_a_saved_page_works_without_python_or_network(chromium, tmp_path, views, name):
    file = tmp_path / "page.html"
    file.write_text(views[name].to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    if name in ("games", "workbench"):
        root.get_by_role("slider", name="positive").press("End")
        expect(root.locator(".nbsal-hidden")).not_to_have_count(0)
    elif name == "heads":
        tokens(root).nth(1).click()
        expect(root.get_by_text("Attention of head 2.1, from warm")).to_be_visible()
    elif name == "clouds":
        root.locator(".nbsal-word").first.hover()
        expect(root.get_by_text("% of the largest")).to_be_visible()
    else:
        expect(root.get_by_role("button", name="open text 0")).to_be_disabled()
        tokens(root).nth(0).click()
        expect(tokens(root).nth(0)).to_have_attribute("aria-selected", "true")
    assert page.problems == []
    page.context.close()
