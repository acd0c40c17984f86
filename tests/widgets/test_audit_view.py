"""The Audit view: what it sends its page equals the tables of the audit, with and without its model."""

import dataclasses
import re
import threading

import pytest
from pandas.testing import assert_frame_equal

import nbsal
from nbsal.ablation.engine import Ablation
from nbsal.evaluation import cache
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.render.headline import plain
from nbsal.render.names import quoted_word, word_name
from nbsal.render.sheet import Balance, Bar, CellTable
from nbsal.support.errors import UnknownName
from nbsal.widgets import Audit, Browse
from nbsal.widgets.content import audit_blocks
from tests.raising import refuses
from tests.widgets.test_copies import cells
from tests.widgets.test_view import from_page

ROWS = nbsal.samples.texts("reviews")[:60]
TEXTS = [row["text"] for row in ROWS]
LABELS = ["negative" if i % 7 == 0 else row["label"] for i, row in enumerate(ROWS)]  # some are wrong on purpose
GOLD = [label if isinstance(label, str) else ["negative", "positive"][label] for label in LABELS]
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


def without_quotes(text):
    return re.sub("[“”]", "", text)


def remarks(view):
    """What is said of the texts in the table, by number."""
    return {row["number"]: row["remark"] for row in view.wait()._table["rows"]}


def test_words_are_those_of_the_audit(view, audit):
    sent, columns = view._words, view._words["columns"]
    changes = audit.words[audit.words.flips > 0]
    assert [word["word"] for word in sent["rows"]] == changes.word.tolist()
    idle = audit.words[audit.words.flips == 0]
    assert len(idle) and all(word_name(word) in sent["rest"] for word in idle.word[:12]), (
        "those without effect are in a sentence"
    )
    labels = ["" if low <= 0 else name for name, low in zip(changes.speaks_for, changes.low, strict=True)]
    assert [word["cells"][0] for word in sent["rows"]] == labels and any(labels) and not all(labels)
    for name in ("corrects", "breaks", "texts"):
        place = columns.index(name)
        assert [word["cells"][place - 1] for word in sent["rows"]] == [str(n) for n in changes[name]]
        assert [word["values"][place] for word in sent["rows"]] == changes[name].tolist(), "what is sorted by"
    assert not any(word["kind"] for word in sent["rows"]), "no word is beyond chance"
    assert without_quotes(plain(view._headline)).startswith(without_quotes(audit.sentence))
    assert view.picked == [], "so none is picked"


def test_the_texts_of_a_picked_word_are_listed_mistakes_first(view, audit):
    word = audit.words.word[0]
    from_page(view, picked=[word])
    view.wait()
    frame, wrong = audit.without(word), set(audit.wrong)
    listed = view.result.table.numbers.tolist()
    assert sorted(listed) == sorted(frame.number) and view.selected().equals(frame)
    mistakes = [number in wrong for number in listed]
    assert mistakes == sorted(mistakes, reverse=True) and any(mistakes) and not all(mistakes)
    before, after = (
        dict(zip(frame.number, frame.prediction, strict=True)),
        dict(zip(frame.number, frame.without, strict=True)),
    )
    for number, (kind, words) in remarks(view).items():
        assert (f"→ {after[number]} " in words) == (after[number] != before[number])
        turned = before[number] != after[number]
        right = {"corrected": after[number], "broken": before[number], "": None}[kind]
        assert (kind != "") == (turned and GOLD[number] in (before[number], after[number]))
        assert right in (None, GOLD[number])
    marked = {p[0].casefold() for row in view._table["rows"] for p in row["pieces"] if p[2]}
    assert marked == {word}


def test_hiding_a_word_everywhere_counts_what_is_left(view, audit):
    word = audit.words.word[0]
    from_page(view, picked=[word], everywhere=True)
    view.wait()
    frame = audit.without(word)
    changed = frame[frame.prediction != frame.without]
    assert sorted(view.result.table.numbers) == sorted(changed.number) != []
    after = dict(zip(changed.number, changed.without, strict=True))
    decided = [after.get(i, audit.classes[own]) for i, own in enumerate(audit.predictions)]
    wrong = sum(own != label for own, label in zip(decided, GOLD, strict=True))
    assert view._confusion["heading"].startswith(f"{len(audit.wrong)} → {wrong} mistake")
    own = [audit.classes[own] for own in audit.predictions]
    for cell in view._confusion["cells"]:
        pair = tuple(cell["pair"])
        counts = [list(zip(GOLD, each, strict=True)).count(pair) for each in (own, decided)]
        assert cell["text"] == " → ".join(map(str, dict.fromkeys(counts)))
    from_page(view, picked=[])
    assert "→" not in "".join(cell["text"] for cell in view.wait()._confusion["cells"])


