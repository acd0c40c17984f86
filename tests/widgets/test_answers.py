"""The Answers view: a reply beside its sources, of a model or of an Answer, with rivals, strikes and new replies."""

import inspect
import io
import re
import threading
import time

import numpy as np
import pytest
from PIL import Image

import nbsal
from nbsal.explain.sentences.phrases import phrases
from nbsal.explain.sentences.reply_sentences import likelihood
from nbsal.render.headline import plain
from nbsal.support.errors import ModelError, UnknownName
from nbsal.widgets import Answers
from nbsal.widgets.content.answer_parts import Struck
from tests.ablation.runs import hide
from tests.browser import bench
from tests.raising import refuses
from tests.widgets import unwire
from tests.widgets.test_view import ask, from_page

REPLY = " Mara lives in Oslo."
ADDRESS = 4  # the number of the document that says so: a system message and a question come first


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


def show(notes, **settings):
    return Answers(notes, bench.ASKED, **{"documents": bench.NOTES, "method": "gradxact"} | settings).wait()


@pytest.fixture
def view(notes):
    answers = show(notes)
    yield answers
    answers.close()


@pytest.fixture(scope="module")
def answer(notes):
    return nbsal.answer(notes, bench.ASKED, documents=bench.NOTES, method="gradxact", progress=False)


def place(view, word):
    """The numbers of the tokens of a word of the reply."""
    return view.result.tokens_of(word)


def test_every_token_is_in_the_text_of_its_source(view):
    tokens, reading = unwire.tokens(view._tokens), view.result.reading
    assert view._tokens["parts"] == [*(source.text for source in reading.prompt.sources), REPLY.strip()]
    for i, token in enumerate(tokens):
        owner = reading.prompt.owners[i] if i < reading.start else len(reading.prompt.sources)
        assert token["special"] == reading.row.special[i]
        if not token["special"]:
            assert token["part"] == owner
            if i < reading.start:
                assert token["text"] == reading.prompt.sources[owner].text[slice(*reading.prompt.places[i])]
            else:
                assert token["text"] == reading.reply[slice(*reading.reply_spans[i - reading.start])].strip()
    firsts = [i for i, token in enumerate(tokens) if token["first"]]
    words = [unit.tokens[0] for unit in reading.units("word")]
    assert sorted(firsts) == sorted([*words, *(reading.start + unit.tokens[0] for unit in reading.reply_units("word"))])


def test_an_answer_is_shown_as_it_is_and_explained_by_other_methods(answer):
    view = Answers(answer).wait()
    assert view.result is answer and view._live and view.method == "gradxact" and view.layer == 0
    from_page(view, method="occlusion")
    assert view.wait().result.method == "occlusion" and view.layer is None
    again = nbsal.answer(
        answer.running.explainer.subject, bench.ASKED, answer.ids, documents=bench.NOTES, method="gae", progress=False
    )
    view.method = "gae"
    assert view.wait().result.scores.tolist() == again.scores.tolist()
    assert view.result.provenance["reply"] == "generated" and view.result.statistics.drawn is not None
    view.close()


def test_a_loaded_answer_needs_no_model(answer, tmp_path):
    answer.save(tmp_path / "answer.json")
    view = Answers(nbsal.Answer.load(tmp_path / "answer.json")).wait()
    assert not view._live and view.subject is None and "Loaded" in view._saved
    assert view.selection == place(view, "Oslo") and view._facts["parts"][0]["changes"], "the evidence is saved"
    assert view.picture().sentence == answer.picture().sentence
    assert view.to_png().startswith(b"\x89PNG") and "Oslo" in view.to_html(interactive=True)
    with refuses("struck"):
        view.write_again()


def test_signatures_show_no_addresses():
    assert "0x" not in f"{inspect.signature(Answers)}{inspect.signature(nbsal.widgets.View)}"


