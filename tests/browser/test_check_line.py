"""The line below the first sentence: what was measured, what runs, and what may be pressed to learn more."""

import pytest
from playwright.sync_api import expect

from nbsal.widgets.checked_view import offered
from tests.browser import bench

OFFERED = offered(20, 3.2)
ASKED = "() => { window.asked = []; window.view.model.send = ({ ask }) => window.asked.push(ask); }"


def presses(root):
    """The names of what can be pressed below the sentence."""
    return [name for name in root.locator(".nbsal-check button:visible").all_text_contents() if name]


@pytest.fixture
def say(show, sheet):
    """say(state of the check, measured, advice) -> the view, live or not, with that statement."""

    def draw(checking, measured=True, advice="", live=True):
        root = show("highlight", live=live)
        statement = bench.trait(sheet, "_statements")[0]
        effects = [["without warm", "12\u202f%", 0.12]] if measured else []
        said = {"evidence_line": "checked" if measured else "", "effects": effects, "advice": advice}
        bench.change(sheet, _checking=checking, _statements=[statement | said], method="gradxact")
        sheet.evaluate(ASKED)
        return root

    return draw


@pytest.mark.parametrize(
    ("checking", "measured", "advice", "names"),
    [
        (OFFERED, False, "", ["Check"]),
        (OFFERED, True, "", ["Check more words"]),
        ({}, True, "search", ["Search further"]),
        ({}, True, "rescue", ["Explain by Occlusion"]),
        (OFFERED, True, "rescue", ["Check more words", "Explain by Occlusion"]),
        ({"state": "waiting"}, True, "search", []),
        ({"state": "checking", "passes": 20, "note": "checking"}, True, "search", ["Stop"]),
        ({"state": "failed", "note": "No."}, False, "", []),
        ({}, True, "", []),
    ],
)
def test_what_may_be_pressed(say, checking, measured, advice, names):
    assert presses(say(checking, measured, advice)) == names


def test_rows_of_words_show_what_hiding_them_did_as_soon_as_it_is_known(show, sheet):
    rows = show("highlight").get_by_role("listbox", name="Strongest words").get_by_role("option")
    statement, ranked = bench.trait(sheet, "_statements")[0], bench.trait(sheet, "_result")["legends"][0]["ranked"]
    tokens = ranked["word"]["rows"][2]["tokens"]
    for number, kind in enumerate(["text", "class"]):
        said = [statement | {"alone": [[tokens, [kind, f"{number} without it"]]]}]
        sheet.evaluate("said => window.view.model.set('_statements', said)", said)  # of the same result
        assert [row.count("without it") for row in rows.all_text_contents()[:4]] == [0, 0, 1, 0]
        expect(rows.nth(2)).to_contain_text(f"{number} without it")
        expect(rows.nth(2).locator("strong")).to_have_count(number)


def test_a_press_is_asked_of_python(say, sheet):
    for checking, advice, name, request in [
        (OFFERED, "", "Check more words", "check"),
        ({}, "search", "Search further", "search"),
    ]:
        say(checking, advice=advice).get_by_role("button", name=name).click()
        assert sheet.evaluate("() => window.asked") == [request]
    root = say({}, advice="rescue")
    root.get_by_role("button", name="Explain by Occlusion").click()
    bench.expect_traits(sheet, method="occlusion")
    bench.change(sheet, _checking={"state": "waiting"})
    bench.change(sheet, _checking={})
    assert presses(root) == [], "it is the method now"


@pytest.mark.parametrize("checking", [OFFERED, {"state": "waiting"}, {"state": "checking", "done": 4, "passes": 20}])
def test_a_saved_page_offers_nothing_and_names_no_cost(say, checking):
    root = say(checking, measured=False, advice="search", live=False)
    assert presses(root) == [] and root.locator(".nbsal-check").inner_text() == "checked by hiding words"


def test_what_runs_is_said_until_something_is_measured(say):
    running = {"state": "checking", "passes": 20, "note": "checking: 4 of 20 passes"}
    expect(say(running, measured=False).locator(".nbsal-check > span:not(.nbsal-badge)")).to_have_text(
        "checking: 4 of 20 passes"
    )
    expect(say(running).locator(".nbsal-check > span:not(.nbsal-badge)")).to_have_text("")
    searching = running | {"passes": 0, "note": "searching: 4 sets"}
    expect(say(searching).locator(".nbsal-check > span:not(.nbsal-badge)")).to_have_text("searching: 4 sets")


def test_bars_that_are_open_keep_their_room_while_the_next_are_measured(say, sheet):
    root = say({})
    root.locator(".nbsal-check summary").click()
    bars, statement = root.locator(".nbsal-effects"), root.locator(".nbsal-statement")
    expect(bars).to_be_visible()
    height, measured = statement.bounding_box()["height"], bench.trait(sheet, "_statements")
    bench.change(
        sheet,
        _checking={"state": "waiting", "note": "checking"},
        _statements=[measured[0] | {"effects": []}],
    )
    expect(bars).to_be_hidden()
    expect(root.locator(".nbsal-check")).to_contain_text("checking")
    assert statement.bounding_box()["height"] == height