def test_mistakes_say_what_is_behind_them(view, audit):
    from_page(view, wrong=True)
    view.wait()
    assert view.result.table.numbers.tolist() == audit.wrong
    corrected = dict(zip(audit.mistakes.number, audit.mistakes.corrected, strict=True))
    assert {n: "does not correct" not in words for n, (_, words) in remarks(view).items()} == {
        n: corrected[n] for n in remarks(view)
    }
    one, few = sum(audit.mistakes.words.map(len) == 1), sum(audit.mistakes.corrected)
    assert f"hiding one word corrects {one}, hiding a few corrects {few}." in plain(view._headline)


def test_slices_are_those_of_the_audit_and_list_their_texts(view, audit):
    sent = {each["name"]: each for each in view._slices["rows"]}
    for row in audit.slices.itertuples():
        name = f"{row.slice}: {row.value}"
        if name not in sent:
            assert row.rate < row.rest and row.slice in ("label", "prediction", "half"), "the complement is listed"
            continue
        rate, low, high, rest = sent[name]["bar"]
        assert [low / rate, high / rate, rest / rate] == pytest.approx(
            [row.low / row.rate, row.high / row.rate, row.rest / row.rate], abs=1e-3
        )
    assert len(sent) < len(audit.slices)
    name = "label: positive" if "label: positive" in sent else "label: negative"
    from_page(view, part=name)
    numbers = view.wait().result.table.numbers.tolist()
    assert sorted(numbers) == [i for i, label in enumerate(GOLD) if label == name.split(": ")[1]]
    assert numbers != sorted(numbers), "mistakes come first"
    with refuses("part", UnknownName):
        Audit(audit, part="nowhere").wait()


def test_picked_words_are_hidden_together(view, audit):
    words = [word for word in audit.words.word.drop_duplicates() if word.isalpha()][:3]
    from_page(view, picked=words)
    view.wait()
    together = audit.hide(words)
    assert sorted(view.result.table.numbers) == sorted(together.texts)
    labels, own = audit.labels, audit.predictions
    pairs = list(zip(together.texts, together.without, strict=True))
    corrects = sum(after == labels[text] != own[text] for text, after in pairs)
    breaks = sum(after != labels[text] == own[text] for text, after in pairs)
    sentence = plain(view._table["sentence"])
    assert all(f"“{word}”" in sentence for word in words) and sentence in without_markup(view.to_html())
    assert [int(n) for n in re.findall(r"\d+", sentence)] == [corrects, len(audit.wrong), breaks, 60 - len(audit.wrong)]
    selections = []
    view.on_select(lambda rows: selections.append(rows.word.unique().tolist()))
    from_page(view, picked=words[:2])
    assert selections == [words[:2]]
    from_page(view, picked=[])
    assert view.wait().picked == [] == view._table["sentence"]


def without_markup(page):
    """The words of a page without its markup."""
    return re.sub("<[^>]*>", "", page)


def test_a_loaded_audit_shows_each_word_by_itself(audit, tmp_path):
    audit.save(tmp_path / "audit.json")
    words = audit.words.word.drop_duplicates().tolist()[:2]
    view = Audit(FinishedAudit.load(tmp_path / "audit.json"), picked=words, opened=3, everywhere=True).wait()
    assert len(view.result.hidden) == 2 and not view.result.everywhere and view._words["hide"] == ""
    assert view._words["rows"] == Audit(audit).wait()._words["rows"]
    assert (
        all(f"{quoted_word(word)}: " in str(view._table["rows"]) for word in words)
        and " together " not in view.to_html()
    )
    assert "no model" in str(view._table["opened"]) and view._tokens["parts"] == [TEXTS[3]]
    opened = view.result.table.opened
    assert list(opened.scores) == pytest.approx(audit.scores[3], abs=1e-6)
    assert [word.text for word in opened.words] == [audit.word(3, k) for k in range(len(opened.words))]


def test_without_labels_there_are_flips_alone(audit):
    plain_audit = dataclasses.replace(audit, labels=None, corrections=())
    view = Audit(plain_audit).wait()
    assert view._slices == view._confusion == {} and "changes" in view._words["columns"]
    flips = [row["cells"][view._words["columns"].index("changes") - 1] for row in view._words["rows"]]
    assert flips == [str(n) for n in plain_audit.words.flips if n]
    top = plain_audit.words.iloc[0]
    view.picked = [top.word]
    numbers = view.wait().result.table.numbers
    changed = [remark[1].startswith("→") for remark in remarks(view).values()]
    assert len(numbers) == top.texts and changed == sorted(changed, reverse=True) and sum(changed) == min(top.flips, 12)
    html = view.to_html()
    assert "changes" in html and view.to_png()[:4] == b"\x89PNG"
    lengths = [row["cells"][2]["right"][0] for row in view._words["rows"]]
    assert [bar.share for bar in cells(view, Bar)] == lengths[: audit_blocks.ROWS] and lengths


