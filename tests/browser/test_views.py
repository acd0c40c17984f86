"""Games, Clouds and Browse in Chromium, by mouse and by keyboard; and these, Heads and Workbench with hostile texts."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.evaluation import games
from nbsal.render import html
from nbsal.render.headline import percent, plain
from nbsal.widgets import Browse, Clouds, Games, Heads, Workbench
from nbsal.widgets.token_games import RANDOM_NAME
from tests import zoo
from tests.browser import bench
from tests.browser.bench import MANY, tokens, trait
from tests.browser.conftest import open_page


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
    expect(headline(root)).to_have_text(plain(view.sentence()))
    expect(root.get_by_text(f"{at} of {len(games.order)}", exact=True)).to_be_visible()
    sheet.mouse.move(box["x"] + 60, box["y"] + 50)
    bench.expect_traits(sheet, at=at)  # the button is up


def test_the_steps_of_a_curve_are_reached_by_keys_and_read_out(show, sheet, views):
    root = show("games")
    curve = root.get_by_role("slider", name="positive")
    for key, expected in [("Home", 0), ("ArrowRight", 1), ("ArrowUp", 2), ("ArrowLeft", 1), ("ArrowDown", 0)]:
        curve.press(key)
        bench.expect_traits(sheet, at=views["games"]._game["points"][expected])
    curve.press("End")
    size = len(views["games"].token_games.order)
    expect(curve).to_have_attribute("aria-valuetext", re.compile(f"^{size} words hidden: positive"))
    expect(root.locator(".nbsal-hidden")).to_have_count(size)
    root.get_by_role("button", name="Reveal words").click()
    expect(root.locator(".nbsal-hidden")).to_have_count(0)
    expect(root.get_by_text(f"{RANDOM_NAME} · mean ")).to_be_visible()
    expect(root.get_by_text("range of 10 random orders")).to_be_visible()
    expect(root.get_by_text("words revealed, highest score first")).to_be_visible()
    expect(root.get_by_text("the higher the curve, the better the words were chosen")).to_be_visible()


def test_every_step_says_what_python_says_and_keeps_its_height(show, sheet, views):
    explain = nbsal.Explainer(views["games"].subject, "decoded-gradxact")
    view = Games(explain, text="A slow start, but the second half is warm, funny and beautifully played.").wait()
    root = show(view)
    expect(headline(root)).to_have_text(plain(view.sentence()))
    heights = set()
    for game, button in [("hiding", "Hide words"), ("revealing", "Reveal words")]:
        root.get_by_role("button", name=button).click()
        view.game = game
        for at in range(len(view.token_games.order) + 1):
            view.at = at
            bench.change(sheet, at=at)
            expect(headline(root)).to_have_text(plain(view.sentence()))
            heights.add(round(root.bounding_box()["height"]))
        expect(root.get_by_role("heading")).to_have_text(view._game["findings"][game])
    assert len(heights) == 1
    root.get_by_role("button", name="Hide words").click()
    bench.change(sheet, at=4)
    expect(headline(root)).to_have_text(
        "After hiding 4 words: negative, 92.9\u202f% — it was positive, 99.8\u202f%. The third word turned it."
    )
    expect(root.get_by_role("heading")).to_have_text(
        "The decision first turns to negative after 3 words; random orders, on average, never do"
    )
    expect(root.locator(".nbsal-readout")).to_have_text("Hidden last: played · next: “.”")
    assert "After hiding 4 words: <b>negative</b>" in Games(explain, text=view.text, at=4).wait().render_html()


def test_play_hides_word_after_word_and_space_pauses(chromium, views):
    view = Games(views["games"].explainer, text="A warm film.").wait()
    page = open_page(chromium, reduced_motion="no-preference")
    bench.show(page, view, live=True)
    root = page.locator("section.nbsal")
    root.get_by_role("button", name="Play").click()
    page.wait_for_function("() => window.view.model.get('at') === 2")
    page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    paused = trait(page, "at")
    page.wait_for_timeout(1000)
    assert trait(page, "at") == paused >= 2
    root.get_by_role("slider", name="positive").press("Space")
    page.wait_for_function("() => window.view.model.get('at') === 4")
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    expect(root.locator(".nbsal-hidden")).to_have_count(4)
    root.get_by_role("slider", name="Words hidden", exact=True).fill("1")
    expect(root.locator(".nbsal-hidden")).to_have_count(1)
    assert page.problems == []
    page.context.close()


def test_without_motion_a_press_is_a_step(show, sheet):
    root = show("games")
    bench.change(sheet, at=0)
    for step in (1, 2):
        root.get_by_role("button", name="Next step").click()
        bench.expect_traits(sheet, at=step)
    sheet.wait_for_timeout(800)
    bench.expect_traits(sheet, at=2)


@pytest.mark.parametrize("width", [400, 760, 1400])
def test_the_words_around_a_curve_keep_their_size(chromium, views, width):
    page = open_page(chromium, viewport={"width": width, "height": 700})
    views["games"].at = 11  # in the middle, where what is said of the point has least room
    views["games"].wait()
    bench.show(page, views["games"])
    sizes = page.locator(".nbsal-chart span, .nbsal-x-label").evaluate_all(
        "nodes => nodes.filter(n => n.textContent).map(n => getComputedStyle(n).fontSize)"
    )
    assert set(sizes) == {"12px"} and len(sizes) > 8
    root = page.locator("section.nbsal")
    fits = "node => node.scrollWidth <= node.clientWidth"
    page.wait_for_function(fits, arg=root.element_handle())  # the chart follows the width once it is laid out
    first = root.locator(".nbsal-headline, .nbsal-text, .nbsal-readout").evaluate_all(
        "nodes => nodes.map(n => n.getBoundingClientRect().bottom)"
    )
    assert width > 400 or max(first) < 260, "headline, text and readout come first"
    page.context.close()


def test_curves_of_many_texts_are_drawn(show, sheet, views):
    explain = views["games"].explainer
    results = games({"ours <b>": explain}, MANY, random=3, progress=False)
    root = show(Games(results, at=5).wait())
    legend = root.locator(".nbsal-key > span")
    expect(legend).to_have_text(
        [re.compile("^ours <b> · mean"), re.compile("^random order · mean"), "95\u202f% interval"]
    )
    strokes = root.locator(".nbsal-key path").evaluate_all(
        "nodes => nodes.map(n => getComputedStyle(n).stroke + getComputedStyle(n).strokeDasharray)"
    )
    assert len(set(strokes)) == 2 and root.locator(".nbsal-text").count() == 0
    root.get_by_role("slider", name="accuracy").press("End")
    expect(headline(root)).to_contain_text("With 100\u202f% of the tokens hidden: ours <b> ")
    root.get_by_role("button", name="Reveal tokens").click()
    expect(root.get_by_text("share of the tokens revealed, highest score first")).to_be_visible()


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
        drawn = root.locator(".nbsal-word").evaluate_all("nodes => nodes.map(node => node.textContent)")
        assert set(drawn) <= {word["word"] for cloud in view._clouds for word in cloud["words"]} and len(drawn) > 20
    else:
        assert root.locator(".nbsal-text").last.evaluate("node => node.textContent") == typed(view)
    assert root.locator("script, img, style, svg [onload]").count() == 0
    assert root.locator("b").get_by_text("bold", exact=True).count() == 0
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


@pytest.mark.some(2)
@pytest.mark.parametrize("name", OURS)
def test_hostile_tokens_are_drawn_as_they_are(hostile, name, monkeypatch):
    texts = bench.drawn_texts(monkeypatch)
    assert hostile(name).to_png().startswith(b"\x89PNG")
    assert not [text for text in texts if "$" in text.get_text() and text.get_parse_math()]


@pytest.mark.some(2)
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
        expect(root.locator(".nbsal-attention h3")).to_contain_text("warm attends most to")
    elif name == "clouds":
        root.locator(".nbsal-word").first.hover()
        expect(root.get_by_text("% of the strongest word")).to_be_visible()
    else:
        expect(root.get_by_role("button", name="open text 0")).to_be_disabled()
        tokens(root).nth(0).click()
        expect(tokens(root).nth(0)).to_have_attribute("aria-selected", "true")
    assert page.problems == []
    page.context.close()
