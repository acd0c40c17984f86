"""Games in Chromium, by mouse and by keyboard; and all views with hostile texts."""

import dataclasses

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.widgets import Browse, Clouds, Compare, Games, Heads, Highlight, Layers, Workbench
from tests import zoo
from tests.browser import bench
from tests.browser.bench import trait
from tests.browser.conftest import open_page


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


def headline(root):
    return root.locator(".nbsal-headline")


def test_dragging_along_the_curve_hides_words_and_the_decision_follows(show, sheet, views):
    root = show("games", live=True)
    view = views["games"]
    curve = root.get_by_role("slider", name="positive")
    box = curve.bounding_box()
    sheet.mouse.move(box["x"] + 2, box["y"] + 50)
    sheet.mouse.down()
    sheet.mouse.move(box["x"] + box["width"] / 2, box["y"] + 90, steps=5)
    sheet.mouse.up()
    at, games = trait(sheet, "at"), view.token_games
    assert at == pytest.approx(len(games.order) / 2, abs=1)
    row = view.result.row
    hidden = [row.text[row.offsets[word[0]][0] : row.offsets[word[-1]][1]] for word in sorted(games.order[:at])]
    expect(root.locator(".nbsal-hidden")).to_have_text(hidden)
    for share in games.outcomes["hiding"][games.step(at)]:
        expect(root.locator(".nbsal-changes")).to_contain_text(percent(share))
    view.at = at
    expect(headline(root)).to_have_text(view.statement.text())
    expect(root.get_by_text(f"{at} of {len(games.order)}", exact=True)).to_be_visible()
    sheet.mouse.move(box["x"] + 60, box["y"] + 50)
    bench.expect_traits(sheet, at=at)  # the button is up


def test_every_step_says_what_python_says_and_keeps_its_height(show, sheet, views):
    explain = nbsal.Explainer(views["games"].subject, "decoded-gradxact")
    view = Games(explain, text="A slow start, but then warm.").wait()
    root = show(view)
    expect(headline(root)).to_have_text(view.statement.text())
    heights = set()
    for game, button in [("hiding", "Hide words"), ("revealing", "Reveal words")]:
        root.get_by_role("button", name=button).click()
        view.game = game
        for at in range(len(view.token_games.order) + 1):
            view.at = at
            bench.change(sheet, at=at)
            expect(headline(root)).to_have_text(view.statement.text())
            heights.add(round(root.bounding_box()["height"]))
        expect(root.get_by_role("heading")).to_have_text(view._game["findings"][game])
    assert len(heights) == 1


def test_play_hides_word_after_word_and_space_pauses(chromium, views):
    view = Games(views["games"].explainer, text="A warm film.").wait()
    page = open_page(chromium, reduced_motion="no-preference")
    bench.show(page, view, live=True)
    root = page.locator("section.nbsal")
    root.get_by_role("button", name="Play").click()
    page.wait_for_function("() => window.view.model.get('at') >= 2")
    page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    paused = trait(page, "at")
    page.wait_for_timeout(700)
    assert trait(page, "at") == paused >= 2
    root.get_by_role("slider", name="positive").press("Space")
    page.wait_for_function("() => window.view.model.get('at') === 4")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    expect(root.locator(".nbsal-hidden")).to_have_count(4)
    root.get_by_role("slider", name="Words hidden", exact=True).fill("1")
    expect(root.locator(".nbsal-hidden")).to_have_count(1)
    assert page.problems == []
    page.context.close()


OURS = [*bench.NAMES, "heads", "games", "clouds", "browse", "workbench"]


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
        if name == "layers":
            return Layers(bench.saliency_of(bench.HOSTILE, layers=3))
        if name in bench.NAMES:
            return Compare(*plain, *plain) if name == "compare" else Highlight(*plain)
        if name == "clouds":
            return Clouds(plain, k=200, unit="token", picked=[bench.HOSTILE[0], bench.HOSTILE[5]], idf={})
        if name == "browse":
            return Browse(plain, labels=[bench.HOSTILE[2]], opened=0, token="")
        explain = nbsal.Explainer(subject, "gradxact")
        if name == "heads":
            return Heads(subject, text=text, head=[0, 1])
        return Games(explain, text=text, at=3) if name == "games" else Workbench(explain, text=text)

    return view_of


def typed(view):
    """The text as the page displays it, with control characters made visible."""
    return html.visible(" ".join(bench.HOSTILE))


def assert_harmless(page, view, name):
    root = page.locator("section.nbsal")
    if name == "clouds":
        drawn = root.locator(".nbsal-words b").evaluate_all("nodes => nodes.map(node => node.textContent)")
        assert set(drawn) <= {word["word"] for cloud in view._clouds for word in cloud["words"]} and len(drawn) > 20
    else:
        text = root.locator(".nbsal-text").first if name == "compare" else root.locator(".nbsal-text").last
        assert text.evaluate("node => node.textContent") == typed(view)
    assert root.locator("script, img, style, svg [onload]").count() == 0
    assert root.locator("b").get_by_text("bold", exact=True).count() == 0
    assert page.evaluate("() => 'pwned' in window") is False


