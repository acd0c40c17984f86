"""Sources hidden in four ways: each value is that of a prompt that a user could write, and most ways must agree."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.prompt.neutral import neutral_words, replaced
from nbsal.explain.sentences.outcomes import MASKED, NAMES, ONLY, REMOVED, REPLACED
from nbsal.explain.sentences.source_ways import holding
from tests.answers import writers
from tests.raising import refuses

DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "Anna lives in Porto."]
ASKED = [{"role": "user", "content": "Where does Mara live?"}]


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


@pytest.fixture(scope="module")
def checked(notes):
    return nbsal.answer(notes, ASKED, documents=DOCUMENTS, method="occlusion", check="ways", progress=False)


def literal(subject, reply_ids, documents, asked=ASKED):
    """The same reply to a prompt with other documents, and the tokens of that prompt."""
    settings = {"method": "random", "check": False, "progress": False}
    other = nbsal.answer(subject, asked, list(reply_ids), documents=documents, **settings)
    return other.statistics.logprob, other.reading.prompt.ids


def test_each_way_is_the_prompt_that_it_says(notes, checked):
    evidence, words = checked.evidence, neutral_words(notes)
    row = evidence.places.index((checked.reading.prompt.names.index("document 1"), None))
    neutral = replaced(DOCUMENTS[0], [(0, len(DOCUMENTS[0]))], words)
    documents = {REMOVED: DOCUMENTS[1:], REPLACED: [neutral, *DOCUMENTS[1:]], ONLY: DOCUMENTS[:1]}
    assert {way.name for way in evidence.ways} == documents.keys()
    for way in evidence.ways:
        logprob, ids = literal(notes, checked.ids, documents[way.name])
        assert way.logprob[row] == pytest.approx(logprob, abs=1e-5)
        assert way.likelihood[row] == pytest.approx(mean_logprob(notes, ids), abs=1e-4)
    assert evidence.likelihood == pytest.approx(mean_logprob(notes, checked.reading.prompt.ids), abs=1e-4)


def mean_logprob(subject, ids):
    """The mean log-probability of the tokens of a prompt after the first."""
    tokens = torch.tensor([ids])
    with torch.no_grad():
        logprobs = subject.model(input_ids=tokens).logits[0, :-1].double().log_softmax(-1)
    return float(logprobs.gather(1, tokens[0, 1:, None]).mean())


def test_the_sentence_the_table_and_the_notes_tell_of_the_ways(checked, notes):
    plain = nbsal.answer(notes, ASKED, documents=DOCUMENTS, method="occlusion", progress=False)
    assert "4 of 4 ways" in checked.statement().text() and checked.statement().state == "supported"
    assert plain.statement().text() in checked.statement().text()
    kinds = checked.effects("Oslo")["kind"].tolist()
    assert [kinds.count(name) for name in NAMES] == [len(DOCUMENTS) + 1] * 4
    assert len(checked.statement().effects) == len(plain.statement().effects) + 4
    assert plain.statement().evidence_line == "" and checked.statement().evidence_line.count(", ") >= len(NAMES)


def test_few_ways_are_no_support(checked):
    """A source without which the reply stays as it is in two ways of four is no support, whatever masking does."""
    evidence = checked.evidence
    same = [replace(way, logprob=np.tile(evidence.logprob, (len(evidence.places), 1))) for way in evidence.ways]
    weak = replace(checked, evidence=replace(evidence, ways=tuple(same)))
    assert weak.statement().state == "weak" and holding(weak.facts.part(weak.facts.opened())) == 1


def test_an_answer_is_checked_in_ways_later_and_saved(notes, checked, tmp_path):
    answer = nbsal.answer(notes, ASKED, documents=DOCUMENTS, method="occlusion", progress=False)
    later = answer.check(progress=False, ways=True)
    assert later.statement() == checked.statement() and later.check(progress=False, ways=True) is later
    later.save(tmp_path / "answer.nbsal")
    loaded = nbsal.Answer.load(tmp_path / "answer.nbsal")
    assert loaded.statement() == later.statement() and loaded.effects().equals(later.effects())


def test_the_question_stays_where_a_sentence_is_left_alone(notes):
    asked = [{"role": "user", "content": f"{' '.join(DOCUMENTS)} Where does Mara live?"}]
    answer = nbsal.answer(notes, asked, " Mara lives in Oslo.", method="random", check="ways", progress=False)
    (only,) = [way for way in answer.evidence.ways if way.name == ONLY]
    row = answer.evidence.candidates[0]
    logprob, _ = literal(notes, answer.ids, (), [{"role": "user", "content": f"{DOCUMENTS[0]} Where does Mara live?"}])
    assert only.logprob[row] == pytest.approx(logprob, abs=1e-5)
    masked = answer.facts.part(answer.tokens_of("Oslo")).candidates[0].ways[NAMES.index(MASKED)]
    assert masked.value == pytest.approx(answer.evidence.without[row][answer.tokens_of("Oslo")].sum())


def test_an_encoder_reads_prompts_but_writes_none():
    subject = writers.load("t5")
    answer = nbsal.answer(subject, "Ann wrote it. Ben read it. Who?", " Ann", check="ways", progress=False)
    assert answer.evidence.likelihood is None and {way.likelihood for way in answer.evidence.ways} == {None}
    assert answer.statement().evidence_line == ""


def test_what_cannot_be_hidden_in_ways_is_refused(notes, checked):
    with refuses("check"):
        nbsal.answer(notes, ASKED, check="way", progress=False)
    with refuses("check"):
        checked.of("Oslo", check="ways")
    served = nbsal.load(nbsal.Endpoint("http://127.0.0.1:1/v1", model="m"))
    with refuses("check"):  # before anything is sent
        nbsal.answer(served, "Mara lives in Oslo. Where?", " Oslo", check="ways", progress=False)