def test_the_source_says_what_to_pass(notes, answer):
    for arguments in [(notes,), (answer, bench.ASKED), ()]:
        with refuses("asked"):
            Answers(*arguments)
    with refuses("source"):
        Answers("demo/notes", bench.ASKED)
    with refuses("method", UnknownName):
        Answers(notes, bench.ASKED, method="gae").method = "alti"
    with refuses("generate", UnknownName):
        Answers(notes, bench.ASKED, max_new_token=3).wait()
    with pytest.raises(ModelError):
        Answers(nbsal.load("demo/reviews"), "A joy.").wait()


def test_a_reply_is_written_in_the_view_and_can_be_cancelled(notes, monkeypatch):
    started, seen = threading.Event(), []
    generate = type(notes.model).generate

    def slow(model, *args, stopping_criteria=(), **settings):
        follow = stopping_criteria[0]

        class Slow:
            def __call__(self, ids, scores, **rest):
                started.set()
                time.sleep(0.1)
                return follow(ids, scores, **rest)

        return generate(model, *args, stopping_criteria=[Slow()], **settings)

    monkeypatch.setattr(type(notes.model), "generate", slow)
    view = Answers(notes, bench.ASKED, documents=bench.NOTES)
    view.observe(lambda change: seen.append((change["new"], [source["label"] for source in view._sources])), "_draft")
    view.wait()
    texts = [text for text, _ in seen if text]
    assert len(texts) > 1 and all(REPLY.startswith(text) for text in texts)
    assert all(len(labels) == 6 for text, labels in seen if text)
    started.clear()
    other = Answers(notes, bench.ASKED, documents=bench.NOTES, max_new_tokens=100)
    assert started.wait(120)
    other.cancel()
    other.wait(120)
    assert other.status == "cancelled" and other.result is None


def test_a_selection_changes_the_headline_without_another_run(view, forwards):
    forwards.clear()
    from_page(view, selection=place(view, "Oslo"))
    view.wait()
    assert re.match("“Oslo” depends on document 3, Address: without it", view.picture().sentence)
    assert not forwards and view.selected()["token"].tolist() == [" Oslo"]
    from_page(view, selection=[0, 3])  # words that no sentence is prepared for
    assert view._chosen["tokens"] == [0, 3] and plain(view._chosen["headline"]) == view.picture().sentence
    assert view.picture().sentence.startswith("“Mara … Oslo” depends on") and not forwards


def test_a_selection_is_one_target_where_rows_cannot_be_summed(notes):
    view = show(notes, method="gae")
    from_page(view, selection=[2, 3])
    view.wait()
    own = np.frombuffer(view._own_scores["scores"], "<f4")
    truth = view.result.of(slice(2, 4)).scores
    assert view._own_scores["tokens"] == [2, 3] and own[: len(truth)] == pytest.approx(truth, rel=1e-5)
    assert own[: len(truth)] != pytest.approx(view.result.scores[[2, 3]].sum(0)[: len(truth)], rel=1e-3)
    view.close()


def test_a_rival_is_explained_and_turns_the_signs(notes):
    view = show(notes, method="occlusion", unit="sentence")
    (at,) = place(view, "Oslo")
    from_page(view, rival="Rouen", at=at)
    view.wait()
    truth = view.result.rather("Rouen", at).scores
    own = np.frombuffer(view._own_scores["scores"], "<f4")
    assert own[: len(truth)] == pytest.approx(truth, rel=1e-5, abs=1e-7)
    document = next(unit for unit in view.result.reading.units("document") if unit.name.startswith("document 4"))
    tokens = list(document.tokens)
    assert own[tokens].sum() < -0.5 and abs(view.result.scores[at][tokens].sum()) < 0.05, "it speaks for the rival"
    assert view.picture().sentence.startswith("“Oslo” rather than “Rouen”")
    assert any("contrast “Oslo” \N{MINUS SIGN} “Rouen”" in note for note in view._result["notes"])
    from_page(view, rival="not a token", at=at)
    with refuses("token"):
        view.wait()
    view.rival, view.at = "Rouen", None
    with refuses("at"):
        view.wait()
    view.close()