@pytest.mark.parametrize("name", OURS)
def test_hostile_tokens_appear_as_plain_text(show, sheet, hostile, name):
    view = hostile(name)
    root = show(view, live=True)
    assert_harmless(sheet, view, name)
    for mark in (".nbsal-mark", ".nbsal-switch", ".nbsal-words li", "tbody td"):
        if root.locator(mark).count() > 1:
            root.locator(mark).nth(1).hover(force=True)
    assert_harmless(sheet, view, name)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", OURS)
def test_hostile_tokens_do_nothing_in_a_saved_page(chromium, tmp_path, hostile, name):
    view, file = hostile(name), tmp_path / "page.html"
    file.write_text(view.to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    assert_harmless(page, view, name)
    file.write_text(view.to_html(), encoding="utf-8")
    page.goto(file.as_uri())
    assert page.locator("body").locator("svg, script").count() == 0
    assert page.evaluate("() => 'pwned' in window") is False and page.problems == []
    page.context.close()


def test_bars_count_words_as_the_sentence_does(show, small):
    saliency = bench.saliency_of(["warm", "film", "Warm", "warm"])
    saliency = dataclasses.replace(saliency, scores=np.array([0, 1.0, -2.0, 1.0, 0.5, 0]))
    view = Highlight(saliency).wait()
    rows = show(view).get_by_role("listbox", name="Strongest words").get_by_role("option")
    expect(rows.locator("b")).to_have_text([word.label for word in saliency.ranked_words(10)])
    row = dataclasses.replace(saliency.row, text=("warm film", "Warm warm"), segments=(0, 0, 0, 1, 1, 1))
    row = dataclasses.replace(row, offsets=((0, 0), (0, 4), (5, 9), (0, 4), (5, 9), (9, 9)))
    pair = dataclasses.replace(saliency, row=row)
    rows = show(Highlight(pair).wait()).get_by_role("listbox", name="Strongest words").get_by_role("option")
    expect(rows.locator("b")).to_have_text([word.label for word in pair.ranked_words(10)])


def test_the_line_under_a_text_has_the_words_and_numbers_of_python(show, views):
    view = views["highlight"]
    row, words = view._result["legends"][0]["ranked"]["word"]["rows"][0], view._readout
    root = show("highlight")
    text, line = root.get_by_role("listbox", name="The text, word by word"), root.locator(".nbsal-readout")
    text.get_by_role("option", name=row["name"][1], exact=True).hover()
    side = words["sides"][1 + np.sign(row["share"]).astype(int)].format(100)
    score, rank = words["score"].format(row["number"]), words["rank"].format(1, text.get_by_role("option").count())
    expect(line).to_contain_text(f"{side} \u00b7 {rank} \u00b7 {score}")
    for number, modifiers in enumerate([[], ["Shift"]]):
        text.get_by_role("option").nth(3 * number).click(modifiers=modifiers)
    root.page.mouse.move(0, 0)
    together, _ = words["together"].split("{}")
    expect(line).to_contain_text(words["words"].format(4))
    expect(line).to_contain_text(together)


@pytest.mark.parametrize("theme, paper", [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 19, 22)")])
@pytest.mark.parametrize("shadow", [False, True])
def test_the_theme_is_that_of_a_host_which_names_it_by_a_class(chromium, views, theme, paper, shadow):
    system = {"light": "dark", "dark": "light"}[theme]
    page = open_page(chromium, color_scheme=system)
    try:
        bench.show(page, views["highlight"])
        page.evaluate(
            "theme => { document.documentElement.style.colorScheme = 'light dark'; document.body.className = theme; }",
            theme,
        )
        if shadow:  # as marimo puts widgets
            page.evaluate(
                "() => { const host = document.createElement('div'); document.body.append(host);"
                "const root = host.attachShadow({ mode: 'open' });"
                "root.append(document.querySelector('body > style'), document.querySelector('section.nbsal')); }"
            )
        root = page.locator("section.nbsal")
        expect(root).to_have_css("background-color", paper)
        page.evaluate("() => { document.body.className = ''; }")
        expect(root).not_to_have_css("background-color", paper)
    finally:
        page.context.close()


def test_a_selection_by_drag_tells_the_sum_of_its_words(show, sheet):
    root = show(Highlight(bench.saliency_of(["warm", "film", "slow", "end"])).wait(), live=True)
    first, last = (bench.tokens(root).nth(k).bounding_box() for k in (0, 2))
    sheet.mouse.move(first["x"] + 2, first["y"] + first["height"] / 2)
    sheet.mouse.down()
    sheet.mouse.move(last["x"] + last["width"] - 3, last["y"] + last["height"] / 2, steps=5)
    sheet.mouse.up()
    bench.expect_traits(sheet, selection=[1, 2, 3])
    expect(root.locator(".nbsal-readout")).to_contain_text("3 words")
    shade = "node => getComputedStyle(node, '::selection').backgroundColor"
    assert "0.14" in bench.tokens(root).first.evaluate(shade), "the shades show through"
