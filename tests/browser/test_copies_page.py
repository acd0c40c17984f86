"""A page says what its copies say: the sentence, the findings, the bars, the classes and the legend."""

import dataclasses
import re

import numpy as np
import pytest

from nbsal.render import sheet_html
from nbsal.render.colours import STRONGEST
from nbsal.render.headline import phrases, plain
from nbsal.render.html import visible
from nbsal.render.sheet import (
    Balance,
    Bar,
    Beside,
    CellTable,
    Choice,
    Heading,
    Legend,
    Line,
    Sentence,
    SizedWords,
)
from tests.browser.checklist.saving import SAID
from tests.widgets.test_copies import MANY, TEXTS, Words, cells, views_of_many
from tests.widgets.test_copies import plain as without_signs

# All that a page of many texts, or of a pair, says, in its order, but for tools and what they do. In its first frame a
# page sees its width, on which the place of an opened text depends.
PAGE = """async root => {
  for (const frame of [1, 2]) await new Promise(requestAnimationFrame);
  const tools = '.nbsal-segments, .nbsal-stepper, .nbsal-popover, .nbsal-method-picker, .nbsal-next, '
    + '.nbsal-state-line, .nbsal-readout:not(.nbsal-clouds *), .nbsal-classes > .nbsal-quiet, '
    + '.nbsal-tools > .nbsal-quiet, .nbsal-words:not(.nbsal-listed) span, .nbsal-opened > header > span, '
    + '[aria-hidden=true], [hidden], select, input, '
    + 'button:not(.nbsal-pair, .nbsal-class, .nbsal-audit-titles *)';
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), said = [];
  while (walker.nextNode()) {
    const { parentElement: node, textContent } = walker.currentNode;
    if (!node.closest(tools)) said.push(textContent);
  }
  return said.join(' ');
}"""


def blocks(sheet, kind):
    return [block for block in sheet.blocks if isinstance(block, kind)]


def bare(text):
    return "".join(text.split())


@pytest.mark.parametrize("name", ["highlight", "layers", "games"])
def test_a_page_says_what_its_copies_say(show, views, name):
    root, sheet = show(name), views[name].sheet()

    def texts(selector):
        return [bare(text) for text in root.locator(selector).all_text_contents() if text]

    (sentence,), (legend,) = blocks(sheet, Sentence), blocks(sheet, Legend)
    assert texts(".nbsal-headline") == [bare(plain(sentence.phrases))]
    assert texts(".nbsal-panel h3") == [bare(plain(block.phrases)) for block in blocks(sheet, Heading)]
    assert texts(".nbsal-legend") == [bare("".join(word for _, word in legend.ends) + f"·{legend.unit}")]
    choices = [item for block in blocks(sheet, Line) for item in block.items if isinstance(item, Choice)]
    if name != "games":
        assert texts(".nbsal-class") == [bare(choice.name + choice.value) for choice in choices] != []
    if name == "highlight":
        (table,) = blocks(sheet, CellTable)
        rows = [
            [cell if isinstance(cell, str) else plain(cell) for cell in row if cell != row[1]] for row in table.rows
        ]
        assert texts(".nbsal-ranking li") == [bare("".join(row)) for row in rows]
        assert any(len(row) > 2 for row in rows)  # of words that were hidden


@pytest.fixture(scope="module")
def many(small):
    return views_of_many(small)


@MANY
def test_a_page_of_many_texts_says_what_its_copies_say(show, many, name):
    for number in range(len(TEXTS)) if name in ("compare", "browse") else (1, 6):
        view = many[name](number).wait()
        page = said(show(view))
        assert page.replace("otherpagesneedPython", "") == copied(view), f"text {number}"
        view.close()


def said(root):
    """The words and numbers of a page, without spaces and signs."""
    return re.sub("[·:]", "", without_signs(root.evaluate(PAGE)))


def copied(view):
    """The same of its copies; of a pair the page names the methods in tools."""
    blocks = [
        dataclasses.replace(each, columns=list(map(badged, "AB", each.columns))) if isinstance(each, Beside) else each
        for each in view.sheet().blocks
    ]
    html = sheet_html.render(dataclasses.replace(view.sheet(), blocks=blocks))
    return re.sub("[·:]", "", without_signs(Words(html).text))


def badged(letter, column):
    return [Heading(phrases(letter)), *column[1:]]


def numbers(root, selector, *properties):
    """Custom properties of elements: shades, and lengths in percent."""
    read = "(nodes, names) => nodes.map(node => names.map(name => parseFloat(node.style.getPropertyValue(name)) || 0))"
    return np.array(root.locator(selector).evaluate_all(read, properties))


@pytest.mark.parametrize("setting", [{}, {"signed": False}, {"gamma": 0.5, "clip": 0.5}], ids=str)
def test_a_page_is_coloured_like_its_copies(show, many, setting):
    view = many["browse"](1).wait()
    for name, value in setting.items():
        view.set_trait(name, value)
    shades = numbers(show(view), ".nbsal-excerpt .nbsal-piece, .nbsal-opened .nbsal-text [role=option]", "--s")
    found = re.findall(r"rgba\(\d+,\d+,\d+,([.0-9]+)\);border-radius", view.render_html())
    opacities = np.array(found, float) / STRONGEST
    assert shades[shades > 0] == pytest.approx(opacities[opacities > 0], abs=2e-3) and (shades > 0).sum() > 10
    view.close()


def test_bars_of_a_page_are_those_of_its_copies(show, many):
    view, listed = many["audit"](1).wait(), many["clouds"](1).wait()
    root = show(view)
    balances = [(each.broken, each.corrected) for each in cells(view, Balance)]
    bars = [(each.share, *each.ends, each.tick) for each in cells(view, Bar)]
    assert numbers(root, ".nbsal-audit-bars i", "--length").ravel() / 100 == pytest.approx(np.ravel(balances))
    intervals = numbers(root, ".nbsal-slice-bars i", "--now", "--low", "--high", "--before") / 100
    assert intervals == pytest.approx(np.array(bars))
    lengths = numbers(show(listed), ".nbsal-listed i", "--length").ravel() / 100
    assert lengths == pytest.approx([each.share for each in cells(listed, Bar)])
    for each in (view, listed):
        each.close()


def test_words_of_a_cloud_have_the_size_of_its_copies(show, sheet, many):
    view = many["clouds"](2).wait()
    sheet.set_viewport_size({"width": 1400, "height": 900})
    texts = show(view).locator(".nbsal-words b")
    drawn = texts.evaluate_all(
        "nodes => nodes.map(node => [node.textContent, parseFloat(getComputedStyle(node).fontSize)])"
    )
    sheet.set_viewport_size({"width": 1100, "height": 900})
    sizes = [[visible(word.text), word.size] for block in blocks(view.sheet(), SizedWords) for word in block.words]
    assert [word for word, _ in drawn] == [word for word, _ in sizes]
    assert [size for _, size in drawn] == pytest.approx([size for _, size in sizes])
    view.close()


@pytest.mark.parametrize("name", ["answers", "workbench"])
def test_copies_lack_only_controls(show, views, name):
    copy = bare(Words(views[name].render_html()).text)
    said = show(name).evaluate(SAID)
    assert len(said) > 40 and [text for text in said if bare(text) not in copy] == []
    places = [copy.index(bare(text)) for text in said if copy.count(bare(text)) == 1]
    assert places == sorted(places)
