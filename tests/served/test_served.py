"""Replies of models behind a server, against the same model in this process, and what a server cannot do."""

import json
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import nbsal
from nbsal import cli
from nbsal.evaluation import audit
from nbsal.methods import catalogue
from nbsal.model.served.served_model import Served
from nbsal.support.errors import InputError, LanguageHeadError, ModelError, NbsalError, OverBudget
from tests.cases import cases
from tests.raising import refuses, refuses_part
from tests.served.model_server import KEY

HIDING = [name for name, method in catalogue.every_method().items() if method.hides]
DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
QUESTION = [{"role": "user", "content": "Where does Mara live?"}]
REPLY = " Mara lives in Oslo."
PROMPT = "Notes:\n- Mara lives in Oslo now.\n- Boris lives in Rouen.\nQuestion: Where does Mara live?\nAnswer:"


def served(address, name="vllm", **settings):
    return nbsal.load(nbsal.Endpoint(f"{address}/{name}/v1", model="notes", key=KEY, **settings))


def explain(subject, method="occlusion", reply=REPLY, **settings):
    settings = {"documents": DOCUMENTS, "progress": False} | settings
    return nbsal.answer(subject, QUESTION, reply, method=method, **settings)


def in_text(subject, name, **settings):
    """The same method where units are cut out of the text, as they are behind a server."""
    return nbsal.Explainer(subject, name, way="text", **settings).method


@pytest.mark.parametrize("name", ["vllm", "llama", "tgi", "llamacpp"])
def test_scores_through_a_server_are_those_in_process(address, notes, name):
    subject = served(address, name, tokenizer=notes.tokenizer)
    for method in HIDING if name == "vllm" else HIDING[:1]:
        here, there = explain(notes, in_text(notes, method)), explain(subject, method)
        assert there.scores == pytest.approx(here.scores, abs=1e-5) and np.abs(there.scores).max() > 1
        assert there.evidence.without == pytest.approx(explain(subject).evidence.without)
        assert there.statistics.logprob == pytest.approx(here.statistics.logprob)
    assert there.provenance["hidden"] == here.provenance["hidden"] and there.provenance["parameters"]["way"] == "text"
    if name != "tgi":  # which names no other tokens
        assert (there.statistics.rank == here.statistics.rank).all()
        names = [[token for token, _ in likely] for likely in here.statistics.rivals]
        assert [[token for token, _ in likely][:4] for likely in there.statistics.rivals] == [
            each[:4] for each in names
        ]
        assert there.evidence.instead == explain(subject).evidence.instead
    masked = nbsal.Explainer(notes, "occlusion", way="pad").method
    assert explain(subject, masked).scores == pytest.approx(explain(notes, masked).scores, abs=1e-5)


def test_a_divergence_needs_the_likeliest_tokens(address, notes):
    every = len(notes.tokenizer)
    settings = {"number": "divergence", "documents": DOCUMENTS[:1], "check": False}
    truth = explain(notes, in_text(notes, "occlusion"), **settings).scores
    whole = explain(served(address, tokenizer=notes.tokenizer, top=every), **settings).scores
    some = explain(served(address, tokenizer=notes.tokenizer), **settings).scores
    assert whole == pytest.approx(truth, abs=1e-5) and truth.max() > 0.1
    assert (some <= truth + 1e-9).all() and some.max() == pytest.approx(truth.max(), rel=0.05)
    with refuses_part("top_logprobs"):
        explain(served(address, "tgi", tokenizer=notes.tokenizer), number="divergence")
    with refuses("number"):
        explain(served(address), number="divergence")


@cases("name", ["vllm", "llama", "tgi", "llamacpp"])
def test_without_a_tokenizer_words_stand_for_tokens(name, address, notes):
    subject, unit = served(address, name), "word" if name == "vllm" else "sentence"
    result = nbsal.answer(subject, PROMPT, REPLY, unit=unit, progress=False)
    truth = nbsal.answer(notes, PROMPT, REPLY, method=in_text(notes, "occlusion"), unit=unit, progress=False)
    assert result.tokens()["token"].tolist() == [" Mara", " lives", " in", " Oslo", "."]
    there, here = (each.matrix("word", unit, earlier=False).sum(axis=1) for each in (result, truth))
    assert there.to_numpy() == pytest.approx(here.to_numpy(), abs=1e-5)
    assert result.provenance["tokens"] and "token" not in result.picture().likelihood
    assert unit == "sentence" or result.units[3].text.strip() == "Mara"