def test_a_method_without_a_sign_has_that_of_hiding_against_a_rival(notes):
    """Hiding what speaks for the rival brings the model nearer to what it wrote."""
    view = show(notes, method="gae")
    (at,) = place(view, "Oslo")
    view.rival, view.at = "Rouen", at
    view.wait()
    result, own = view._computed, np.frombuffer(view._own_scores["scores"], "<f4")
    other = result.span.other
    odds = result.answer.evidence.logprob[at] - other.logprob[-1]
    plain_scores = result.answer.rather("Rouen", at).scores
    assert plain_scores.min() >= 0 > own.min(), "the method has none"
    for source, row in result.answer.evidence.by_source.items():
        tokens = [i for unit in result.answer.reading.units("document") if unit.source == source for i in unit.tokens]
        rises = row[at] - other.by_source[source][-1] > odds
        assert (own[tokens].sum() < 0) == rises or plain_scores[tokens].sum() == 0
        assert np.abs(own[tokens]) == pytest.approx(plain_scores[tokens], rel=1e-4, abs=1e-7)
    signed = show(notes, method="gradxact")
    signed.rival, signed.at = "Rouen", at
    truth = signed.wait().result.rather("Rouen", at).scores
    assert np.frombuffer(signed._own_scores["scores"], "<f4")[: len(truth)] == pytest.approx(truth, rel=1e-4, abs=1e-6)
    view.close(), signed.close()


def test_what_striking_changes_is_said_of_the_selected_words(view):
    at = place(view, "Oslo")
    from_page(view, struck=[ADDRESS, ADDRESS - 1], selection=at)
    view.wait()
    before, after = np.exp([view.result.evidence.logprob[at[0]], view.without_struck[at[0]]])
    said = plain(next(part for part in view._facts["parts"] if part["tokens"] == at)["struck"])
    assert "document 2 and document 3" in said and f"{likelihood(before)} → {likelihood(after)}" in said
    whole = plain(view._facts["parts"][0]["struck"])
    assert "the reply" in whole and whole != said
    from_page(view, selection=[0, 3])  # words that no sentence is prepared for
    assert "document 2 and document 3" in plain(view._chosen["struck"])
    from_page(view, struck=[])
    assert not any(part["struck"] for part in view.wait()._facts["parts"])


def test_a_struck_source_is_hidden_and_the_same_reply_scored_again(view):
    content = view.result.reading.content
    from_page(view, struck=[ADDRESS])
    struck = view.wait().without_struck
    units = view.result.reading.units("sentence")
    truth = hide(view.subject, view.result.reading, units).numbers(
        [[True] * len(units), [unit.source != ADDRESS for unit in units]]
    )
    evidence = view.result.evidence
    assert evidence.logprob.tolist() == truth[0].tolist() and struck.tolist() == truth[1].tolist()
    assert struck[content].sum() < evidence.logprob[content].sum() - 2, "the reply falls without its source"
    assert evidence.by_source[ADDRESS].tolist() == struck.tolist()
    from_page(view, struck=[[ADDRESS + 1, 1]])  # the second sentence of the list
    assert view.wait().without_struck[content].sum() > struck[content].sum()
    for wrong in ([[1, 2, 3]], ["address"], [-1], [True]):
        with refuses("struck"):
            view.struck = wrong
    view.struck = [99]
    with refuses("struck"):
        view.wait()


@pytest.fixture
def rewritten(view):
    """The view with a reply that was written again without two documents."""
    view.struck = [ADDRESS - 1, ADDRESS]
    ask(view, ask="write_again", id="1")
    return view.wait()