def test_two_models_stand_side_by_side(audit):
    flipped = tuple(
        dataclasses.replace(e, without=tuple(1 - w for w in e.without), pulls=tuple(-p for p in e.pulls))
        for e in audit.effects
    )
    both = dataclasses.replace(audit, other=dataclasses.replace(audit, effects=flipped))
    view = Audit(both).wait()
    row, columns = view._words["rows"][0], view._words["columns"]
    frame = both.words.iloc[0]
    for name in ("corrects", "breaks"):
        assert row["cells"][columns.index(name) - 1] == f"{frame[name]} | {frame[f'{name}_other']}"
    view.picked = [row["word"]]
    assert all(words.startswith("A: ") and " · B: " in words for _, words in remarks(view).values())
    assert plain(view._headline).startswith("A: ") and " B: " in plain(view._headline)
    assert f"{frame.corrects} | {frame.corrects_other}" in view.to_html()
    bars = [(bar.broken, bar.corrected) for bar in cells(view, Balance)]
    sent = [zip(row["cells"][3]["left"], row["cells"][4]["right"], strict=True) for row in view._words["rows"]]
    assert bars == [pair for pairs in sent[: audit_blocks.ROWS] for pair in pairs]
    view.picked = [view._words["rows"][1]["word"]]
    chosen = {block.chosen for block in view.wait().sheet().blocks if isinstance(block, CellTable)}
    assert chosen == {None, 2}, "the word is below two rows of A and B"


def test_an_explainer_audits_in_the_background_and_resumes(explain, audit, monkeypatch):
    started, go = threading.Event(), threading.Event()
    original = Ablation.values

    def slow(self, *arguments):
        started.set()
        go.wait(120)
        return original(self, *arguments)

    explained, explain_map, rows = [], nbsal.Explainer.map, cache.explain_rows

    def count(self, texts, **names):
        explained.append(len(texts))
        return explain_map(self, texts, **names)

    monkeypatch.setattr(Ablation, "values", slow)
    monkeypatch.setattr(nbsal.Explainer, "map", count)
    monkeypatch.setattr(cache, "explain_rows", lambda *args, **names: explained.append("again") or rows(*args, **names))
    view = Audit(explain, TEXTS, LABELS, groups=GROUPS, least=2)
    assert started.wait(60) and 0 < view.progress < 1
    assert len(view._table["rows"]) == 12 and view._confusion and view.audit is None, "the texts are there"
    view.cancel()
    go.set()
    assert view.wait(60).status == "cancelled" and view.audit is None
    view.request()
    finished = view.wait(60).audit
    assert_frame_equal(finished.words, audit.words, rtol=1e-4)  # batches are others: equal but for rounding
    assert [row["word"] for row in view._words["rows"]] == [row["word"] for row in Audit(audit).wait()._words["rows"]]
    assert explained == [60], "what was explained before it was cancelled is not explained again"
    from_page(view, picked=[])
    assert view.wait().audit is finished, "another choice is no reason for another audit"


def test_words_appear_as_they_are_measured(explain):
    shown = []
    view = Audit(explain, TEXTS, LABELS, least=1)
    view.observe(lambda _: shown.append((view.result.audit and len(view.result.audit.words), view.progress)), "_rev")
    view.wait()
    counts = [count for count, _ in shown if count]
    assert len({*counts}) > 2 and counts == sorted(counts) and counts[0] == 8
    whole = nbsal.audit(explain, TEXTS, LABELS, least=1, progress=False)
    assert_frame_equal(view.audit.words, whole.words, rtol=1e-4, check_exact=False)
    assert view.audit.provenance == whole.provenance
    from_page(view, least=4)
    assert 0 < len(view.wait().audit.words) < counts[-1], "fewer words are named as often"


def test_an_opened_text_is_checked(audit, explain):
    view = Audit(audit, opened=2).wait()
    assert view.result.table.opened.check == explain.check(explain(TEXTS[2])).check is not None


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
    assert audit.words.word[0] in html and "labelled" in html and view.to_png()[:4] == b"\x89PNG"
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
    assert [bool(row["kind"]) for row in view._words["rows"]] == [True]
    slices = [bool(row["mark"]) for row in view._slices["rows"]]
    assert set(slices) == {True, False}
    legend = view._words["note"].count("\N{BLACK DIAMOND}")
    assert legend and view.to_html().count("\N{BLACK DIAMOND}") == legend + 1 + len(certain.beyond_chance[1])
    assert view.picked == [first.word] and ("for", f"“{first.word}”") in [*map(tuple, view._headline)]
    assert f"“{first.word}”" in without_markup(view.to_html()).split("breaks")[0], "marked without colours too"
    assert certain.sentence.startswith("Hiding") and not audit.sentence.startswith("Hiding")


def test_punctuation_has_a_name_in_the_table(audit):
    view = Audit(audit).wait()
    names = {word["word"]: word["name"] for word in view._words["rows"]}
    assert names[","] == "“,” comma" in audit.to_html() and names["a"] == "a"


def test_the_mistakes_are_browsed(explain, audit):
    view = Browse(explain, audit.mistakes.text, labels=audit.mistakes.label).wait()
    assert view.to_frame()["label"].tolist() == audit.mistakes.label.tolist() and view.opened == 0
    assert view._table["counts"] == [len(audit.wrong)] * 2, "each is a mistake"
