"""Audit in Chromium: words picked by mouse and by keys, their texts, the mistakes, and a saved page."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.evaluation.audit.result import Correction, Effect
from nbsal.render.headline import plain
from nbsal.widgets import Audit
from tests.browser import bench
from tests.browser.conftest import open_page

ROWS = nbsal.samples.texts("reviews")[:40]
TEXTS = [row["text"] for row in ROWS]
LABELS = ["negative" if i % 7 == 0 else row["label"] for i, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def audited(small):
    explain = nbsal.Explainer(small, "gradxact")
    return Audit(nbsal.audit(explain, TEXTS, LABELS, least=2, progress=False)).wait()


@pytest.fixture(autouse=True)
def reset(audited):
    yield
    audited.picked, audited.opened = None, None
    audited.wait()


def words(root):
    return root.get_by_role("listbox", name="Words").get_by_role("option")


def quotes(root):
    return root.locator(".nbsal-quotes li")


def places(audited):
    """Two words of the audit that are different, by their rows."""
    names = [word["word"] for word in audited._audit["words"]]
    return 0, next(k for k, name in enumerate(names) if name != names[0]), names


def answer(sheet, view, **traits):
    """Set traits in Python, and send the page what the view publishes."""
    for name, value in traits.items():
        setattr(view, name, value)
    bench.answer(sheet, view.wait())


def test_a_picked_word_shows_its_texts_mistakes_first(show, sheet, audited):
    root = show(audited, live=True)
    expect(root.locator(".nbsal-headline")).to_have_text(plain(audited._audit["sentence"]))
    first, second, names = places(audited)
    words(root).nth(second).click()
    bench.expect_traits(sheet, picked=[names[second]])
    audit, row = audited.audit, audited._audit["words"][second]
    expect(words(root).nth(second)).to_have_attribute("aria-selected", "true")
    expect(words(root).nth(first)).to_have_attribute("aria-selected", "false")
    expect(root.get_by_text(plain(row["sentence"])).last).to_be_visible()
    expect(quotes(root)).to_have_count(len(row["rows"]))
    for k, (number, decided) in enumerate(row["rows"]):
        before, after = audit.classes[audit.predictions[number]], audit.classes[decided]
        wrong = f"✗ labelled {audit.classes[audit.labels[number]]}"
        expect(quotes(root).nth(k).get_by_text(wrong)).to_have_count(int(number in audit.wrong))
        expected = f"→ {after} without it" if after != before else "with or without it"
        expect(quotes(root).nth(k)).to_contain_text(expected)
        marked = quotes(root).nth(k).locator(".nbsal-highlighted").first
        assert marked.inner_text().casefold() == names[second]
    words(root).nth(second).click()
    bench.expect_traits(sheet, picked=[])
    expect(quotes(root)).to_have_count(0)


def test_words_are_walked_and_several_picked_by_keys(show, sheet, audited):
    root = show(audited, live=True)
    first, second, names = places(audited)
    table = root.get_by_role("listbox", name="Words")
    table.press("Escape")
    bench.expect_traits(sheet, picked=[])
    table.press("Home")
    table.press("Enter")
    bench.expect_traits(sheet, picked=[names[first]])
    for _ in range(second):
        table.press("ArrowDown")
    expect(root.locator(".nbsal-readout b")).to_have_text(names[second])
    table.press("Space")
    both = [names[first], names[second]]
    bench.expect_traits(sheet, picked=both)
    expect(root.locator(".nbsal-outdated")).to_have_count(1)
    answer(sheet, audited, picked=both)
    expect(root.locator(".nbsal-outdated")).to_have_count(0)
    said = plain(audited._choice["sentence"])
    assert " together corrects " in said
    expect(root.get_by_text(said)).to_be_visible()
    table.press("Space")
    bench.expect_traits(sheet, picked=both[:1])
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, picked=both)


def test_a_mistake_opens_its_text_and_the_next_one_follows_the_keys(show, sheet, audited):
    root = show(audited, live=True)
    mistakes = root.get_by_role("listbox", name="Mistakes")
    first, second = audited._audit["mistakes"][:2]
    mistakes.press("ArrowDown")
    bench.expect_traits(sheet, opened=None)  # no text is open yet
    mistakes.press("Home")
    mistakes.press("Enter")
    bench.expect_traits(sheet, opened=first["number"])
    mistakes.press("ArrowDown")
    bench.expect_traits(sheet, opened=second["number"])
    expect(root.get_by_role("heading", name=f"Text {second['number']}")).to_be_visible()
    expect(root.get_by_text(second["sentence"], exact=True)).to_be_visible()
    text = root.get_by_role("region", name="Opened text")
    assert text.inner_text() == audited.audit.texts[second["number"]]
    marked = {word.casefold() for word in text.locator(".nbsal-highlighted").all_inner_texts()}
    assert marked == {word.casefold() for word in second["words"]}
    mistakes.press("Escape")
    bench.expect_traits(sheet, opened=None)


def test_a_saved_page_shows_the_texts_of_any_word(chromium, tmp_path, audited):
    file = tmp_path / "audit.html"
    file.write_text(audited.to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    first, second, names = places(audited)
    words(root).nth(second).click()
    expect(quotes(root)).to_have_count(len(audited._audit["words"][second]["rows"]))
    words(root).nth(first).click(modifiers=["ControlOrMeta"])
    expect(root.get_by_text("Hiding several words together needs Python")).to_be_visible()
    rows = [len(audited._audit["words"][k]["rows"]) for k in (first, second)]
    expect(quotes(root)).to_have_count(sum(rows))
    expect(quotes(root).first).to_contain_text(f"without {names[second]}")
    expect(root.locator("button:visible")).to_have_count(0)
    assert page.problems == []
    page.context.close()


def test_hostile_words_and_texts_appear_as_plain_text(show, sheet):
    texts = [" ".join(bench.HOSTILE[k : k + 30]) for k in range(0, 60, 5)]
    spans = tuple(tuple((0, *word.span()) for word in re.finditer(r"\S+", text)) for text in texts)
    names = list(dict.fromkeys(word.casefold() for text in texts for word in text.split()))[:60]
    count = len(texts)
    effects = tuple(
        Effect(name, 0, count, tuple(range(count)), (1.0,) * count, (1.0,) * count, (1,) * count, (0,) * count)
        for name in names
    )
    audit = FinishedAudit(
        classes=(bench.HOSTILE[0], bench.HOSTILE[1]),
        texts=tuple(texts),
        labels=(1,) * count,
        predictions=(0,) * count,
        confidences=(0.9,) * count,
        spans=spans,
        scores=tuple((1.0,) * len(each) for each in spans),
        effects=effects,
        considered=len(effects),
        corrections=tuple(Correction(i, (names[i],), (0,), True) for i in range(count)),
        groups={bench.HOSTILE[4]: tuple(bench.HOSTILE[5] for _ in texts)},
        provenance={"model": bench.HOSTILE[2], "method": "gradxact", "passes": 1, "dropped": 0},
    )
    view = Audit(audit, opened=1, picked=names[:1]).wait()
    sheet.set_viewport_size({"width": 400, "height": 900})
    root = show(view, live=True)
    assert sheet.evaluate("() => document.documentElement.scrollWidth") == 400
    words(root).nth(1).click()
    expect(quotes(root)).to_have_count(count)
    assert root.locator("script, img, style, svg").count() == 0
    assert sheet.evaluate("() => 'pwned' in window") is False
    assert "window.pwned" in quotes(root).first.inner_text()
    sheet.set_viewport_size({"width": 1100, "height": 900})
    for exported in (view.to_html(), view.to_html(interactive=True)):
        assert "<img src=x" not in exported and "<script>window.pwned" not in exported
