"""What holds of every view: the order and width of its parts, its words, its answer, the menus; with ugly texts too."""

import html as markup
import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import nbsal
from nbsal.methods import catalogue
from nbsal.model.tokenize import token_name
from nbsal.render.colours import FAINT, STRONGEST
from nbsal.render.headline import name_in_sentence, plain
from nbsal.widgets import Browse, Clouds, Compare, Highlight, Layers, Workbench
from tests.browser import bench
from tests.browser.bench import REAL, every_view, tokens
from tests.browser.conftest import open_page

OF_ONE_TEXT = ["highlight", "layers", "games", "heads", "workbench"]
UGLY = {
    "rtl": "هذا فيلم دافئ ومضحك بشكل لا يصدق ، not a word of it .".split(),
    "emoji": [
        "\U0001f600",
        "\U0001f469\u200d\U0001f467\U0001f3fd",
        "e\u0301\u0302\u0303",
        "\U0001f1eb\U0001f1f7",
        "日本語",
    ]
    * 3,
    "hostile": bench.HOSTILE,
    "long": [f"word{i}" for i in range(3000)],
}
KINDS = {"highlight": Highlight, "layers": Layers, "compare": Compare}


def ugly(kind, name):
    saliency = bench.saliency_of(UGLY[kind], layers=3 if name == "layers" else 0)
    return KINDS[name](*[saliency] * (2 if name == "compare" else 1)).wait()


@pytest.fixture
def resize(sheet):
    yield lambda width: sheet.set_viewport_size({"width": width, "height": 900})
    sheet.set_viewport_size({"width": 1100, "height": 900})


# The visible parts in the first column, with where they end.
PARTS = """root => {
  const top = root.getBoundingClientRect().top;
  return [...root.querySelectorAll('.nbsal-main > *')].filter(part => part.checkVisibility())
    .map(part => [part.className.split(' ')[0], part.getBoundingClientRect().bottom - top]);
}"""


@pytest.mark.some(3)
@pytest.mark.parametrize("name", [*OF_ONE_TEXT, "compare"])
def test_answer_text_and_readout_come_first(show, resize, name):
    resize(400)
    parts = show(name, live=True).evaluate(PARTS)
    texts = "nbsal-pair" if name == "compare" else "nbsal-page"
    assert [part for part, _ in parts[:3]] == ["nbsal-headline", texts, "nbsal-read"]
    assert parts[2][1] <= 240 or name == "compare", "which has two texts, one above the other"


# What sticks out of a view or of the window, but for what scrolls or is cut within a part.
OUTSIDE = """root => {
  const box = root.getBoundingClientRect();
  const inside = (node) => {
    for (let at = node.parentElement; at !== root; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== 'visible') return true;
    return false;
  };
  return [...root.querySelectorAll('*')].filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    return width > 0 && node.checkVisibility({ visibilityProperty: true }) && !inside(node)
      && (left < box.left - 3 || right > box.right + 3);
  }).map(node => `${node.className}: ${node.textContent.slice(0, 40)}`);
}"""


def assert_fits(sheet, root, width):
    assert sheet.evaluate("() => document.documentElement.scrollWidth") <= width
    assert root.bounding_box()["width"] >= 0.95 * width
    assert root.evaluate(OUTSIDE) == []


@every_view
def test_a_view_is_as_wide_as_its_cell(show, sheet, resize, name):
    root = show(name, live=True)
    for width in (400, 760, 1400):
        resize(width)
        assert_fits(sheet, root, width)


# Point at everything that can be pointed at; the heights that the view has meanwhile.
POINT = """root => {
  const heights = new Set([root.offsetHeight]);
  for (const node of [...root.querySelectorAll('.nbsal-mark, .nbsal-cell, .nbsal-ranking li')].slice(0, 200)) {
    node.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    heights.add(root.offsetHeight);
  }
  return [...heights];
}"""


@pytest.mark.parametrize("kind", UGLY)
@pytest.mark.parametrize("name", KINDS)
def test_ugly_texts_fit_and_pointing_at_them_moves_nothing(show, sheet, resize, name, kind):
    root = show(ugly(kind, name), live=True)
    assert root.locator(".nbsal-mark").count() >= len(UGLY[kind]) / 2
    for width in (400, 1400):
        resize(width)
        assert_fits(sheet, root, width)
        assert len(root.evaluate(POINT)) == 1