@cases("name", ["vllm", "llama", "tgi", "llamacpp"])
def test_a_reply_is_written_once(name, address, notes, tmp_path):
    settings = {"tokenizer": notes.tokenizer, "cache": tmp_path / "calls"}
    first = served(address, name, **settings)
    result = explain(first, reply=None)
    assert result.text == REPLY and result.provenance["reply"] == "generated"
    assert (
        nbsal.Explainer(served(address, name, **settings), "occlusion").plan_reply(QUESTION, documents=DOCUMENTS).calls
        == 0
    )
    again, sent = served(address, name, budget=1, **settings), first.model.server.caller.sent
    assert explain(again, reply=None).text == REPLY and again.model.server.caller.sent == sent


@cases("name, reply", [("vllm", REPLY.strip()), ("llamacpp", REPLY)])  # the template of chats adds a space
def test_the_server_renders_a_chat_where_no_tokenizer_is_at_hand(name, reply, address, notes):
    subject = served(address, name)
    result = explain(subject, reply=reply)
    inside = [{"role": "user", "content": "\n\n".join([*DOCUMENTS, QUESTION[0]["content"]])}]
    truth = nbsal.answer(notes, inside, REPLY, progress=False, check=False, method="random")
    assert result.statistics.logprob.sum() == pytest.approx(truth.statistics.logprob.sum(), abs=1e-5)
    gone = nbsal.answer(notes, QUESTION, REPLY, progress=False, check=False, method="random").statistics.logprob.sum()
    assert result.evidence.nothing.sum() == pytest.approx(gone, abs=1e-5)
    with refuses("template"):
        explain(subject, template="{{ messages }}")
    with refuses("way"):
        explain(subject, nbsal.Occlusion(way="pad"))


def test_a_server_without_log_probabilities_shows_what_changes(address, notes, tmp_path):
    with refuses_part("logprobs"):  # its numbers are not those of the tokens beside them
        nbsal.answer(served(address, "shifted"), PROMPT, REPLY, progress=False)
    with refuses_part("logprobs"):
        explain(served(address, "shifted", tokenizer=notes.tokenizer))
    for subject in (served(address, "ollama"), served(address, "ollama", tokenizer=notes.tokenizer)):
        with refuses_part("logprobs"):
            explain(subject)
    result = explain(subject, number="agreement", unit="document", reply=None)
    assert result.number == "agreement" and result.evidence is None and np.isnan(result.statistics.logprob).all()
    scores = result.matrix("word", "document")
    assert scores.loc["Oslo", "document 1"] == pytest.approx(1) and not scores["document 2"].any()
    view = nbsal.widgets.Answers(result).wait()
    assert view._facts["logprobs"][0] is None and view.error == ""
    view.write_again()
    assert "not known" in view.wait()._replies[1]["likelihood"] and view.rewritten == view.result.text.strip()
    assert "method" not in view.steps()  # no other method runs
    cache = {"cache": tmp_path / "calls", "tokenizer": notes.tokenizer}
    explain(served(address, "ollama", budget=6, **cache), number="agreement", unit="document")
    explain(served(address, "ollama", budget=1, **cache), number="agreement", unit="document")  # all are in the cache
    with refuses("budget", OverBudget):
        explain(served(address, "ollama", budget=5, tokenizer=notes.tokenizer), number="agreement", reply=None)
    with refuses("number"):
        explain(notes, number="agreement")


def test_a_function_is_a_server_without_http():
    prompts = []

    def replies(pairs):
        prompts.extend(prompt for prompt, _ in pairs)
        return [[-0.5 if "Oslo" in str(prompt) else -2.5] * len(reply.split()) for prompt, reply in pairs]

    def by_tokens(pairs):
        return [[("In", -1.0), (" Os", -1.0), ("lo", -1.0)] for _ in pairs]

    subject = nbsal.load(nbsal.Endpoint(replies, model="guess", budget=6))
    result = nbsal.answer(subject, PROMPT, "In Oslo", progress=False, check=False)
    assert result.sources(k=1, rows="reply")["text"].item().strip() == "- Mara lives in Oslo now."
    assert len(prompts) == len(set(prompts)) == subject.model.server.caller.sent == 6
    with refuses("budget", OverBudget):
        nbsal.answer(subject, PROMPT, "In Oslo", progress=False, unit="word")
    with refuses("reply"):
        nbsal.answer(nbsal.load(nbsal.Endpoint(replies)), PROMPT, progress=False)
    chat = nbsal.load(nbsal.Endpoint(replies))
    assert explain(chat, reply="In Oslo").sources(k=1, rows="reply")["unit"].item() == "document 1"
    assert prompts[-1][-1]["role"] == "user"
    summed = nbsal.answer(nbsal.load(nbsal.Endpoint(by_tokens)), PROMPT, "In Oslo", progress=False)
    assert summed.statistics.logprob.tolist() == [-1.0, -2.0]
    for returned in (None, [], [[-1.0]] * 2, [[0.5, -1.0]], [["a", "b"]], [[("In", -1.0)]]):
        wrong = nbsal.load(nbsal.Endpoint(lambda pairs, returned=returned: returned, model="wrong"))
        with pytest.raises(NbsalError):
            nbsal.answer(wrong, PROMPT, "In Oslo", progress=False)


