"""Audit in Chromium: words picked by mouse and by keys, their texts, the mistakes, and a saved page."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.evaluation.audit.result import Correction, Effect
from nbsal.render.headline import plain
from nbsal.samples import planted
from nbsal.widgets import Audit
from tests import publish
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
    for name, value in {"picked": None, "opened": None, "everywhere": False, "part": None}.items():
        setattr(audited, name, value)
    audited.wait()


def words(root):
    return root.get_by_role("listbox", name="Words").get_by_role("option")


def rows(root):
    return root.locator("tbody tr[data-number]")


def names_of(audited):
    return [word["word"] for word in audited._words["rows"]]


def answer(sheet, view, **traits):
    """Set traits in Python, and send the page what the view publishes."""
    for name, value in traits.items():
        setattr(view, name, value)
    bench.answer(sheet, view.wait())


def test_a_picked_word_lists_its_texts_and_what_hiding_it_does(show, sheet, audited):
    root = show(audited, live=True)
    expect(root.locator(".nbsal-headline").first).to_have_text(plain(audited._headline))
    names = names_of(audited)
    words(root).nth(1).click()
    bench.expect_traits(sheet, picked=[names[1]])
    answer(sheet, audited, picked=[names[1]])
    expect(words(root).nth(1)).to_have_attribute("aria-selected", "true")
    expect(words(root).nth(0)).to_have_attribute("aria-selected", "false")
    expect(root.get_by_text(plain(audited._table["sentence"]))).to_be_visible()
    expect(rows(root)).to_have_count(len(audited._table["rows"]))
    for k, row in enumerate(audited._table["rows"]):
        expect(rows(root).nth(k).locator(".nbsal-cell-text small")).to_have_text(row["remark"][1])
        assert rows(root).nth(k).locator(".nbsal-highlighted").first.inner_text().casefold() == names[1]
    words(root).nth(1).click()
    bench.expect_traits(sheet, picked=[])


def test_a_word_is_hidden_in_every_text_and_shown_again(show, sheet, audited):
    root = show(audited, live=True)
    name = names_of(audited)[0]
    answer(sheet, audited, picked=[name])
    hide = root.get_by_role("button", name="Hide it in every text")
    hide.click()
    bench.expect_traits(sheet, everywhere=True)
    answer(sheet, audited, everywhere=True)
    expect(hide).to_have_attribute("aria-pressed", "true")
    expect(root.locator(".nbsal-confusion h3")).to_have_text(audited._confusion["heading"])
    expect(rows(root).locator(".nbsal-cell-text small")).to_contain_text(["→"] * len(audited._table["rows"]))
    hide.click()
    bench.expect_traits(sheet, everywhere=False)


def test_words_are_walked_and_several_picked_by_keys(show, sheet, audited):
    root = show(audited, live=True)
    names = names_of(audited)
    table = root.get_by_role("listbox", name="Words")
    table.press("Home")
    table.press("Enter")
    bench.expect_traits(sheet, picked=names[:1])
    table.press("ArrowDown")
    expect(root.locator(".nbsal-tested .nbsal-readout b")).to_have_text(audited._words["rows"][1]["name"])
    table.press("Space")
    bench.expect_traits(sheet, picked=names[:2])
    answer(sheet, audited, picked=names[:2])
    said = plain(audited._table["sentence"])
    assert " together corrects " in said
    expect(root.get_by_text(said)).to_be_visible()
    table.press("Space")
    bench.expect_traits(sheet, picked=names[:1])
    table.press("Escape")
    bench.expect_traits(sheet, picked=[])


def test_words_are_sorted_by_a_heading(show, audited):
    root = show(audited, live=True)
    names = sorted(row["name"] for row in audited._words["rows"])
    assert len({*names}) > 1
    for order in (names, names[::-1]):
        root.get_by_role("button", name=re.compile("^Word")).click()
        expect(words(root).locator(".nbsal-audit-name b")).to_have_text(order)


def test_a_slice_lists_its_texts(show, sheet, audited):
    root = show(audited, live=True)
    names = [row["name"] for row in audited._slices["rows"]]
    slices = root.get_by_role("listbox", name="Slices").get_by_role("option")
    expect(slices).to_have_count(len(names))
    slices.nth(0).click()
    bench.expect_traits(sheet, part=names[0], picked=[])
    answer(sheet, audited, part=names[0])
    expect(root.locator(".nbsal-texts > h3")).to_contain_text(f"of the slice {names[0]}")


def test_bars_are_seen_in_forced_colours(chromium, audited):
    page = open_page(chromium, forced_colors="active")
    bench.show(page, audited, live=True)
    broken = page.locator(".nbsal-breaks i").evaluate_all(
        "bars => bars.filter(bar => bar.offsetWidth > 2).map(bar => getComputedStyle(bar).borderTopWidth)"
    )
    assert broken and {*broken} == {"1px"}
    rates = page.locator(".nbsal-slice-bars i").first.evaluate("bar => getComputedStyle(bar).backgroundImage")
    assert "gradient" in rates
    page.context.close()


def test_a_saved_page_has_no_control_that_needs_python(chromium, tmp_path, audited):
    file = tmp_path / "audit.html"
    file.write_text(audited.to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    expect(rows(root)).to_have_count(len(audited._table["rows"]))
    words(root).nth(0).hover()
    expect(root.locator(".nbsal-tested .nbsal-readout b")).to_have_text(audited._words["rows"][0]["name"])
    expect(root.locator("button:visible:not(.nbsal-audit-titles *), input:visible, select:visible")).to_have_count(0)
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
    expect(rows(root)).to_have_count(min(12, count))
    assert root.locator("script, img, style, svg").count() == 0
    assert sheet.evaluate("() => 'pwned' in window") is False
    assert "window.pwned" in rows(root).first.inner_text()
    sheet.set_viewport_size({"width": 1100, "height": 900})
    for exported in (view.to_html(), view.to_html(interactive=True)):
        assert "<img src=x" not in exported and "<script>window.pwned" not in exported


def test_the_summary_fits_into_a_cell_of_a_notebook(sheet):
    texts, labels = planted.audit_texts(seed=7, size=400)
    explain = nbsal.Explainer(nbsal.load("planted/punctuation"), "gradxact")
    audit = nbsal.audit(explain, texts, labels, least=5, progress=False)
    assert "misleads" in audit.words.kind.tolist()
    sheet.set_viewport_size({"width": publish.PAGE_WIDTH, "height": 600})
    sheet.set_content(audit._repr_html_())
    table = sheet.locator("table").first
    assert table.evaluate("node => node.parentNode.scrollWidth <= node.parentNode.clientWidth")