TEXTS = [
    REAL,
    "A slow start, but the second half is warm, funny and beautifully played.",
    "Dull.",
    "A joy.",
    "Not bad, not good.",
    "I would rather watch paint dry, and the paint would be funnier.",
    "Warm, warm, warm: a joy.",
    "the of and",
    "?!",
    "It is what it is.",
    "An intimate documentary, patient and humane.",
    "Bad. Bad. Bad. And yet I laughed.",
]


def expected_words(saliency):
    """The words that the answer names, for and against the class: the rule, written out once more."""
    words = [(word.text, word.score) for word in saliency.weighed_words()]
    sizes = [abs(score) for _, score in words]
    if max(sizes) <= 0.05 * sum(sizes):
        return [[], []]
    supporting = [w for w in words if w[1] > 0]
    enough, supported, named = 0.6 * sum(score for _, score in words if score > 0), 0.0, []
    for text, score in sorted(supporting, key=lambda w: -w[1]):
        if supported < enough and len(named) < 3:
            supported += score
            named += [text] if text not in named else []
    opposing = sorted((w for w in words if w[1] < 0), key=lambda w: w[1])
    notable = [text for text, score in opposing if -score >= 0.25 * max(sizes)][:2]
    return [[name_in_sentence(word) for word in words] for words in (named, notable)]


def test_the_answer_names_the_words_by_its_rule(show, reviews):
    explain = nbsal.Explainer(reviews, bench.SIGNED, layer=3)
    for text in TEXTS:
        view = Highlight(explain, text=text).wait()
        answer = show(view).locator(".nbsal-headline")
        expect(answer).to_have_text(plain(view.result.headline()))
        words = [answer.locator(f".nbsal-word-{side}").all_text_contents() for side in ("for", "against")]
        assert words == expected_words(view.result), text


def test_where_special_tokens_hold_most_of_the_score_the_answer_says_that_it_is_about_the_words(show, reviews):
    view = Highlight(nbsal.Explainer(reviews, "mask-lrp"), text=REAL).wait()
    assert view.result.special_share() > 0.5
    sentence = plain(view.result.headline())
    assert " — among the words, because of " in sentence
    expect(show(view).locator(".nbsal-headline")).to_have_text(sentence)


@pytest.mark.parametrize("name", [*OF_ONE_TEXT, "browse"])
def test_the_legend_says_what_a_percentage_is_of(show, sheet, views, name):
    root = show(name, live=True)
    if name == "browse":
        root.get_by_role("button", name="Open text 0").click()
        views[name].opened = 0
        bench.answer(sheet, views[name].wait())
    words = root.locator(".nbsal-text .nbsal-mark")
    shades = words.evaluate_all("nodes => nodes.map(node => Number(node.style.getPropertyValue('--s')))")
    strongest = words.nth(shades.index(1)).inner_text()
    expect(root.locator(".nbsal-legend")).to_contain_text(f"100 % = {strongest}")


def test_words_against_are_underlined_in_the_legend_as_in_the_text(show, sheet, views):
    root = show(Highlight(nbsal.Explainer(views["highlight"].subject, bench.SIGNED), text=REAL).wait(), live=True)
    ramp = root.locator(".nbsal-ramp").bounding_box()["width"]
    dashes = "() => getComputedStyle(document.querySelector('.nbsal-ramp'), '::after')"
    width = sheet.evaluate(f"{dashes[:6]}parseFloat({dashes[6:]}.width)")
    assert width / ramp == pytest.approx((1 - FAINT / STRONGEST) / 2, abs=0.005)
    assert "at least 10\u202f%" in root.locator(".nbsal-legend").get_attribute("title")
    root.get_by_role("button", name="Display").or_(root.get_by_text("Display", exact=True)).first.click()
    root.get_by_role("button", name="For only", exact=True).click()
    assert sheet.evaluate(f"{dashes[:6]}{dashes[6:]}.content") == "none"


def text_of(html):
    return re.sub(r"\s+", " ", markup.unescape(re.sub("<style.*?</style>|<[^>]*>", "", html, flags=re.DOTALL)))


