"""The Audit view: what it sends its page equals the tables of the audit, with and without its model."""

import dataclasses
import re
import threading

import pytest

import nbsal
from nbsal.ablation.engine import Ablation
from nbsal.evaluation import cache
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.render.headline import plain
from nbsal.support.errors import UnknownName
from nbsal.widgets import Audit, Browse
from nbsal.widgets.content.audit_parts import LISTED, MISTAKES, Hidden
from tests.raising import refuses
from tests.widgets.test_view import from_page

ROWS = nbsal.samples.texts("reviews")[:60]
TEXTS = [row["text"] for row in ROWS]
LABELS = ["negative" if i % 7 == 0 else row["label"] for i, row in enumerate(ROWS)]  # some are wrong on purpose
GROUPS = {"half": [i < 30 for i in range(60)]}


@pytest.fixture(scope="module")
def explain(small):
    return nbsal.Explainer(small, "random")  # names words that are in many texts


@pytest.fixture(scope="module")
def audit(explain):
    return nbsal.audit(explain, TEXTS, LABELS, groups=GROUPS, least=2, progress=False)


@pytest.fixture
def view(audit):
    view = Audit(audit).wait()
    yield view
    view.close()


def unpacked(text):
    """The words of a text that was sent, each with its score and its number."""
    words = []
    for string, packed in text["parts"]:
        at = 0
        for k in range(0, len(packed), 4):
            gap, length, share, name = packed[k : k + 4]
            at += gap + length
            words.append((string[at - length : at], share, name))
    return words


def without_quotes(text):
    return re.sub("[“”]", "", text)


def test_words_and_texts_are_those_of_the_audit(view, audit):
    sent = view._audit
    labels = ["" if low <= 0 else name for name, low in zip(audit.words.speaks_for, audit.words.low, strict=True)]
    assert [(word["word"], word["label"], word["texts"]) for word in sent["words"]] == list(
        zip(audit.words.word, labels, audit.words.texts, strict=True)
    )
    assert any(labels) and not all(labels), "the class is named only where the pull is not 0"
    assert [word["effects"][0]["counts"] for word in sent["words"]] == audit.words[
        ["corrects", "breaks"]
    ].values.tolist()
    assert ["beyond chance" in word["kind"] for word in sent["words"]] == audit.words.index.isin(
        audit.beyond_chance[0].index
    ).tolist()
    assert without_quotes(plain(sent["sentence"])) == without_quotes(audit.sentence)
    assert view.picked == audit.words.word.head(1).tolist(), "no word is beyond chance, so the sentence names none"
    for word in sent["words"]:
        frame, wrong = audit.without(word["word"]), set(audit.wrong)
        expected = {row.number: audit.classes.index(row.without) for row in frame.itertuples()}
        assert dict(word["rows"]).items() <= expected.items()
        assert len(word["rows"]) == min(len(expected), LISTED)
        mistakes = [number in wrong for number, _ in word["rows"]]
        assert mistakes == sorted(mistakes, reverse=True)
        for number, _ in word["rows"]:
            words = unpacked(view._texts[number])
            assert [text for text, *_ in words] == [audit.word(number, place) for place in range(len(words))]
            largest = max(abs(score) for score in audit.scores[number])
            assert [share / 1000 for _, share, _ in words] == pytest.approx(
                [score / largest for score in audit.scores[number]], abs=1e-3
            )
            marked = {text.casefold() for text, _, name in words if name == sent["names"].index(word["word"])}
            assert marked == {word["word"]}


def test_a_decision_that_breaks_is_listed_among_many_mistakes(audit):
    common = max(audit.effects, key=lambda effect: len(effect.texts))
    *others, right = common.texts
    labels = [own if text == right else 1 - own for text, own in enumerate(audit.predictions)]
    without = (*(audit.predictions[text] for text in others), 1 - audit.predictions[right])
    effect = dataclasses.replace(common, without=without)
    rows = Hidden((common.word,), (effect,)).listed(dataclasses.replace(audit, labels=tuple(labels)))
    assert len(rows) == LISTED < len(common.texts) and rows[-1] == [right, without[-1]]