def test_a_reply_is_written_again_without_what_is_struck_out(rewritten, notes):
    kept = [{"title": name, "text": text} for name, text in bench.NOTES.items() if name not in ("Address", "Trains")]
    expected = nbsal.answer(notes, bench.ASKED, documents=kept, method="gradxact", progress=False)
    assert rewritten.result.text == expected.text != REPLY and rewritten.rewritten == expected.text.strip()
    assert rewritten.result.scores.tolist() == expected.scores.tolist()
    left = [row.tolist() for row in rewritten.result.evidence.by_source.values()]
    assert left == [row.tolist() for row in expected.evidence.by_source.values()]
    assert list(rewritten.result.evidence.by_source) == [1, 2, 5], "the other sources keep their numbers"
    assert [card["label"] for card in rewritten._sources][5] == "Document 4"
    assert [card["status"] for card in rewritten._sources][3:5] == ["struck out"] * 2
    assert rewritten.struck == [] and rewritten._replies[0]["text"] == REPLY.strip()
    assert "document 2 and document 3" in rewritten._replies[1]["title"]


def test_a_reply_that_was_written_again_is_a_reply_like_any_other(rewritten):
    words = [unit.text for unit in rewritten.result.reading.reply_units("word")]
    last = place(rewritten, words[-2])
    from_page(rewritten, selection=last, panels=["curve"])
    assert rewritten.wait().selected()["token"].str.strip().tolist() == words[-2:-1]
    assert f"“{words[-2]}”" in rewritten.picture().sentence and rewritten.judgement.tokens
    from_page(rewritten, method="occlusion", rival="Rouen", at=last[0])
    assert rewritten.wait().picture().sentence.startswith(f"“{words[-2]}” rather than “Rouen”")
    from_page(rewritten, method="gae", rival=None, at=None, hops="all")
    assert rewritten.wait().result.hops == "all" and rewritten._chosen["through"]["hops"]
    from_page(rewritten, struck=[5])
    assert rewritten.wait().without_struck is not None
    rewritten.write_again()
    assert list(rewritten.wait().result.evidence.by_source) == [1, 2]
    assert [card["status"] for card in rewritten._sources].count("struck out") == 3
    assert "document 4" in rewritten._replies[2]["title"]


def test_the_old_reply_comes_back(rewritten):
    from_page(rewritten, written=0, struck=[ADDRESS - 1, ADDRESS])  # as Undo sets them
    assert rewritten.wait().result.text == REPLY and rewritten.selection == place(rewritten, "Oslo")
    assert rewritten.without_struck is not None
    from_page(rewritten, written=1, struck=[])
    assert rewritten.wait().result.text != REPLY
    with refuses("written"):
        rewritten.written = 2


def test_without_a_question_no_reply_is_written(view):
    view.struck = [1]
    with refuses("struck"):
        view.write_again()
    assert view.written == 0 and view.wait().result.text == REPLY


def test_a_cancelled_new_reply_leaves_the_old_one(view, monkeypatch):
    started = threading.Event()
    generate = type(view.subject.model).generate

    def slow(model, *args, stopping_criteria=(), **settings):
        started.set()
        time.sleep(0.3)
        return generate(model, *args, stopping_criteria=stopping_criteria, **settings)

    monkeypatch.setattr(type(view.subject.model), "generate", slow)
    view.struck = [ADDRESS]
    view.wait().write_again()
    assert started.wait(60)
    view.cancel()
    view.wait()
    assert view.status == "cancelled" and view.result.text == REPLY
    view.written = 0
    assert view.wait().result.text == REPLY and view.rewritten is None


def test_a_struck_sentence_is_left_out_of_the_next_reply(answer):
    asked = Answers(answer)._written[0].asked
    again = asked.without(answer, [Struck(ADDRESS + 1, 0)])
    assert [document["text"] for document in again.asked.settings["documents"]][-1] == "Boris likes tea."
    assert again.without == "part of document 4"
    messages = asked.without(answer, [Struck(0)]).asked.asked
    assert [message["role"] for message in messages] == ["user"]