@every_view
def test_static_html_says_the_same(show, views, name):
    root = show(name, live=True)
    static = text_of(views[name].render_html())
    answers = [re.sub(r"\s+", " ", text) for text in root.locator(".nbsal-headline").all_text_contents()]
    assert answers and all(answer in static for answer in answers)
    if name in OF_ONE_TEXT:
        shares = [re.sub(r"\s", " ", text) for text in root.locator(".nbsal-share > span").all_text_contents()]
        places = [static.index(part) for part in [answers[0], REAL[:30], *shares[:1]]]
        assert places == sorted(places) and (shares or name == "games")


WORD_BOXES = """(root, [texts]) => [...root.querySelectorAll(texts)].filter(node => node.textContent.trim())
  .map(node => { const { left, top } = node.getClientRects()[0]; return [left + 3, top + 1]; })"""


def shades(page, root, words):
    """The colour at the upper left of each word, above its letters, in a screenshot of the page."""
    places = root.evaluate(WORD_BOXES, [words])
    picture = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    return np.array([picture.getpixel((round(x), round(y))) for x, y in places], int)


def test_words_have_the_same_colours_in_static_html(chromium, show, sheet, views):
    live = shades(sheet, show("highlight", live=True), ".nbsal-text .nbsal-mark")
    page = open_page(chromium)
    page.set_content(f"<body style='background:white'>{views['highlight'].render_html()}")
    static = shades(page, page.locator("[role=figure]"), "p[dir] > span")
    page.context.close()
    assert len(live) == len(static) > 10 and len({*map(tuple, live)}) > 5
    assert abs(live - static).max() <= 12 and np.median(abs(live - static)) <= 3


OPTION_KEYS = ["gamma", "clip", "signed", "tau", "level", "unit", "rho", "target", "other_method"]
ENGLISH = {"random", "integrated", "smooth", "simple", "occlusion", "rollout"}  # methods whose name in code is a word
# What a reader sees or hears, without the menus and the tooltips.
WORDS = """root => [root, ...root.querySelectorAll('*')].filter(node => !node.closest('.nbsal-popover'))
  .flatMap(node => ['aria-label', 'aria-valuetext', 'placeholder'].map(name => node.getAttribute(name)))
  .concat([...root.querySelectorAll('svg text')].map(node => node.textContent), root.innerText)
  .filter(Boolean).join('\\n')"""


@every_view
def test_no_name_of_an_option_or_a_method_in_code_is_seen(show, views, name):
    root = show(name, live=True)
    keys = [*OPTION_KEYS, *(set(catalogue.names()) - ENGLISH)]
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, sorted(keys, key=len, reverse=True)))})(?![\w-])")
    for words in [root.evaluate(WORDS), text_of(views[name].render_html()), text_of(views[name].to_html())]:
        assert len(words) > 100 and pattern.findall(words) == []


def test_the_picker_opens_with_eight_methods(show, sheet):
    root = show("highlight", live=True)
    root.locator(".nbsal-method-picker > summary").click()
    rows = root.get_by_role("listbox", name="Recommended methods").get_by_role("option")
    expect(rows).to_have_count(8)
    for row in rows.all():
        expect(row).to_be_visible()
        expect(row.locator("small")).to_have_text(re.compile(r"^[A-Z].{20,}\.$"))
        expect(row.locator(".nbsal-cost")).to_have_text(re.compile(r"^\d+ pass(es)?( per word)?$"))
        two = row.locator(".nbsal-swatch").evaluate("node => getComputedStyle(node).backgroundImage !== 'none'")
        key = row.get_attribute("data-method")
        assert two == (key not in ("decoded-gradcam", "mask-lrp"))
    assert root.locator(".nbsal-more[open]").count() == 0
    expect(root.locator(".nbsal-more > summary")).to_have_text(["More (21)", "As published (24)"])


def test_a_method_that_cannot_run_says_why_and_cannot_be_chosen(show, sheet, load):
    view = Highlight(nbsal.Explainer(load("bert", decoding=False), "gradcam"), text="The film is a joy.").wait()
    root = show(view, live=True)
    root.locator(".nbsal-method-picker > summary").click()
    sheet.keyboard.type("decoded grad-cam")
    row = root.locator("[data-method='decoded-gradcam']")
    expect(row).to_have_attribute("aria-disabled", "true")
    expect(row.locator("small")).to_contain_text("needs")
    sheet.keyboard.press("Enter")
    row.click(force=True)
    bench.expect_traits(sheet, method="gradcam")