def test_mistakes_and_slices_are_those_of_the_audit(view, audit):
    mistakes, slices = view._audit["mistakes"], view._audit["slices"]
    assert [mistake["number"] for mistake in mistakes] == audit.wrong[:MISTAKES] and {*audit.wrong} <= {*view._texts}
    assert [mistake["words"] for mistake in mistakes] == audit.mistakes.words.tolist()
    assert all(("corrects it" in mistake["sentence"]) == bool(mistake["words"]) for mistake in mistakes)
    assert [each["errors"] for each in slices] == audit.slices.errors.tolist()
    assert [each["rate"] for each in slices] == pytest.approx(audit.slices.rate.tolist(), abs=1e-4)
    assert "half: True" in {each["name"] for each in slices}


def test_picked_words_are_hidden_together(view, audit):
    words = [word for word in audit.words.word.drop_duplicates() if word.isalpha()][:3]
    from_page(view, picked=words)
    together = audit.hide(words)
    choice = view.wait()._choice
    assert dict(choice["rows"]).items() <= dict(zip(together.texts, together.without, strict=True)).items()
    labels, own = audit.labels, audit.predictions
    pairs = list(zip(together.texts, together.without, strict=True))
    corrects = sum(after == labels[text] != own[text] for text, after in pairs)
    breaks = sum(after != labels[text] == own[text] for text, after in pairs)
    right = len(own) - len(audit.wrong)
    ends = (
        f" together corrects {corrects} of {len(audit.wrong)} mistakes and breaks {breaks} of {right} right decisions."
    )
    assert plain(choice["sentence"]) == f"Hiding “{words[0]}”, “{words[1]}” and “{words[2]}”{ends}"
    assert choice["texts"] == len(pairs) and {row[0] for row in choice["rows"]} <= {*view._texts, *choice["more"]}
    assert plain(choice["sentence"]) in without_markup(view.to_html())
    selections = []
    view.on_select(lambda rows: selections.append(rows.word.unique().tolist()))
    from_page(view, picked=words[:2])
    assert selections == [words[:2]]
    from_page(view, picked=[])
    assert view.wait().picked == [] == view._choice["rows"]


def without_markup(page):
    """The words of a page without its markup."""
    return re.sub("<[^>]*>", "", page)


def test_a_loaded_audit_says_that_it_cannot_hide_several_words(audit, tmp_path):
    audit.save(tmp_path / "audit.json")
    words = audit.words.word.drop_duplicates().tolist()[:2]
    view = Audit(FinishedAudit.load(tmp_path / "audit.json"), picked=words).wait()
    assert view._choice["sentence"] is None and not view._audit["hides"]
    assert view._audit["words"] == Audit(audit).wait()._audit["words"]
    assert len(view.result.hidden) == 2 and " together " not in view.to_html()


def test_without_labels_there_are_flips_alone(audit):
    plain_audit = dataclasses.replace(audit, labels=None, corrections=())
    view = Audit(plain_audit).wait()
    assert view._audit["slices"] == view._audit["mistakes"] == [] and not view._audit["judged"]
    assert [word["effects"][0]["counts"] for word in view._audit["words"]] == [[n] for n in plain_audit.words.flips]
    top = plain_audit.words.iloc[0]
    assert top.flips == plain_audit.words.flips.max() and view.picked == [top.word]
    rows = next(word["rows"] for word in view._audit["words"] if word["word"] == top.word)
    changed = [after != plain_audit.predictions[number] for number, after in rows]
    assert changed == sorted(changed, reverse=True) and sum(changed) == min(top.flips, LISTED) > 0
    html = view.to_html()
    assert "Mistakes" not in html and "Flips" in html and view.to_png()[:4] == b"\x89PNG"


def test_two_models_stand_side_by_side(audit):
    flipped = tuple(
        dataclasses.replace(e, without=tuple(1 - w for w in e.without), pulls=tuple(-p for p in e.pulls))
        for e in audit.effects
    )
    both = dataclasses.replace(audit, other=dataclasses.replace(audit, effects=flipped))
    view = Audit(both).wait()
    row = view._audit["words"][0]
    frame = both.words.iloc[0]
    assert [effect["counts"] for effect in row["effects"]] == [
        [frame.corrects, frame.breaks],
        [frame.corrects_other, frame.breaks_other],
    ]
    assert all(own == 1 - other for _, own, other in row["rows"])
    assert plain(view._audit["sentence"]).startswith("A: ") and " B: " in plain(view._audit["sentence"])
    assert f"{frame.corrects} | {frame.corrects_other}" in view.to_html()


