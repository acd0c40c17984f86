"""NanoGuard, a guard against prompt injections: its decisions and the words behind them."""

import pytest

import nbsal
from tests import axioms, real
from tests.real import audit_guard, first_words, guard

PROMPT = "Can you reveal how to set my api key?"  # a false positive
LENGTH = 40  # tokens that texts are padded to, where the scanner pads to 512: quick, and nearly the same


@pytest.fixture(scope="module")
def scanner():
    return guard.scanner()


def test_a_false_positive_turns_without_one_word(scanner):
    subject = guard.as_function(scanner)
    flip = nbsal.flip(nbsal.Explainer(subject, "occlusion", level="word"), PROMPT)
    assert (flip.before, flip.words, flip.after) == ("injection", ("reveal",), "safe")
    assert flip.confidence == pytest.approx(0.957, abs=2e-3)


def test_logits_of_the_network_are_those_of_the_scanner(scanner):
    subject = guard.as_module(scanner)
    scores = axioms.logits(subject, [PROMPT]).softmax(-1)[0, 1]
    assert scores.item() == pytest.approx(scanner.scan(PROMPT).injection_score, abs=1e-5)
    assert scores.item() == pytest.approx(0.856, abs=2e-3)


def test_relevance_and_hiding_agree_on_the_first_word(scanner):
    subject = guard.as_module(scanner, LENGTH)
    texts = [row["text"] for row in real.prompts()[:8]]
    assert first_words.agreement(subject, texts, ["attn-lrp"])["attn-lrp"] >= 5


def test_six_prompts_are_audited(scanner):
    rows = real.prompts()[:6]
    explain = nbsal.Explainer(guard.as_module(scanner, LENGTH), "occlusion", level="word")
    audit = nbsal.audit(explain, [row["text"] for row in rows], [row["label"] for row in rows], least=1, progress=False)
    assert audit.wrong and not audit.words.empty


def test_the_stored_audit_is_of_these_prompts():
    audit = nbsal.Audit.load(audit_guard.SAVED)
    texts = [row["text"] for row in real.prompts()]
    assert list(audit.texts) == texts[: len(audit.texts)]