def test_words_have_full_colour_where_most_of_the_score_is_on_special_tokens(show, reviews):
    root = show(Highlight(nbsal.Explainer(reviews, "mask-lrp"), text=REAL).wait())
    expect(root.locator(".nbsal-warning")).to_have_text(re.compile("^Most of the score lies on special tokens"))
    assert root.locator(".nbsal-warning").evaluate("node => getComputedStyle(node, '::before').content")[1] == "▲"
    strengths = tokens(root).evaluate_all("nodes => nodes.map(node => Number(node.style.getPropertyValue('--s')))")
    assert max(strengths) == 1


TYPED = "The unbelievably café film \U0001f600 naïve, 日本 joyful مرحبا."
MARKED = re.compile("[ĠĊ▁]|##|Ã")
CHECKPOINTS = [("bert", "span"), ("gpt2", "causal"), ("albert", "token"), ("llama", "causal")]


def views_of_tokens(explain, pair):
    text = ("Who ran?", TYPED) if pair else TYPED
    yield Highlight(explain, text=text)
    yield Workbench(explain, text=text, panels=["layers", "games"])
    yield Clouds(explain, [text, text], unit="token", idf={})
    yield Browse(explain, [text, text], opened=0)


@pytest.mark.parametrize(("architecture", "head"), CHECKPOINTS)
def test_no_mark_of_a_tokenizer_is_seen(show, sheet, load, architecture, head):
    explain = nbsal.Explainer(load(architecture, head, dtype="float32", decoding=False), bench.SIGNED, layer=1)
    assert any(MARKED.search(token) for token in explain.subject.encode(TYPED).tokens)
    for view in views_of_tokens(explain, head == "span"):
        root = show(view.wait(), live=True)
        for level in ("word", "token"):
            if view.has_trait("level"):
                bench.change(sheet, level=level)
            assert MARKED.findall(root.evaluate(WORDS)) == [], (type(view).__name__, level)
            titles = root.evaluate("root => [...root.querySelectorAll('[title]')].map(node => node.title).join()")
            assert MARKED.findall(titles) == []
        assert MARKED.findall(text_of(view.render_html())) == []


def test_no_token_of_the_demos_has_a_mark_in_its_name(reviews):
    tokenizer = reviews.tokenizer
    names = [token_name(tokenizer, index) for index in range(1000, len(tokenizer), 7)]
    assert [name for name in names if MARKED.search(name)] == [] and len(names) > 3000


def test_a_menu_is_not_cut_off_by_the_cell(chromium, views):
    page = open_page(chromium, viewport={"width": 700, "height": 800})
    bench.show(page, views["highlight"], live=True)
    root = page.locator("section.nbsal")
    root.evaluate("node => { node.parentElement.style = 'overflow: hidden; height: 330px; margin-top: 20px'; }")
    for menu in [".nbsal-method-picker", ".nbsal-at-end"]:
        summary, sheet = root.locator(f"{menu} > summary").first, root.locator(f"{menu} > .nbsal-sheet").first
        summary.click()
        page.wait_for_function("node => node.getBoundingClientRect().height > 60", arg=sheet.element_handle())
        box, button = sheet.bounding_box(), summary.bounding_box()
        assert box["y"] == pytest.approx(button["y"] + button["height"] + 4, abs=1)
        assert box["x"] >= 0 and box["x"] + box["width"] <= 700 and box["y"] + box["height"] <= 800
        at = [box["x"] + box["width"] / 2, box["y"] + box["height"] - 12]
        assert sheet.evaluate("(node, at) => node.contains(document.elementFromPoint(...at))", at), "it is in sight"
        page.mouse.click(5, 5)
        expect(sheet).to_be_hidden()
    assert page.problems == []
    page.context.close()


def test_buttons_keep_their_corners_in_a_notebook(show, sheet):
    root = show("games", live=True)
    corners = "nodes => nodes.map(node => getComputedStyle(node).borderRadius)"
    buttons = root.locator(".nbsal-button, .nbsal-class, .nbsal-play-button")
    before = buttons.evaluate_all(corners)
    sheet.add_style_tag(content=".jp-ThemedContainer button { border-radius: 0 }")
    sheet.evaluate("() => document.body.classList.add('jp-ThemedContainer')")
    assert buttons.evaluate_all(corners) == before and "0px" not in before
    sheet.evaluate("() => document.body.classList.remove('jp-ThemedContainer')")