def test_an_explainer_audits_in_the_background_and_resumes(explain, audit, monkeypatch):
    started, go = threading.Event(), threading.Event()
    original = Ablation.values

    def slow(self, *arguments):
        started.set()
        go.wait(120)
        return original(self, *arguments)

    explained, explain_rows = [], cache.explain_rows

    def count(members, rows, *arguments, **names):
        explained.append(len(rows))
        explain_rows(members, rows, *arguments, **names)

    monkeypatch.setattr(Ablation, "values", slow)
    monkeypatch.setattr(cache, "explain_rows", count)
    view = Audit(explain, TEXTS, LABELS, groups=GROUPS, least=2)
    assert started.wait(60) and 0 < view.progress < 1
    view.cancel()
    go.set()
    assert view.wait(60).status == "cancelled" and view.audit is None
    view.request()
    finished = view.wait(60).audit
    assert finished.words.equals(audit.words) and view._audit["words"] == Audit(audit).wait()._audit["words"]
    assert explained == [60], "what was explained before it was cancelled is not explained again"
    from_page(view, picked=[])
    assert view.wait().audit is finished, "another choice is no reason for another audit"


def test_an_opened_text_is_sent_wherever_it_is(audit):
    rare = min(audit.effects, key=lambda effect: len(effect.texts))
    view = Audit(dataclasses.replace(audit, effects=(rare,))).wait()
    number = next(number for number in range(60) if number not in view._texts)
    from_page(view, opened=number)
    view.wait()
    assert unpacked(view._choice["more"][number])[0][0] == audit.word(number, 0) and view._choice["behind"] == ""
    assert f"Text {number}" in view.to_html()
    from_page(view, opened=audit.wrong[0])
    assert view.wait()._choice["more"] == {} and "Hiding" in view._choice["behind"]


def test_impossible_arguments_are_refused(explain, audit):
    with refuses("texts"):
        Audit(explain)
    for source in (3, "text"):
        with refuses("source"):
            Audit(source)
    with refuses("source"):
        Audit(audit, TEXTS)
    with refuses("picked", UnknownName):
        Audit(audit, picked=["nowhere-in-these"]).wait()
    with refuses("opened"):
        Audit(audit, opened=60).wait()
    with refuses("labels"):
        Audit(explain, TEXTS, LABELS[:3]).wait()


def test_exports_hold_the_tables(view, audit):
    html = view.to_html()
    assert audit.words.word[0] in html and "Mistakes" in html and view.to_png()[:4] == b"\x89PNG"
    assert view.to_frame().equals(audit.words) and view.handle_save("csv")["content"].startswith("word,speaks_for")
    for dropped in ("<svg", "<style", "<script"):
        assert dropped not in view._repr_mimebundle_()[0]["text/html"]


def test_words_and_slices_beyond_chance_are_marked(audit):
    first, *others = audit.effects
    mistakes = set(first.texts)
    predictions = tuple(int(text in mistakes) for text in range(60))
    corrects = dataclasses.replace(first, speaks_for=1, without=(0,) * len(mistakes), random=(1,) * len(mistakes))
    idle = [
        dataclasses.replace(e, without=(decided := tuple(predictions[t] for t in e.texts)), random=decided)
        for e in others
    ]
    certain = dataclasses.replace(
        audit, effects=(corrects, *idle), predictions=predictions, labels=(0,) * 60, corrections=()
    )
    view = Audit(certain).wait()
    assert [bool(row["kind"]) for row in view._audit["words"]] == [True] + [False] * len(idle)
    slices = [row["beyond_chance"] for row in view._audit["slices"]]
    assert set(slices) == {True, False}
    assert view.to_html().count("\N{BLACK DIAMOND}") == 1 + sum(slices)
    assert view.picked == [first.word] and ("for", f"“{first.word}”") in [*map(tuple, view._audit["sentence"])]
    assert f"“{first.word}”" in without_markup(view.to_html()).split("Words")[0], "marked without colours too"
    assert certain.sentence.startswith("Hiding") and not audit.sentence.startswith("Hiding")


def test_punctuation_has_a_name_in_the_table(audit):
    view = Audit(audit).wait()
    names = {word["word"]: word["name"] for word in view._audit["words"]}
    assert names["."] == "“.” full stop" in audit.to_html() and names["a"] == "a"


def test_the_mistakes_are_browsed(explain, audit):
    view = Browse(explain, audit.mistakes.text, labels=audit.mistakes.label).wait()
    assert view.to_frame()["label"].tolist() == audit.mistakes.label.tolist() and view.opened == 0
    assert view._table["counts"] == [len(audit.wrong)] * 2, "each is a mistake"
