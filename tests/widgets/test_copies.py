"""Copies of a view say the same: the words of static HTML, of the picture and of the terminal, and their bars."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import nbsal
from nbsal.explain.text_sheet import word_bars
from nbsal.render import headline, sheet_html, sheet_png, sheet_terminal
from nbsal.render.html import visible
from nbsal.render.sheet import Bar, Card, Sheet
from nbsal.widgets import Answers, Games, Heads, Workbench
from tests.browser import bench
from tests.cases import cases

TEXTS = [
    ["bad"],
    bench.REAL.split(),
    ["warm", ",", "warm", "!"],
    ["هذا", "الفيلم", "جيد"],
    ["日本語", "映画", "です"],
    ["\U0001f469\u200d\U0001f467", "joy"],
    ["<b>bold</b>", "&lt;", "$\\frac{$"],
    ["\x1b[31m", "red", "\u202eevil"],
    ["x" * 90, "y"],
    [f"word{number}" for number in range(100)],
]
TEXT = "A warm and oddly funny film, though it drags."
SIGNS = "█▒░▓▁▃▅▇▸●○…[]()"  # of a terminal, which draws with characters


class Words(HTMLParser):
    """The text of HTML."""

    def __init__(self, source):
        super().__init__()
        self.text = ""
        self.feed(source)

    def handle_data(self, data):
        self.text += data


def plain(text):
    """A text without spaces, escape codes for colours, and the signs of a terminal."""
    return re.sub(rf"\x1b\[[0-9;]*m|[\s\u200b{re.escape(SIGNS)}]", "", text)


def drawn(sheet):
    """The texts of the picture, in the order in which they are written."""
    ax, *_ = sheet_png.draw(sheet).axes
    return [text.get_text() for text in ax.texts]


def assert_copies_agree(sheet):
    page = plain(Words(sheet_html.render(sheet)).text)
    assert plain(sheet_terminal.render(sheet)) == page
    assert plain("".join(drawn(sheet))) == page
    return page


@cases("tokens", TEXTS)
def test_copies_of_a_result_say_the_same(tokens):
    saliency, layers = bench.saliency_of(tokens), bench.saliency_of(tokens, layers=3)
    for level in ("word", "token"):
        page = assert_copies_agree(saliency.sheet(level, classes=[("a", 0.7), (tokens[0], 0.2), ("c", 0.1)]))
        assert plain(visible(saliency.statement().text())) in page and "70.0" in page
        assert_copies_agree(layers.sheet(1, level, "shared"))


@pytest.mark.parametrize("kind", [Games, Heads, Workbench])
def test_copies_of_a_view_say_the_same(small, kind):
    settings = (
        {"panels": ["layers", "games", "heads"]}
        if kind is Workbench
        else {"kind": "both"}
        if kind is Heads
        else {"at": 2}
    )
    view = kind(nbsal.Explainer(small, "gradxact", layer=2), text=TEXT, check=False, **settings).wait()
    page = assert_copies_agree(view.sheet())
    assert plain(view.statement.text()) in page and plain(str(view)).startswith(plain(view.statement.text()))
    assert plain(Words(view.render_html()).text) == page
    view.close()


def test_copies_of_an_answer_say_the_same():
    view = Answers(nbsal.load("demo/notes"), bench.ASKED, documents=bench.NOTES, method="gradxact").wait()
    for traits in ({}, {"rival": "Rouen", "at": 3}, {"struck": [4], "level": "sentence"}, {"hops": "all"}):
        with view.hold_sync():
            view.rival = view.at = None
            for name, value in ({"struck": [], "hops": 0} | traits).items():
                setattr(view, name, value)
        page, facts = assert_copies_agree(view.wait().sheet()), view._facts
        part = view._chosen
        said = [*bench.NOTES.values(), facts["likelihood"], facts["finding"], *view._result["notes"]]
        said += [*filter(None, part["shares"][1:-1]), headline.plain(part["headline"]), headline.plain(part["struck"])]
        said += [words for words, _ in part["changes"]] + [text for _, text, _ in facts["rivals"][part["at"]]]
        said += [f"{text} {share}" for hop in part["through"].get("hops", []) for _, text, share in hop]
        assert [text for text in said if plain(text) not in page] == []
    assert_copies_agree(view.result.sheet())
    view.close()


def test_the_bars_of_sources_are_their_shares():
    view = Answers(nbsal.load("demo/notes"), bench.ASKED, documents=bench.NOTES, method="gradxact").wait()
    cards = [block for block in view.sheet().blocks if isinstance(block, Card)][1:]
    shares = [cell.share for card in cards for cell in card.end if isinstance(cell, Bar)]
    assert shares == list(view.picture().facts.shares[1:-1])  # the first source is not read
    view.close()


def test_bars_have_the_same_lengths_in_every_copy():
    saliency = bench.saliency_of(bench.REAL.split())
    sheet = Sheet("", word_bars(saliency))
    scores = [abs(word.score) for word in saliency.ranked_words(10)]
    shares = np.array(scores) / scores[0]
    page = [int(width) for width in re.findall(r"width:(\d+)px;background-color:#", sheet_html.render(sheet))]
    boxes, *_ = sheet_png.draw(sheet).axes[0].collections
    picture = np.array([np.ptp(box.vertices[:, 0]) for box in boxes.get_paths()])
    lines = sheet_terminal.render(sheet).splitlines()[-len(scores) :]
    terminal = np.array([len(re.findall("[█▒]", line)) for line in lines])
    assert np.array(page) / page[0] == pytest.approx(shares, abs=0.01)
    assert picture / picture[0] == pytest.approx(shares, abs=1e-3)
    assert terminal / terminal[0] == pytest.approx(shares, abs=0.06)
