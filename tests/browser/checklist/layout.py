"""Checks of where things are: what comes first, widths, and that nothing moves; 1, 3, 4, 5 and 26."""

from itertools import combinations
from typing import Any

from tests.browser.checklist import check, in_words
from tests.browser.checklist.session import NAMES, OF_TEXT, WIDTHS, Session
from tests.browser.test_checks import OUTSIDE

FIRST_ROOM = 240  # px for the answer, the text and its readout at 400 px
# The tops of the first answer, text and readout; and what can be pressed above that readout.
FIRST = """root => {
  const top = root.getBoundingClientRect().top;
  const at = (selector) => [...root.querySelectorAll(selector)].find(node => node.checkVisibility());
  const parts = ['.nbsal-headline', '[role=listbox][aria-label*="word by word"]', '.nbsal-readout'].map(at);
  const boxes = parts.map(node => node.getBoundingClientRect());
  const settings = [...root.querySelectorAll('button, summary, input, select, [role=slider]')].filter((node) =>
    node.checkVisibility() && node.getBoundingClientRect().width > 0
    && !node.closest('.nbsal-statement, [aria-label=Reply]')
    && node.getBoundingClientRect().bottom <= boxes[2].top);
  return { tops: boxes.map(box => box.top - top), end: boxes[2].bottom - top,
    settings: settings.map(node => node.getAttribute('aria-label') || node.innerText) };
}"""
# The middle of every word and row of a list that is in the window.
POINTS = """root => [...root.querySelectorAll('[role=option]')].filter(node => node.checkVisibility())
  .map(node => node.getClientRects()[0] ?? node.getBoundingClientRect())
  .filter(({ width, top, bottom }) => width && top >= 0 && bottom <= innerHeight)
  .map(({ left, top, width, height }) => [left + width / 2, top + height / 2])"""
# Collects the heights that a view has from now on.
WATCH = """root => {
  window.heights = new Set();
  new ResizeObserver(() => window.heights.add(root.getBoundingClientRect().height)).observe(root);
}"""
HEIGHT = "node => node.getBoundingClientRect().height"
STATES = (("computing", None), ("computing", 0.4), ("cancelling", 0.4), ("cancelled", None))
CLOUD = """root => [...root.querySelectorAll('[role=listbox]')].map((list) => ({
  label: list.getAttribute('aria-label'),
  words: [...list.querySelectorAll('[role=option]')].filter(node => node.checkVisibility()).map((word) => {
    const { left, right, top, bottom } = word.getBoundingClientRect();
    const name = word.querySelector('b');
    return { name: name.textContent, box: [left, right, top, bottom], colour: getComputedStyle(name).color };
  }),
})).filter(({ words, label }) => words.length && label.startsWith('Words of'))"""
MANY = 100  # words of a cloud
TOUCH = 0.5  # px by which boxes may meet: their corners are rounded
# Degrees of hue of a colour as a canvas paints it.
HUE = """colour => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data.map(Number);
  const [most, least] = [Math.max(r, g, b), Math.min(r, g, b)];
  const turns = { [b]: 4 + (r - g) / (most - least), [g]: 2 + (b - r) / (most - least), [r]: (g - b) / (most - least) };
  return (60 * turns[most] + 360) % 360;
}"""
TAKEN = {"orange": (20, 42), "blue": (198, 232)}  # hues of for and against


@check(1, "at 400 px: answer, text, readout; no setting above")
def answer_text_readout(session: Session) -> str:
    wrong, ends = {}, {}
    for name in (*OF_TEXT, "answers"):
        with session.width(name, 400) as root:
            first = root.evaluate(FIRST)
        if first["tops"] != sorted(first["tops"]) or first["settings"]:
            wrong[name] = f"tops {[round(top) for top in first['tops']]}, above: {first['settings']}"
        ends[name] = round(first["end"])
    measured = "readout ends at " + ", ".join(f"{name} {end}" for name, end in ends.items()) + " px"
    assert not wrong, f"{in_words(wrong)}; {measured}"
    return measured


