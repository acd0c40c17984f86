"""Checks of single views: Heads, Games, Browse, Compare and Answers; 23, 24, 25, 27, 28 and 29."""

import re
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.checklist import check
from tests.browser.checklist.session import PATIENCE, Session

NUMBER = re.compile(r"[−-]?\d+(?:\.\d+)?")


def number(text: str) -> float:
    """The first number in a text."""
    return float(NUMBER.search(text)[0].replace("−", "-"))


@check(23, "Heads: numbers, relations, before → after, Undo")
def heads(session: Session) -> str:
    root = session.view("heads")
    grid = root.get_by_role("grid", name="Heads by block")
    columns = grid.get_by_role("columnheader").all_inner_texts()[1:]
    blocks = grid.get_by_role("rowheader").all_inner_texts()
    assert columns == [str(k) for k in range(len(columns))] and columns, f"columns {columns}"
    assert [number(block) for block in blocks] == [*range(len(blocks))], f"rows {blocks}"
    named = grid.get_by_role("gridcell", name=re.compile("nsubj|obj|amod|advmod"))
    assert named.count(), "no cell names a relation"
    line, before = root.locator(".nbsal-headline"), root.locator(".nbsal-headline").inner_text()
    named.first.click(modifiers=["Shift"])
    expect(line).to_contain_text("→")
    after = line.inner_text()
    session.settle("heads")
    root.get_by_role("button", name="Undo").click()
    expect(line).to_have_text(before, use_inner_text=True)
    off = session.value("heads.toggled")
    assert off == [], f"still off: {off}"
    return f"{len(blocks)} × {len(columns)} heads, {named.count()} follow a relation; “{after.split('.')[0]}…”"


@check(24, "the axes of attention are named")
def attention(session: Session) -> str:
    root = session.view("heads")
    grid = root.get_by_role("grid", name=re.compile("attention", re.I))
    rows, columns = (grid.get_by_role(role).all_inner_texts() for role in ("rowheader", "columnheader"))
    direction = root.get_by_text("rows attend to columns").filter(visible=True).count()
    assert rows and rows == columns and all(rows) and direction, f"rows {rows}, columns {columns}"
    return f"{len(rows)} words and special tokens on both axes"


@check(25, "Games plays to its end, Space pauses, each step is said")
def games(session: Session) -> str:
    page = session.page
    page.emulate_media(reduced_motion="no-preference")
    with session.having("games", text="A warm and funny film, if slow and dull at times.", at=0) as root:
        count, line = session.value("len(games.token_games.order)"), root.locator(".nbsal-headline")
        slider = root.get_by_role("slider", name="Words hidden", exact=True)
        root.get_by_role("button", name=re.compile("^(Play|Next step)$")).click()
        page.wait_for_function("slider => Number(slider.value) >= 2", arg=slider.element_handle())
        before = slider.input_value()
        focus = page.evaluate("() => document.activeElement.outerHTML.slice(0, 100)")
        page.keyboard.press("Space")
        expect(root.get_by_role("button", name="Play")).to_be_visible()
        paused = slider.input_value()
        page.wait_for_timeout(900)
        at = slider.input_value()
        assert at == paused != str(count), f"Space at {before}, paused at {paused}, now at {at}; focus on {focus}"
        page.keyboard.press("Space")
        page.wait_for_function(
            "([slider, count]) => Number(slider.value) === count", arg=[slider.element_handle(), count]
        )
        said = []
        for step in range(count + 1):
            slider.fill(str(step))
            expected = session.value("games.statement.text()", f"games.at = {step}")
            expect(line).to_have_text(expected)
            said.append(expected)
    assert re.match(r"After (hiding )?\d+ words: ", said[-2]), said[-2]
    return f"paused at {paused} of {count}; “{said[4]}”"


# Where each row lies in the last table, frame by frame, while it fills; and how many states of it were painted.
FILLING = """() => {
  const tops = window.tops = {}, moved = window.moved_rows = [], states = window.states = new Set();
  const cell = [...document.querySelectorAll('.jp-CodeCell')].at(-2);
  const look = () => {
    for (const row of cell.querySelectorAll('tbody tr[data-number]')) {
      const place = Math.round(row.getBoundingClientRect().top - row.closest('table').getBoundingClientRect().top);
      const { number } = row.dataset;
      if (tops[number] !== undefined && tops[number] !== place) moved.push([number, tops[number], place]);
      tops[number] = place;
    }
    const line = cell.querySelector('.nbsal-headline');
    if (line && cell.querySelector('tbody tr[data-number]')) states.add(line.textContent);
    if (window.tops === tops) requestAnimationFrame(() => setTimeout(look)); // once the frame is painted
  };
  look();
}"""


def rows_of(root: Locator) -> Locator:
    """The texts in the table."""
    return root.locator("tbody tr[data-number]")


