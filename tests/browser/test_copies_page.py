"""A page says what its copies say: the sentence, the findings, the bars, the classes and the legend."""

import pytest

from nbsal.render.headline import plain
from nbsal.render.sheet import CellTable, Choice, Heading, Line, Marked, Sentence
from tests.browser.checklist.saving import SAID
from tests.widgets.test_copies import Words


def blocks(sheet, kind):
    return [block for block in sheet.blocks if isinstance(block, kind)]


def bare(text):
    return "".join(text.split())


@pytest.mark.parametrize("name", ["highlight", "layers", "games"])
def test_a_page_says_what_its_copies_say(show, views, name):
    root, sheet = show(name), views[name].sheet()

    def texts(selector):
        return [bare(text) for text in root.locator(selector).all_text_contents() if text]

    (sentence,), (marked,) = blocks(sheet, Sentence), blocks(sheet, Marked)
    assert texts(".nbsal-headline") == [bare(plain(sentence.phrases))]
    assert texts(".nbsal-panel h3") == [bare(plain(block.phrases)) for block in blocks(sheet, Heading)]
    legend = marked.legend
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


@pytest.mark.parametrize("name", ["answers", "workbench"])
def test_copies_lack_only_controls(show, views, name):
    copy = bare(Words(views[name].render_html()).text)
    said = show(name).evaluate(SAID)
    assert len(said) > 40 and [text for text in said if bare(text) not in copy] == []
    places = [copy.index(bare(text)) for text in said if copy.count(bare(text)) == 1]
    assert places == sorted(places)
