"""Where the values of a reply are from: documents, spans, what hiding all copies does, and what is saved of it."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.citations.fields import COLUMNS, ExtractedReply
from nbsal.explain.citations.subsets import measure_documents
from nbsal.support.errors import Cancelled
from tests.answers import writers
from tests.raising import refuses

ASKED = [{"role": "user", "content": "Where does Mara live?"}]
DOCUMENTS = ["Mara lives in Oslo.", "Boris lives in Rouen."]
REPLY = "Mara: lives in Oslo\nBoris: lives in Rouen\nVera: lives in Porto"
GIVEN, ABSENT = "from the documents", "not from the documents"


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


@pytest.fixture(scope="module")
def writer():
    return writers.load()


def reply_to(subject, reply=REPLY, documents=tuple(DOCUMENTS), asked=ASKED):
    return nbsal.answer(subject, asked, reply, documents=documents, method="occlusion", check=False, progress=False)


def spans(frame, documents):
    """What the documents write where the values are from."""
    known = frame.dropna(subset="document")
    return [documents[row.document - 1][row.start : row.end] for row in known.itertuples()]


def test_values_are_from_the_documents_that_give_them(notes):
    frame = reply_to(notes).fields()
    assert tuple(frame.columns) == COLUMNS and frame["path"].tolist() == ["Mara", "Boris", "Vera"]
    assert frame["document"].tolist()[:2] == [1, 2] and spans(frame, DOCUMENTS) == ["lives in Oslo", "lives in Rouen"]
    assert frame["verdict"].tolist() == [GIVEN, GIVEN, ABSENT]
    assert frame.loc[2, ["document", "start", "end", "drop"]].isna().all()
    assert {str(frame[name].dtype) for name in ("document", "start", "end")} == {"Int64"}


def test_a_drop_is_what_hiding_every_copy_by_hand_gives(notes):
    documents = ["Mara lives in Oslo.", "Boris lives in Rouen.", "Mara lives in Oslo."]
    answer = reply_to(notes, "Mara: lives in Oslo", documents)
    frame, reading = answer.fields(), answer.reading
    copy = "lives in Oslo"
    mask = torch.ones(1, len(reading.row), dtype=torch.long)
    for token, (owner, place) in enumerate(zip(reading.prompt.owners, reading.prompt.places, strict=True)):
        if owner in (1, 3) and place and place[0] < 5 + len(copy) and place[1] > 5:
            mask[0, token] = 0
    assert int((1 - mask).sum()) == 2 * 3, "three words, in two documents"
    ids, at = torch.tensor([reading.row.ids]), slice(reading.start - 1, -1)
    sums = []
    for each in (torch.ones_like(mask), mask):
        with torch.no_grad():
            logprob = notes.model(input_ids=ids, attention_mask=each).logits[0, at].double().log_softmax(-1)
        tokens = [i for i, (start, end) in enumerate(reading.reply_spans) if start < 6 + len(copy) and end > 6]
        sums.append(sum(float(logprob[i, reading.reply_ids[i]]) for i in tokens))
    assert frame["drop"].tolist() == pytest.approx([sums[0] - sums[1]], abs=1e-4) and frame["drop"][0] > 1
    assert frame["verdict"].tolist() == [GIVEN]


def test_a_value_that_stays_likely_is_not_from_the_documents(notes):
    answer = reply_to(notes, "Mara: lives")
    frame = answer.fields()
    assert frame["verdict"].tolist() == [ABSENT] and spans(frame, DOCUMENTS) == ["lives"]
    assert answer.statistics.logprob[ExtractedReply(answer.reading).fields[0].tokens[0]] > np.log(0.5)


def test_a_value_that_is_unlikely_with_and_without_its_copies_is_unclear(notes):
    asked = [{"role": "user", "content": "Mara lives in Oslo. Where does Mara live?"}]
    frame = reply_to(notes, "Mara: lives in Oslo", asked=asked).fields()
    assert frame["verdict"].tolist() == ["unclear"] and spans(frame, DOCUMENTS) == ["lives in Oslo"]


def test_a_value_in_other_words_is_from_a_sentence(notes):
    documents = ["Boris plays the piano. Mara Brandt lives in Oslo.", "Vera lives in Porto."]
    frame = reply_to(notes, "Mara: Mara lives in Oslo", documents).fields()
    assert spans(frame, documents) == ["Mara Brandt lives in Oslo."] and frame["verdict"].tolist() == [GIVEN]


def test_equal_values_are_looked_up_by_their_keys(writer):
    documents = ["Net: 9.00\nTax: 1.00\nTotal: 9.00", "Dear Ann"]
    frame = reply_to(writer, '{"net": 9.00, "total": 9.00, "other": "9.00"}', documents).fields()
    assert frame["start"].tolist() == [5, 27, 5] and frame["value"].tolist() == ["9.00"] * 3
    assert frame["drop"].notna().all()


def test_a_repeated_value_is_judged_with_its_first_mention(notes):
    answer = reply_to(notes, "Mara: lives in Oslo\nBoris: lives in Rouen\nMara: lives in Oslo")
    frame, (first, _, again) = answer.fields(), ExtractedReply(answer.reading).fields
    assert frame["verdict"].tolist() == [GIVEN] * 3 and frame["document"].tolist() == [1, 2, 1]
    assert again.words[0].tokens == (*first.tokens, *again.tokens) and again.tokens != first.tokens


def test_what_says_nothing_is_not_called_invented(writer):
    frame = reply_to(writer, '{"a": null, "b": "", "c": true, "d": [false]}', ["One.", "Two."]).fields()
    assert frame["value"].tolist() == [None, "", "true", "false"]
    assert not (frame["verdict"][:2] == ABSENT).any()


def test_nothing_is_run_twice(notes):
    answer = reply_to(notes)
    ablation = answer.running.experiment.ablation
    subsets = measure_documents(answer.running.experiment)
    forwards = ablation.forwards
    measured = answer.with_fields(progress=False)
    assert ablation.forwards == forwards + 2, "one for each span"
    assert measured.subsets.stays == subsets.stays and measured.with_fields() is measured
    answer.fields(), measured.fields(), replace(measured, field_sources=None).fields()
    assert ablation.forwards == forwards + 2


def test_a_reply_without_values_runs_nothing(notes):
    answer = reply_to(notes, "Mara lives in Oslo.")
    forwards = answer.running.experiment.ablation.forwards
    frame = answer.fields()
    assert frame.empty and tuple(frame.columns) == COLUMNS
    assert answer.running.experiment.ablation.forwards == forwards
    with refuses("documents"):
        reply_to(notes, documents=None).fields()


def test_a_file_holds_what_was_measured(notes, tmp_path):
    answer = reply_to(notes)
    answer.with_fields(progress=False).save(tmp_path / "fields.nbsal")
    answer.save(tmp_path / "plain.nbsal")
    loaded = nbsal.Answer.load(tmp_path / "fields.nbsal")
    assert loaded.running is None and loaded.fields().equals(answer.fields())
    with refuses("span"):
        nbsal.Answer.load(tmp_path / "plain.nbsal").fields()


def test_a_file_with_places_that_no_document_has_is_refused(notes, tmp_path):
    measured = reply_to(notes).with_fields(progress=False)
    first, *rest = measured.field_sources
    for number, change in enumerate([{"place": (3, (0, 4))}, {"place": (1, (0, 99))}, {"place": (0, (0, 4))}]):
        with refuses("path"):  # by the check that a file passes when it is opened, too
            replace(measured, field_sources=(replace(first, **change), *rest)).save(tmp_path / f"{number}.nbsal")


def test_fields_can_be_cancelled_and_report_their_passes(notes):
    cancel, steps = threading.Event(), []
    reply_to(notes).fields(progress=lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] and np.diff([done for done, _ in steps]).min(initial=1) > 0
    cancel.set()
    with pytest.raises(Cancelled):
        reply_to(notes).fields(cancel=cancel)