@check(3, "as wide as its cell at 400, 760, 1,400 px")
def width_of_the_cell(session: Session) -> str:
    wrong, shares = {}, []
    for name in NAMES:
        for width in WIDTHS:
            with session.width(name, width) as root:
                own, outside = root.bounding_box()["width"], root.evaluate(OUTSIDE)
            shares.append(own / width)
            if not 0.95 * width <= own <= width or outside:
                wrong[f"{name} at {width}"] = f"{own:.0f} px, sticks out: {outside[:3]}"
    assert not wrong, in_words(wrong)
    return f"{len(shares)} view-widths, each {min(shares):.0%} to {max(shares):.0%} of its cell"


@check(4, "pointing at every word keeps the height")
def pointing(session: Session) -> str:
    moved, pointed = {}, 0
    for name in NAMES:
        root = session.view(name)
        root.evaluate(WATCH)
        points = root.evaluate(POINTS)
        for point in points:
            session.page.mouse.move(*point)
        session.frame()
        heights = session.page.evaluate("() => [...window.heights]")
        if len(heights) > 1:
            moved[name] = f"{min(heights):.0f} to {max(heights):.0f} px"
        pointed += len(points)
        session.page.mouse.move(0, 0)
    assert not moved, in_words(moved)
    return f"0 px at {pointed} words of {len(NAMES)} views"


@check(5, "progress, cancel and the same result keep the height")
def computing(session: Session) -> str:
    moved = {}
    for name in NAMES:
        root = session.view(name)
        height = root.evaluate(HEIGHT)
        for status, progress in STATES:
            session.python(f"{name}.progress = {progress}\n{name}.status = {status!r}")
            root.and_(root.page.locator(f"[aria-busy={str(status != 'cancelled').lower()}]")).wait_for()
            session.page.wait_for_timeout(170)  # progress of shorter work is not shown
            if (now := root.evaluate(HEIGHT)) != height:
                moved.setdefault(name, f"{height:.0f} to {now:.0f} px while {status}")
        session.python(f"{name}.request()")
        session.settle(name)
        if (now := session.view(name).evaluate(HEIGHT)) != height:
            moved.setdefault(name, f"{height:.0f} to {now:.0f} px with the same result")
    assert not moved, in_words(moved)
    return f"0 px in {len(STATES) + 1} states of {len(NAMES)} views"


def overlaps(words: list[dict[str, Any]]) -> list[str]:
    """Pairs of words whose boxes overlap."""
    pairs = []
    for first, second in combinations(words, 2):
        (left, right, top, bottom), (left_2, right_2, top_2, bottom_2) = first["box"], second["box"]
        sideways, down = min(right, right_2) - max(left, left_2), min(bottom, bottom_2) - max(top, top_2)
        if min(sideways, down) > TOUCH:
            pairs.append(f"{first['name']} and {second['name']}")
    return pairs


@check(26, "clouds: no overlap at any width; two hues of their own")
def clouds(session: Session) -> str:
    wrong, counts, colours = {}, [], {}
    with session.having("clouds", k=MANY):
        for width in (400, 760, 1000, 1400):
            with session.width("clouds", width) as root:
                session.page.wait_for_timeout(100)
                for cloud in root.evaluate(CLOUD):
                    counts.append(len(cloud["words"]))
                    colours[cloud["label"]] = cloud["words"][0]["colour"]
                    if pairs := overlaps(cloud["words"]):
                        wrong[f"{cloud['label']} at {width}"] = pairs[:3]
    hues = {label: round(session.page.evaluate(HUE, colour)) for label, colour in colours.items()}
    assert len(hues) == 2, f"clouds: {hues}"
    taken = {
        f"{label} is {name}": hue for label, hue in hues.items() for name, (a, b) in TAKEN.items() if a <= hue <= b
    }
    apart = abs(hues[min(hues)] - hues[max(hues)])
    assert not wrong and not taken and 40 < apart < 320, in_words(wrong | taken | {"hues": hues})
    return f"0 overlaps among {min(counts)} to {max(counts)} words; hues {', '.join(f'{h}°' for h in hues.values())}"
