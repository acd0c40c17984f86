"""Answers in Chromium: words of the reply light their sources and the other way round, rivals, strikes."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.explain.sentences.reply_sentences import likelihood
from nbsal.render.headline import percent
from nbsal.widgets import Answers
from tests.browser import bench
from tests.browser.bench import tokens, trait
from tests.browser.conftest import open_page
from tests.widgets.test_answers import ADDRESS, place

REPLY = "The reply, word by word"


def word(root, text, listbox=REPLY):
    return tokens(root, listbox).get_by_text(text, exact=True)


def card(root, number):
    return root.locator(f'.nbsal-source[data-source="{number}"]')


def shares(root):
    return [card(root, number).locator(".nbsal-score").inner_text() for number in range(1, 6)]


def strengths(root, listbox):
    marks = tokens(root, listbox).evaluate_all(
        "nodes => nodes.map(n => [n.textContent, +n.style.getPropertyValue('--s')])"
    )
    return dict(marks)


def headline(root):
    return root.locator(".nbsal-headline")


@pytest.fixture
def answers(views):
    """The view as it was first, whatever a test has chosen."""
    view = views["answers"]
    view.selection, view.source_selection, view.struck = [], [], []
    view.rival = view.at = None
    view.written, view.hops, view.certainty, view.method = 0, 0, False, bench.SIGNED
    return view.wait()


def test_choosing_words_of_the_reply_lights_their_source(show, sheet, answers):
    root = show("answers", live=True)
    expect(headline(root)).to_have_text(answers.picture().sentence)
    before = shares(root)
    word(root, "Oslo").click()
    bench.expect_traits(sheet, selection=place(answers, "Oslo"))
    answers.selection = place(answers, "Oslo")
    expect(headline(root)).to_have_text(answers.picture().sentence)
    expect(headline(root)).to_have_text(re.compile("^“Oslo” depends on document 3, Address"))
    assert strengths(root, "Document 3, word by word")["Oslo"] == 1 > strengths(root, "You, word by word")["city"]
    expected = answers.picture().facts.shares
    assert shares(root) == [
        percent(expected[number] if abs(expected[number]) >= 0.005 else 0, 0) for number in range(1, 6)
    ]
    assert shares(root) != before
    expect(root.get_by_role("row", selected=True)).to_contain_text("in Oslo")
    word(root, "Oslo").click()
    expect(headline(root)).to_have_text(re.compile("^The reply depends"))


def test_choosing_words_of_a_source_lights_the_reply(show, sheet, answers):
    root = show("answers", live=True)
    word(root, "Oslo", "Document 3, word by word").click()
    position = trait(sheet, "source_selection")
    rows = answers.result.scores[:, position].sum(1)
    lit = strengths(root, REPLY)
    assert max(lit, key=lit.get) == "Oslo" and lit["Oslo"] == 1
    (lives,) = place(answers, "lives")
    assert lit["lives"] == pytest.approx(abs(rows[lives]) / np.abs(rows[:5]).max(), abs=2e-3) or lit["lives"] == 0
    expect(headline(root)).to_have_text(re.compile("^Without document 3, “Oslo” falls most: .*% → "))
    expect(root.locator(".nbsal-legend")).to_contain_text("against it")
    assert set(strengths(root, "Document 3, word by word").values()) == {0}, "only one side is shaded at a time"
    word(root, "Mara").click()
    bench.expect_traits(sheet, source_selection=[])
    assert set(strengths(root, REPLY).values()) == {0}
    expect(root.locator(".nbsal-legend")).not_to_contain_text("against it")


def test_a_rival_turns_the_signs_and_blue_speaks_for_it(show, sheet, answers, views):
    view = Answers(answers.subject, bench.ASKED, documents=bench.NOTES, method="occlusion", unit="word").wait()
    (at,) = place(view, "Oslo")
    root = show(view, live=True)
    word(root, "Oslo").click()
    why = root.get_by_role("group", name="Instead of Oslo")
    expect(why.get_by_role("button", pressed=True)).to_have_text("nothing")
    why.get_by_role("button", name="other…").click()
    why.get_by_label("Another token").fill("Rouen")
    why.get_by_label("Another token").press("Enter")
    bench.expect_traits(sheet, rival="Rouen", at=at)
    view.selection, view.rival, view.at = [at], "Rouen", at
    view.wait()
    bench.answer(sheet, view)
    expect(headline(root)).to_have_text(view.picture().sentence)
    expect(headline(root)).to_have_text(re.compile("^“Oslo” rather than “Rouen” depends on document 3"))
    rouen = word(root, "Rouen", "Document 4, word by word")
    expect(rouen).to_have_class(re.compile("nbsal-against"))
    rouen.hover()
    expect(root.locator(".nbsal-readout")).to_contain_text("scores for “Rouen”")
    expect(root.locator(".nbsal-legend")).to_contain_text("for “Rouen”")
    view.close()


def test_striking_a_source_out_shows_the_fall(show, sheet, answers):
    root = show("answers", live=True)
    button = card(root, ADDRESS).get_by_role("button")
    expect(button).to_have_text("Strike out")
    button.click()
    bench.expect_traits(sheet, struck=[ADDRESS])
    expect(root.locator(".nbsal-hidden")).to_have_count(
        sum(unit.source == ADDRESS for unit in answers.result.reading.units("word"))
    )
    answers.struck = [ADDRESS]
    bench.answer(sheet, answers.wait())
    content = answers.result.reading.content
    after = answers.without_struck[content].sum()
    assert after < -2
    expect(card(root, ADDRESS).locator(".nbsal-drop")).to_have_text(re.compile(f"→ {likelihood(np.exp(after))}$"))
    expect(card(root, ADDRESS).locator(".nbsal-source-head")).to_have_attribute("title", re.compile("0.00 → \u2212"))
    expect(root.locator(".nbsal-strikes")).to_contain_text(f"→ {likelihood(np.exp(after))}")
    expect(button).to_have_text("Put back")
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, struck=[])
    expect(root.locator(".nbsal-hidden")).to_have_count(0)


def test_keys_alone_suffice(show, sheet, answers):
    root = show("answers", live=True)
    reply = root.get_by_role("listbox", name=REPLY, exact=True)
    reply.focus()
    reply.press("End")
    reply.press("ArrowLeft")
    expect(root.locator(".nbsal-readout b")).to_have_text("Oslo")
    reply.press("Enter")
    bench.expect_traits(sheet, selection=place(answers, "Oslo"))
    reply.press("Shift+ArrowLeft")
    bench.expect_traits(sheet, selection=[2, 3])
    reply.press("Escape")
    bench.expect_traits(sheet, selection=[])
    document = root.get_by_role("listbox", name="Document 3, word by word")
    document.press("Home")
    document.press("Enter")
    bench.wait_for(sheet, lambda: len(trait(sheet, "source_selection")), 1)
    document.press("Delete")
    bench.expect_traits(sheet, struck=[ADDRESS])
    document.press("Control+z")
    bench.expect_traits(sheet, struck=[])
    unfold = root.locator("[data-panel=curve] > summary")
    unfold.press("Enter")
    bench.expect_traits(sheet, panels=[])


def test_a_saved_answer_is_read_without_python(chromium, tmp_path, answers):
    answers.result.save(tmp_path / "answer.json")
    loaded = Answers(nbsal.Answer.load(tmp_path / "answer.json")).wait()
    (tmp_path / "page.html").write_text(loaded.to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto((tmp_path / "page.html").as_uri())
    root = page.locator("section.nbsal")
    expect(headline(root)).to_have_text(re.compile("^“Oslo” depends on document 3"))
    word(root, "Mara").click()
    expect(headline(root)).to_have_text(re.compile("^“Mara” depends on your question"))
    word(root, "Oslo").click(modifiers=["Shift"])  # no sentence is prepared for these four words: that around them
    expect(headline(root)).to_have_text(re.compile("^The reply depends on "))
    expect(root.get_by_role("button", name="Write again")).to_be_hidden()
    assert root.get_by_role("button", name=re.compile("^Strike out")).count() == 0
    for rival in root.locator(".nbsal-rivals button:not([aria-pressed=true])").all():
        expect(rival).to_be_disabled()
    assert page.problems == []
    page.context.close()


@pytest.fixture(scope="module")
def hostile(views):
    """A view of hostile messages, titles, documents and a reply."""
    texts = bench.HOSTILE[:24]
    documents = [{"title": text, "text": f"{text} {other}"} for text, other in zip(texts, reversed(texts), strict=True)]
    asked = [{"role": "system", "content": texts[1]}, {"role": "user", "content": " ".join(texts)}]
    notes = views["answers"].subject
    view = Answers(notes, asked, documents=documents[:3], reply=" ".join(texts[:6]), method="gradxact").wait()
    yield view
    view.close()


def test_hostile_texts_appear_as_they_are(chromium, hostile, tmp_path):
    for interactive in (False, True):
        file = tmp_path / "page.html"
        file.write_text(hostile.to_html(interactive=interactive), encoding="utf-8")
        page = open_page(chromium, offline=True, viewport={"width": 760, "height": 800})
        page.goto(file.as_uri())
        body = page.locator("body")
        assert bench.HOSTILE[0] in body.evaluate("node => node.textContent")
        assert body.locator("img, svg[onload], script[src]").count() == 0
        assert body.locator("b").get_by_text("bold", exact=True).count() == 0
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        if interactive:
            tokens(body, REPLY).nth(3).click()
            page.locator(".nbsal-source .nbsal-mark").nth(5).hover()
        assert page.evaluate("() => 'pwned' in window") is False and page.problems == []
        page.context.close()
    assert hostile.to_png().startswith(b"\x89PNG")


def test_the_page_follows_scores_through_the_reply(show, sheet, answers):
    root = show("answers", live=True)
    strip = root.locator(".nbsal-carriers")
    expect(strip).to_be_hidden()
    root.get_by_role("button", name="Through the reply").click()
    bench.expect_traits(sheet, hops="all")
    answers.hops, answers.selection = "all", place(answers, "Oslo")
    (first, *_), *_ = answers.wait()._chosen["through"]["hops"]
    show("answers", live=True)
    button = strip.get_by_role("button").first
    expect(button).to_have_text(f"{first[1]}{first[2]}")
    button.click()
    bench.expect_traits(sheet, selection=first[0])


def test_words_are_as_faint_as_the_model_is_unsure(show, answers):
    answers.certainty = True
    answers.wait()
    root = show("answers", live=True)
    chances = dict(answers.result.tokens()[["token", "probability"]].itertuples(index=False))
    for name in ("Mara", "Oslo"):
        opacity = float(word(root, name).evaluate("node => node.style.opacity"))
        assert opacity == pytest.approx(0.3 + 0.7 * chances[f" {name}"], abs=1e-3)
    word(root, "Oslo").hover()
    expect(root.locator(".nbsal-readout")).to_contain_text(answers._facts["next"][place(answers, "Oslo")[0]])


def test_a_reply_that_was_written_again_takes_the_place_of_the_old_one(show, sheet, answers):
    answers.struck = [ADDRESS]
    answers.wait().write_again()
    answers.wait()
    root = show("answers", live=True)
    expect(root.locator(".nbsal-reply .nbsal-page")).to_have_text(answers.result.text.strip())
    expect(headline(root)).to_have_text(answers.picture().sentence)
    expect(root.locator(".nbsal-reply-head").first).to_contain_text("without document 3")
    expect(card(root, ADDRESS)).to_contain_text("Struck out")
    expect(card(root, ADDRESS).get_by_role("button")).to_have_count(0)
    expect(card(root, ADDRESS + 1)).to_contain_text("Document 4")
    first = answers.result.reading.reply_units("word")[0]
    word(root, first.text).click()
    bench.expect_traits(sheet, selection=list(first.tokens))
    old = root.locator(".nbsal-rewritten")
    expect(old).to_contain_text("Mara lives in Oslo.")
    old.get_by_role("button", name="Show").click()
    bench.expect_traits(sheet, written=0, struck=[])
    answers.written = 0
    bench.answer(sheet, answers.wait())
    expect(root.locator(".nbsal-reply .nbsal-page")).to_have_text("Mara lives in Oslo.")
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, written=1)


def test_undo_brings_the_old_reply_and_what_was_struck_back(show, sheet, answers):
    answers.struck = [ADDRESS]
    root = show(answers.wait(), live=True)
    root.get_by_role("button", name="Write again").click()
    answers.write_again()
    bench.answer(sheet, answers.wait())
    bench.change(sheet, written=answers.written, struck=answers.struck)
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, written=0, struck=[ADDRESS])


@pytest.mark.parametrize("width", [400, 760])
def test_no_setting_stands_above_the_text(chromium, answers, width):
    answers.selection = place(answers, "Oslo")
    page = open_page(chromium, viewport={"width": width, "height": 900})
    bench.show(page, answers.wait(), live=True)
    root = page.locator("section.nbsal")
    text = [root.locator(".nbsal-reply"), root.locator(".nbsal-read"), *root.locator(".nbsal-source").all()]
    settings = [root.locator(".nbsal-tools").first, root.locator(".nbsal-rivals")]
    lowest = max(part.bounding_box()["y"] + part.bounding_box()["height"] for part in text)
    assert lowest <= min(part.bounding_box()["y"] for part in settings)
    readout = root.locator(".nbsal-readout")
    height = root.bounding_box()["height"]
    for each in ("Mara", "Oslo"):
        word(root, each).hover()
        assert readout.evaluate(
            "node => node.scrollWidth <= node.clientWidth && node.scrollHeight <= node.clientHeight + 1"
        )
        assert root.bounding_box()["height"] == height
    page.context.close()
