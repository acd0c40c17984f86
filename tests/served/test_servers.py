"""Each server of the guide's table: how it gives log-probabilities, and what is done where it gives none."""

import pytest

import nbsal
from nbsal.model.served import calls
from nbsal.model.served.queries import Query
from nbsal.support.errors import ServerError
from nbsal.support.progress import Meter
from tests.cases import cases
from tests.raising import refuses_part
from tests.served import model_server

PROMPT = "Notes:\n- Mara lives in Oslo now.\n- Boris lives in Rouen.\nQuestion: Where does Mara live?\nAnswer:"
CHAT = [{"role": "user", "content": "Where does Mara live?"}]
REPLY = " Mara lives in Oslo."
BOTH = ("prompt_logprobs", "prompt_logprobs of a chat")
ROWS = {
    "vllm": BOTH, "litellm": BOTH, "llamacpp": ("grammar", "grammar of a chat"), "llama": ("echo", None),
    "tgi": ("decoder_input_details", None), "ollama": (None, None), "transformers": (None, None),
    "gateway": (None, None),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(calls, "FIRST", 0.005)


def served(address, name, **settings):
    return nbsal.load(nbsal.Endpoint(f"{address}/{name}/v1", model_server.NAME, model_server.KEY, **settings))


def effects(subject, method, **settings):
    answer = nbsal.answer(
        subject, PROMPT, REPLY, method=method, unit="sentence", progress=False, check=False, **settings
    )
    return answer.matrix("word", "sentence", earlier=False).sum().to_numpy()


@pytest.fixture(scope="module")
def truth(notes):
    return effects(notes, nbsal.Occlusion(way="text"))


def form_of(server, messages=None):
    ids = server.tokenizer(PROMPT)["input_ids"]
    return server.form(Query(tuple(ids), (), messages), Meter(None)).name


@cases("name", ROWS)
def test_a_row_of_the_guide(name, address, notes, truth):
    without, (prompts, chats) = served(address, name), ROWS[name]
    for form, messages in ((prompts, None), (chats, tuple(CHAT))):
        if form is None:
            with refuses_part("logprobs"):
                form_of(without.model.server, messages)
        else:
            assert form_of(without.model.server, messages) == form
    for subject in (without, served(address, name, tokenizer=notes.tokenizer)):
        if prompts is None:
            _, mara, boris, *_ = effects(subject, "occlusion", number="agreement")
            assert mara > boris == 0
        else:
            assert effects(subject, "occlusion") == pytest.approx(truth, abs=1e-5)


@cases("name", ["vllm", "litellm", "ollama"])
def test_another_model_and_another_key_are_refused_at_once(name, address):
    for model, key in (("other", model_server.KEY), (model_server.NAME, "other"), (model_server.NAME, None)):
        for asked in (PROMPT, CHAT):
            subject = nbsal.load(nbsal.Endpoint(f"{address}/{name}/v1", model, key))
            with pytest.raises(ServerError):
                nbsal.answer(subject, asked, progress=False)
            assert subject.model.server.caller.sent == 1


def test_unknown_words_of_a_reply_are_nothing_to_llama_cpp(address, notes):
    reply = " Mara lives in Zanzibar."
    assert notes.tokenizer.unk_token_id in notes.tokenizer(reply)["input_ids"]
    settings = {"unit": "sentence", "progress": False, "check": False}
    ours = nbsal.answer(notes, PROMPT, reply, method="random", **settings).statistics.logprob
    theirs = nbsal.answer(served(address, "llama", tokenizer=notes.tokenizer), PROMPT, reply, **settings)
    assert theirs.statistics.logprob == pytest.approx(ours, abs=1e-5)
    with pytest.raises(ServerError) as caught:
        nbsal.answer(served(address, "llama"), PROMPT, reply, **settings)
    assert "another tokenizer" not in str(caught.value)