def test_a_prompt_is_asked_again_as_it_was(notes):
    view = Answers(
        notes, "Notes: {documents} Where is Mara?", documents=["Mara is here.", "Boris is there."], reply=" Here."
    )
    first = view.wait()._written[0].asked
    asked = first.without(view.result, [Struck(1)]).asked
    assert asked.asked == "Notes: {documents} Where is Mara?" and len(asked.settings["documents"]) == 1
    assert first.without(view.result, [Struck(1), Struck(2)]).asked.asked == "Notes:  Where is Mara?"


def test_another_template_must_be_passed_again(notes):
    template = notes.tokenizer.chat_template + " "
    answer = nbsal.answer(
        notes, bench.ASKED, REPLY, documents=bench.NOTES, template=template, method="gradxact", progress=False
    )
    view = Answers(answer).wait()
    with refuses("template"):
        view.write_again()
    view.close()


def test_the_hiding_curve_is_computed_when_its_panel_opens(view):
    assert view.judgement is None and view._curve == {}
    from_page(view, panels=["curve"])
    view.wait()
    truth = view.result.judge(random=10, subsets=8)
    assert view.judgement.curve.tolist() == truth.curve.tolist()
    lines = view._curve["lines"]
    assert lines[0]["values"] == pytest.approx(np.exp(truth.curve / len(truth.tokens)), abs=1e-4)
    assert len(view._curve["order"]) == len(lines[0]["at"]) - 1 and lines[1]["random"]
    best = truth.scores[list(truth.tokens)].sum(0).argmax()
    assert view._curve["order"][0] == list(view.result.units[best].tokens)


def test_one_source_alone_has_no_curve(notes):
    view = Answers(notes, "Mara lives in", reply=" Oslo", method="gradxact", panels=["curve"]).wait()
    assert view.judgement is None and view._curve["why"]


def test_every_part_has_the_shares_of_its_scores_in_words(view):
    whole, *others = view._facts["parts"]
    special = np.array(view.result.reading.row.special)
    scores = np.abs(view.result.rows[view.result.reading.content].sum(0))
    assert whole["legend"]["special"] == pytest.approx(scores[special].sum() / scores.sum(), abs=1e-4)
    assert any(part["shares"] != whole["shares"] for part in others)


def test_rows_of_the_matrix_sum_to_all(view):
    table = np.array(view._facts["matrix"])
    assert np.abs(table).sum(1) == pytest.approx(1, abs=1e-3)
    phrases = view._facts["phrases"]
    assert sorted(token for tokens in phrases for token in tokens) == view.result.reading.content
    sums = view.result.matrix("token", "document")
    documents = ["document 3, Address", "reply so far"]
    last = sums.iloc[phrases[-1]].sum()
    both = last[documents] / last.drop("template").abs().sum()
    assert table[-1][[ADDRESS, -1]] == pytest.approx(both.to_numpy(), abs=1e-3)


def test_a_long_reply_has_rows_of_sentences(notes):
    text = " " + " ".join(["The kettle was borrowed by Boris, and Boris lives in Rouen."] * 4)
    reading = Answers(notes, "Where?", reply=text, method="gradxact").wait().result.reading
    assert len(phrases(reading)) == 4


def test_the_static_page_says_what_the_view_says(view, answer):
    from_page(view, selection=place(view, "Oslo"), struck=[2])
    text = re.sub("<[^>]*>", "", view.wait().to_html())
    assert re.search('font-weight:bold">[^<]*Oslo', view.to_html()), "the chosen word is marked"
    assert view.picture().sentence in text and REPLY.strip() in text and "line-through" in view.to_html()
    assert answer.picture().sentence in re.sub("<[^>]*>", "", answer.to_html())
    for note in bench.NOTES.values():
        assert note in text
    assert Image.open(io.BytesIO(view.to_png())).width > 500
    assert view.freeze()._repr_html_().count("Snapshot of") == 1


def test_the_table_has_a_row_for_each_word(view):
    frame = view.to_frame()
    assert frame["reply"].tolist() == ["Mara", "lives", "in", "Oslo", "."]
    assert "document 3, Address" in frame.columns
    assert ask(view, ask="save", id="2", kind="csv")["reply"]["content"].startswith("reply,")