@check(27, "Browse filters, sorts, opens by keys; 160 texts fill, no row moves")
def browse(session: Session) -> str:
    page, root = session.page, session.view("browse")
    errors = root.get_by_role("button", name=re.compile("^Errors|^Misclassified"))
    wrong = int(number(errors.inner_text()))
    errors.press("Enter")
    session.settle("browse")
    texts = rows_of(root).all_inner_texts()
    assert texts and all("✗" in text for text in texts), f"not misclassified: {[t for t in texts if '✗' not in t][:2]}"
    errors.press("Enter")
    root.get_by_role("button", name=re.compile("^All")).press("Enter")
    root.get_by_role("columnheader").get_by_role("button", name="Prediction").press("Enter")
    session.settle("browse")
    shares = [float(re.search(r"([\d.]+)\u202f%", text)[1]) for text in rows_of(root).all_inner_texts()]
    assert shares in (sorted(shares), sorted(shares, reverse=True)), f"sorted: {shares}"
    opener = rows_of(root).nth(1).get_by_role("button").first
    opener.press("Enter")
    expect(rows_of(root).nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press("ArrowDown")
    expect(rows_of(root).nth(2)).to_have_attribute("aria-current", "true")
    session.set("browse", {"wrong": False, "sort": "number", "descending": False, "opened": 0})
    page.evaluate(FILLING)
    filling = session.run("filling")
    filling.locator(".nbsal-state", has_text="Up to date").wait_for(timeout=10 * PATIENCE)
    states, moved = page.evaluate("() => { window.tops = null; return [window.states.size, window.moved_rows]; }")
    count = int(number(root.get_by_role("button", name=re.compile("^All")).text_content()))
    assert count == 160 and states > 1 and not moved, f"{len(moved)} rows moved in {states} states: {moved[:3]}"
    return (
        f"{wrong} errors, sorted by confidence, opened by Enter and ↓; {count} texts in {states} states, 0 rows moved"
    )


FRAME = """[[row[column] for column in ("word", "first", "second", "first_rank", "second_rank")]
    for row in compare.result.to_frame().to_dict("records")]"""


def tau(first: list[int], second: list[int]) -> float:
    """Kendall's tau of two rankings without ties."""
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    return sum(1 if (first[i] < first[j]) == (second[i] < second[j]) else -1 for i, j in pairs) / len(pairs)


@check(28, "Compare: sentence, τ and dots agree with to_frame()")
def compare(session: Session) -> str:
    root, rows = session.view("compare"), session.value(FRAME)
    names = [name for name, *_ in rows]
    heading = root.get_by_role("heading", name=re.compile("τ")).first.inner_text()
    expected = tau([row[3] for row in rows], [row[4] for row in rows])
    assert abs(number(heading.split("τ =")[1]) - expected) < 0.006, f"{heading}, but τ is {expected:.3f}"
    listed = root.get_by_role("listbox", name="The strongest words").get_by_role("option").all_inner_texts()
    shares = [(first, second) for _, first, second, *_ in rows]
    wrong = []
    for text in listed:
        found = re.search(r"A\s([−\d]+)\u202f%\W+B\s([−\d]+)\u202f%", text)
        a, b = (number(value) / 100 for value in found.groups())
        if not any(abs(a - first) < 0.006 and abs(b - second) < 0.006 for first, second in shares):
            wrong.append(text)
    assert listed and not wrong, f"not in to_frame(): {wrong}"
    sentence, top = root.locator(".nbsal-headline").inner_text(), {}
    for side, column in (("A", 3), ("B", 4)):
        top[side] = names[[row[column] for row in rows].index(1)]
        assert top[side] in sentence, f"{top[side]} is first for {side}, but: {sentence}"
    return f"τ {expected:.2f}, {len(listed)} pairs of dots, first {top['A']} and {top['B']}"


MATRIX = """rows => rows.map(row => [...row.querySelectorAll('[role=gridcell]')]
  .map(cell => cell.textContent || cell.ariaLabel))"""


def row_sums(rows: list[list[str]]) -> list[tuple[float, int]]:
    """The sum of the numbers of each row, and how many are too small to be printed."""
    return [
        (
            sum(number(cell) for cell in row if "under" not in cell and NUMBER.search(cell)),
            sum("under" in c for c in row),
        )
        for row in rows
        if row
    ]


@check(29, "Answers: a word lights its source; strike, rival, row sums")
def answers(session: Session) -> str:
    root = session.view("answers")
    word = root.get_by_role("listbox", name="The reply, word by word").get_by_role("option", name="Oslo", exact=True)
    if word.get_attribute("aria-selected") != "true":
        word.click()
    line = root.locator(".nbsal-headline")
    expect(line).to_have_text(re.compile("“Oslo” depends on document 3"))
    lit = _strengths(root, "Document 3") | {"other": max(_strengths(root, "You").values())}
    assert lit["Oslo"] > 0.5 > lit["other"], f"document 3: {lit}"
    sums = row_sums(root.get_by_role("grid", name=re.compile("phrases", re.I)).get_by_role("row").evaluate_all(MATRIX))
    off = [total for total, small in sums if not 100 - 2 * small - 3 <= total <= 103]
    assert sums and not off, f"rows of the matrix sum to {off}"
    root.get_by_role("button", name="Strike out: Document 3").click()
    session.settle("answers")
    fall = root.get_by_role("group", name="Document 3").inner_text()
    assert "→" in fall, f"the card says {fall!r}"
    root.get_by_role("button", name="Undo").click()
    session.settle("answers")
    rival = root.get_by_role("group", name="Instead of Oslo")
    rival.get_by_role("button", name="attic").click()
    session.settle("answers")
    against = root.get_by_role("listbox", name="Document 1, word by word").get_by_role(
        "option", name="attic", exact=True
    )
    expect(against).to_have_class(re.compile("nbsal-against"))
    said = line.inner_text()
    session.python("answers.rival = answers.at = None\n_ = answers.wait()")
    assert "rather than “attic”" in said, said
    change = re.search(r"[\d.]+\W%? → [\d.]+\W%", fall)[0]
    return f"“{said}”; struck: {change}; rows sum to {[round(total) for total, _ in sums]}"


def _strengths(root: Locator, source: str) -> dict[str, float]:
    marks: list[list[Any]] = (
        root.get_by_role("listbox", name=f"{source}, word by word")
        .get_by_role("option")
        .evaluate_all(
            "nodes => nodes.map(node => [node.textContent, Number(getComputedStyle(node).getPropertyValue('--s'))])"
        )
    )
    return dict(marks)