def test_a_classifier_that_is_a_function_has_a_budget_and_a_cache(tmp_path):
    texts = []

    def classify(batch):
        texts.extend(batch)
        return np.array([[0.1, 0.9] if "warm" in text else [0.6, 0.4] for text in batch])

    def explainer(budget):
        endpoint = nbsal.Endpoint(classify, model="reviews", budget=budget, cache=tmp_path / "calls")
        return nbsal.Explainer(nbsal.load(endpoint.classifier()), "occlusion")

    truth = nbsal.Explainer(nbsal.load(classify), "occlusion")("A warm film.").scores
    texts.clear()
    for budget in (20, 1):  # all texts are in the cache the second time
        assert explainer(budget)("A warm film.").scores == pytest.approx(truth)
    assert len(texts) == len(set(texts)) and {"A warm film.", "A film.", "warm film."} < set(texts)
    with refuses("budget", OverBudget):
        explainer(1)("A cold and dull film.")
    with refuses("url"):
        nbsal.Endpoint("http://127.0.0.1:9/v1", "m").classifier()


def test_the_view_strikes_out_and_writes_again_through_the_server(address, notes):
    subject = served(address, tokenizer=notes.tokenizer)
    view = nbsal.widgets.Answers(subject, QUESTION, documents=DOCUMENTS).wait()
    assert view.method == "occlusion" and view.result.text == REPLY and view.error == ""
    assert list(view.steps()) == ["part"] and view.next("part").wait().result.check is not None
    assert "5 tokens" in view._facts["likelihood"] and "server" in view._result["notes"][0]
    view.struck = [1]
    assert view.wait().without_struck.sum() < view.result.statistics.logprob.sum() - 5
    view.write_again()
    assert view.wait().rewritten == view.result.text.strip() == "The notes do not say."
    view.written = 0
    for method in ("gae", "random"):
        with refuses("method"):
            view.method = method
    view.method = "kernel-shap"
    view.panels = ["curve"]
    assert view.wait().result.method == "kernel-shap" and view.judgement.drop > 1
    assert KEY not in view.to_html()


def test_what_a_server_cannot_do_is_refused_with_what_it_can(address, notes, monkeypatch):
    subject = served(address, tokenizer=notes.tokenizer)
    explainer, texts = nbsal.Explainer(subject, "occlusion"), ["A joy.", "A bore."]
    result, widgets = explain(subject, check=False), nbsal.widgets
    refused = [
        *(lambda method=method: nbsal.Explainer(subject, method) for method in ("gae", "gradcam", "lrp", "random")),
        lambda: explainer("A joy."), lambda: explainer.map(texts, progress=False), lambda: explainer.ids([1, 2]),
        lambda: nbsal.compare(subject, ["occlusion", "lime"], texts), lambda: result.lens(),
        lambda: result.speaks(1, "Oslo"), lambda: subject.lm_head, lambda: subject.encode("A joy."),
        lambda: widgets.Heads(subject, text="A joy."),
        lambda: nbsal.evaluation.games([explainer], texts, progress=False),
        lambda: nbsal.evaluation.faithfulness([explainer], texts, progress=False),
    ]  # fmt: skip
    for call in refused:
        with pytest.raises((ModelError, LanguageHeadError)) as caught:
            call()
        assert all(name in str(caught.value) for name in HIDING)
    for view in (widgets.Highlight(subject, text="A joy."), widgets.Games(explainer, text="A joy.")):
        with pytest.raises(ModelError):
            view.wait()
    for call in (lambda: nbsal.audit(explainer, texts), lambda: audit.flips.flip(explainer, "A joy.")):
        with pytest.raises(InputError):
            call()
    for settings in ({"number": "logit"}, {"num_beams": 2, "reply": None}):
        with pytest.raises(InputError):
            explain(subject, **settings)
    with refuses("subject"):
        nbsal.Explainer(notes, "occlusion").plan_reply(QUESTION)
    monkeypatch.setattr(Served, "methods", [])  # as in a process that has imported no method
    with pytest.raises(ModelError, match="one that only hides"):
        subject.model.forward()


