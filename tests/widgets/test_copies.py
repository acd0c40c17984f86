"""Copies of a view say the same: the words of static HTML, of the picture and of the terminal, and their bars."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import nbsal
from nbsal.explain.text_sheet import word_bars
from nbsal.render import headline, sheet_html, sheet_png, sheet_terminal
from nbsal.render.colours import AGAINST, BARE, FOR, GREY, STRONGEST
from nbsal.render.html import visible
from nbsal.render.sheet import Balance, Bar, Card, CellTable, Sheet, SizedWords
from nbsal.widgets import Answers, Audit, Browse, Clouds, Compare, Games, Heads, Workbench
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
SIGNS = "█▒░▓▁▃▅▇▸●○…[]()─│"  # of a terminal, which draws with characters


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


def explained(tokens):
    """Two results of a text, whose strongest words differ."""
    first = bench.saliency_of(tokens)
    return first, dataclasses.replace(first, method="simple", scores=np.roll(first.scores, 1))


def audited(model):
    """An audit of all texts twice, whose labels are often wrong."""
    texts, labels = [" ".join(tokens) for tokens in TEXTS] * 2, [int(number % 7 > number // 10) for number in range(20)]
    groups = {"odd": [label > 0 for label in labels]}
    return nbsal.audit(nbsal.Explainer(model, "gradxact"), texts, labels, groups=groups, least=1, progress=False)


def views_of_many(model):
    """Functions that return a view of the ten texts, in one of which the text of that number is in the foreground."""
    results = [explained(tokens)[0] for tokens in TEXTS]
    labels, audit = [results[number - number % 2].prediction for number in range(len(TEXTS))], audited(model)
    words, part = list(dict.fromkeys(audit.words.word)), "{0.slice}: {0.value}".format(audit.slices.iloc[0])
    return {
        "compare": lambda k: Compare(*explained(TEXTS[k]), difference=k == 1, scale=("own", "shared")[k % 2]),
        "browse": lambda k: Browse(results, labels=labels, opened=k, level=("word", "token")[k % 2]),
        "clouds": lambda k: Clouds(results, form=("cloud", "list")[k % 2], picked=[results[k].prediction, TEXTS[k][0]]),
        "audit": lambda k: Audit(audit, picked=words[k : k + k % 3], part=None if k % 3 else part),
    }


def cells(view, kind):
    """The cells of a kind in the tables of a sheet."""
    tables = [block for block in view.sheet().blocks if isinstance(block, CellTable)]
    return [cell for table in tables for row in table.rows for cell in row if isinstance(cell, kind)]


MANY = pytest.mark.parametrize("name", ["compare", "browse", "clouds", "audit"])


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


@pytest.fixture(scope="module")
def many(small):
    return views_of_many(small)


@MANY
def test_copies_of_many_texts_say_the_same(many, name):
    for number in range(len(TEXTS)) if name == "compare" else (1, 3, 6):
        view = many[name](number).wait()
        page = assert_copies_agree(view.sheet())
        assert plain(Words(view.freeze().html).text).startswith(page)
        assert [part for part in parts_of(view, number) if plain(visible(part)) not in page] == []
        view.close()


def parts_of(view, number):
    """Words and numbers of the data that a view cannot leave out."""
    if isinstance(view, Compare):
        return [view.result.heading(), *(text for row in view.result.listed() for text in (row.name, *row.texts))]
    rows = [text for row in view._table["rows"] for text in (str(row["number"]), row["name"], row["share"], row["top"])]
    if isinstance(view, Audit):
        words, slices = view._words, view._slices
        cells = [cell for row in words["rows"] for cell in row["cells"] if isinstance(cell, str)]
        return [*rows, *cells, words["rest"], *(text for row in slices["rows"] for text in (row["name"], row["text"]))]
    if isinstance(view, Clouds):
        return [*rows, *(word["word"] for cloud in view._clouds for word in cloud["words"])]
    return [*rows, plain(view._table["opened"]["statement"]["badge"]), f"Text {number}"]


def test_bars_of_hidden_words_have_the_same_lengths_in_every_copy(many):
    view = many["audit"](1).wait()
    words = cells(view, Balance)
    shares = [share for cell in words for share in (cell.broken, cell.corrected)]
    assert {0.0, 1.0} < {*shares}
    page = re.findall(r"width:(\d+)px;background-color:#(?:c94038|00847d)", sheet_html.render(view.sheet()))
    assert [*map(int, page)] == [round(100 * share) for share in shares]
    boxes, *_ = sheet_png.draw(view.sheet()).axes[0].collections
    picture = [np.ptp(box.vertices[:, 0]) for box in boxes.get_paths()]
    assert picture[: len(shares)] == pytest.approx([120 * share for share in shares])
    terminal = sheet_terminal.render(view.sheet())
    lines = [line for line in terminal.partition("breaks")[2].splitlines()[1:] if re.search("[█▒]", line)][: len(words)]
    lengths = [[line.count("▒"), line.count("█")] for line in lines]
    assert lengths == [[round(10 * each.broken), round(10 * each.corrected)] for each in words]
    view.close()


def test_intervals_have_the_same_places_in_every_copy():
    bar = Bar(0.5, hue=GREY, ends=(0.25, 0.75), tick=0.4)
    sheet = Sheet("", [CellTable([["name", bar]])])
    assert "█████▓▓▓│▓─────" in sheet_terminal.render(sheet)
    pieces = re.findall(
        r"width:(\d+)px;height:10px;background-color:([^;]+);.*?bottom:(\w+).*?left:(\w+)", sheet_html.render(sheet)
    )
    widths, grounds, lines, ticks = zip(*pieces, strict=True)
    assert widths == ("50", "30", "20", "50", "50") and [ground[0] for ground in grounds] == [*"###rr"]
    assert lines == ("0", "2px", "2px", "2px", "0") and ticks == ("0", "0", "2px", "0", "0")
    _, strokes, *_ = sheet_png.draw(sheet).axes[0].collections
    (start, tick) = (path.vertices[:, 0] for path in strokes.get_paths())
    left = tick[0] - 240 * bar.tick
    assert [*start] == pytest.approx([left + 240 * end for end in bar.ends]) and tick[0] == tick[1]


def test_sizes_of_words_are_the_same_in_every_copy(many):
    view = many["clouds"](0).wait()
    clouds = [block for block in view.sheet().blocks if isinstance(block, SizedWords)]
    sizes = [word.size for block in clouds for word in block.words]
    assert sizes == [max(12, 42 * word["share"]) for cloud in view._clouds for word in cloud["words"]]
    html = sheet_html.render(Sheet("", clouds))
    assert [int(size) for size in re.findall(r'<span style="font-size:(\d+)px', html)] == [*map(round, sizes)]
    ax, *_ = sheet_png.draw(Sheet("", clouds)).axes
    assert [text.get_fontsize() * 96 / 72 for text in ax.texts] == pytest.approx(sizes)
    view.close()


def test_display_settings_colour_the_copies(many):
    """`signed`, `clip` and `gamma` are those of the page: its formula is in `frontend/src/text/colour.ts`."""
    view = many["browse"](1).wait()

    def opacities(hue):
        channels = ",".join(map(str, hue))
        found = re.findall(rf"rgba\({channels},([.0-9]+)\);border-radius", view.render_html())
        return np.array(found, float) / STRONGEST

    before, against = opacities(FOR), opacities(AGAINST)
    assert len(before) > 5 and against.any()
    view.clip, view.gamma, view.signed = 0.5, 2.0, False
    assert not opacities(AGAINST).any(), "so nothing against is coloured"
    expected = np.minimum(1, before / 0.5) ** 2
    assert opacities(FOR) == pytest.approx(expected * (expected >= BARE), abs=2e-2)
    assert all("nothing shown against" in copy for copy in (view.render_html(), view.to_terminal()))
    view.close()