def counts(address):
    with urllib.request.urlopen(f"{address}/calls") as reply:
        return json.load(reply)


RUN = """
import os, sys
import nbsal
from nbsal.model.served import cache
address, file, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
put, answered = cache.CallCache.put, []
def put_and_die(self, key, result):
    put(self, key, result)
    answered.append(key)
    if len(answered) == calls:
        os.kill(os.getpid(), 9)
cache.CallCache.put = put_and_die
subject = nbsal.load(nbsal.Endpoint(address, "notes", cache=file, parallel=1))
prompt = "Notes:\\n- Mara lives in Turin.\\nQuestion: Where does Mara live?\\nAnswer:"
nbsal.answer(subject, prompt, " Mara lives in Turin.", unit="word", progress=False)
"""


def test_a_killed_run_repeats_no_call(address, tmp_path, monkeypatch):
    monkeypatch.setenv("NBSAL_API_KEY", KEY)
    before = counts(address)
    command = [sys.executable, "-W", "ignore", "-c", RUN, f"{address}/vllm/v1", str(tmp_path / "calls"), "9"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == -9, run.stderr
    subject = served(address, cache=tmp_path / "calls")
    prompt = "Notes:\n- Mara lives in Turin.\nQuestion: Where does Mara live?\nAnswer:"
    nbsal.answer(subject, prompt, " Mara lives in Turin.", unit="word", progress=False)
    new = {body: count for body, count in counts(address).items() if body not in before}
    assert set(new.values()) == {1} and len(new) > 15
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_corpora_of_replies_go_through_a_server(address, notes, tmp_path):
    subject = served(address, tokenizer=notes.tokenizer, budget=14)
    rows = [{"asked": QUESTION, "notes": DOCUMENTS}, {"asked": QUESTION, "notes": DOCUMENTS[1:]}]
    settings = {"documents": "notes", "unit": "document", "shard_rows": 1, "progress": False}
    with refuses("budget", OverBudget):  # a budget is not the fault of a row
        nbsal.corpus.explain_replies(nbsal.Explainer(subject, "kernel-shap"), rows, tmp_path / "out", **settings)
    more = served(address, tokenizer=notes.tokenizer)
    replies = nbsal.corpus.explain_replies(nbsal.Explainer(more, "kernel-shap"), rows, tmp_path / "out", **settings)
    assert DOCUMENTS[0] in set(replies.sources(k=2)["text"])
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_the_command_answers_through_a_server(address, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "notes.txt").write_text("\n\n".join(DOCUMENTS))
    server = ["--endpoint", f"{address}/vllm/v1", "--model", "notes", "--cache", str(tmp_path / "calls")]
    command = ["answer", "Where does Mara live?", "--documents", str(tmp_path / "notes.txt"), *server]
    assert cli.main([*command, "--plan"]) == 0
    assert capsys.readouterr().out.startswith("11 calls, about ")
    assert cli.main([*command, "--html", str(tmp_path / "page.html"), "--save", str(tmp_path / "answer.json")]) == 0
    assert capsys.readouterr().out.startswith("The notes do not say.")
    assert nbsal.Answer.load(tmp_path / "answer.json").provenance["model"] == "notes"
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.iterdir())
    assert cli.main([*command, "--budget", "1"]) == 0, "the cache has all of it"
    assert cli.main([*command, "--budget", "1", "--unit", "word"]) == 2
    assert cli.main(["answer", "Who?", "--budget", "1"]) == 2
    assert cli.main(["answer", "Who?", *server[:2]]) == 2


@cases("name, status", [("vllm", 0), ("llamacpp", 0), ("llama", 1), ("ollama", 1)])
def test_doctor_says_what_a_server_can_do_and_what_a_question_costs(name, status, address, monkeypatch, capsys):
    monkeypatch.setenv("NBSAL_API_KEY", KEY)
    assert cli.main(["doctor", "--endpoint", f"{address}/{name}/v1"]) == status
    said = dict(line.strip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["model"] == "notes" and KEY not in str(said) and "calls" in str(said)
    assert ("agreement" in said["messages"]) == bool(status) and ("agreement" in said["prompts"]) == (name == "ollama")
