"""How each kind of server is asked, and what of its reply is read: conversations as documented, and lies."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation.served import divergence
from nbsal.model.served.alignment import Expected, reply_tokens
from nbsal.model.served.forced import tokenizing
from nbsal.model.served.forms import ECHO, GRAMMAR, TGI, VLLM, VLLM_CHAT, Likely, Question, Token, read_tokens
from nbsal.model.served.function_scores import plain
from nbsal.model.served.server import Score
from nbsal.model.target import divergence as divergence_of
from nbsal.support.errors import ServerError
from tests.cases import cases
from tests.served.raw_server import page, serving

CONVERSATIONS = json.loads((Path(__file__).parents[1] / "data" / "conversations.json").read_text())
FORMS = {form.name: form for form in (VLLM, ECHO, TGI, VLLM_CHAT, GRAMMAR)}


@cases("conversation", CONVERSATIONS)
def test_example_conversations(conversation):
    form, top = FORMS[conversation["form"]], conversation["top"]
    parts = [
        tuple(part) if isinstance(part, list) else part for part in (conversation["prompt"], conversation["reply"])
    ]
    question = Question(*parts)
    assert json.loads(json.dumps(form.body(question, top))) == conversation["request"]
    ids = (question.reply if form.forces else question.joined) if isinstance(parts[1], tuple) else ()
    expected = Expected(tuple(conversation["pieces"]), parts[0] if isinstance(parts[0], str) else None, ids)
    if conversation["scores"] is None:
        with pytest.raises(ServerError):
            read_tokens(form, conversation["response"])
        return
    scores = [plain(piece) for piece in reply_tokens(*read_tokens(form, conversation["response"]), expected)]
    assert [[logprob, rank] for logprob, rank, _ in scores] == conversation["scores"]
    assert form is TGI or all(top[0][2] == max(entry[2] for entry in top) for *_, top in scores)


def test_a_forced_reply_in_other_tokens_than_ours_is_refused():
    """The server writes any ids that it is made to write; their texts are those of its tokenizer."""
    read = [Token(" Boris", 5, -1.0)]
    with pytest.raises(ServerError):
        reply_tokens(read, 0, Expected((" Mara",), None, (5,)))
    assert reply_tokens(read, 0, Expected((" Boris",), None, (5,))) == [read]


def test_the_tokens_of_a_reply_are_those_that_follow_a_prompt():
    """Some tokenizers begin a text with a space, which no reply begins with."""

    def tokenize(server, connection, head, body):
        text = json.loads(body)["content"]
        pieces = ["\u2581", "\n", "Ma", [114, 97]] if text.startswith("\n") else ["\u2581Mara"]
        return page({"tokens": [{"id": number, "piece": piece} for number, piece in enumerate(pieces)]})

    with serving(tokenize) as server:
        call = tokenizing(nbsal.Endpoint(server.url, "m"), "/tokenize", "Mara")
        assert call.send() == [2, 3]
        with pytest.raises(ServerError):
            tokenizing(nbsal.Endpoint(server.url, "m"), "/tokenize", "Boris").send()


def test_tokens_that_one_side_alone_names_count_as_one_outcome():
    def score(**chances):
        return Score(-1.0, 0, tuple(Likely(name, None, float(np.log(chance))) for name, chance in chances.items()))

    truth = divergence_of(torch.tensor([[0.5, 0.2, 0.3]]).log(), torch.tensor([[0.1, 0.3, 0.6]])).item()
    assert divergence(score(a=0.5, b=0.2, c=0.1), score(a=0.1, b=0.3, d=0.4)) == pytest.approx(truth)
    assert divergence(score(a=0.5), score(a=0.5)) == 0


def tokens(*texts, ids=None):
    return [Token(text, None if ids is None else ids[i], None if i == 0 else -1.0) for i, text in enumerate(texts)]


WORDS = Expected((" Mara", " lives"), "Who lives?")
IDS = Expected(("a", "b"), "xy", (7, 8, 1, 2))
TEXTS = Expected((" Mara", " </s>"), "<s> Who", (1, 5, 6, 2), ("<s>", "</s>"))


@cases(
    "read, expected, sums",
    [
        (tokens("Who", " lives", "?", " Mara", " liv", "es"), WORDS, [-1, -2]),  # words of several tokens
        (tokens("<s>", "Who", "lives", "?", "Mara", "lives"), WORDS, [-1, -1]),  # without white space
        (tokens("", "lives", "?", "Ma", "ra", "lives"), WORDS, [-2, -1]),  # vLLM does not name the first token
        (tokens("Who", " lives", "? Mara", " lives"), WORDS, [-1, -1]),  # a token across the border
        (tokens("Who", " lives? I", " am", " x"), Expected((" I", " am", " x"), "Who lives?"), [-1, -1, -1]),
        (tokens("Who", "[UNK]", "?", " Mara", " lives"), WORDS, [-1, -1]),
        (tokens("Who", "", "?", " Mara", " lives"), WORDS, [-1, -1]),  # an unknown word, as llama-cpp-python writes it
        (tokens("Who", " lives", "?", " Mara", " ", "lives"), WORDS, [-1, -2]),
        (tokens("x", "y", "a", "b", ids=[7, 8, 1, 2]), IDS, [-1, -1]),
        (tokens(" Who", " Mara", ""), TEXTS, [-1, -1]),  # special tokens have no text, the first is left out
        (tokens("", " Who", " M\ufffd", ""), TEXTS, [-1, -1]),
    ],
)
def test_tokens_of_the_reply(read, expected, sums):
    assert [sum(token.logprob for token in piece) for piece in reply_tokens(read, 0, expected)] == sums


LIES = [
    (tokens("Who", " lives", "?", " Mara", " live"), WORDS),
    (tokens("Who", " lives", "?", " Mara", " lives", " here"), WORDS),
    (tokens("Mara", " lives"), Expected(WORDS.pieces, "Where does Ann live, and who lives there?")),
    (tokens("Who", " is", "?", " Mara", " lives"), WORDS),
    (tokens("How", " lives", "?", " Mara", " lives"), Expected(WORDS.pieces, "A long prompt. Who lives?")),
    (tokens("x", "y", "a", "b", ids=[7, 8, 1, 3]), IDS),
    (tokens("y", "a", "b", ids=[8, 1, 2]), IDS),
    (tokens("x", "y", "a", ids=[7, 8, 1]), IDS),
    (tokens("x", "y", "a", "b", "c", ids=[7, 8, 1, 2, 9]), IDS),
    (tokens("z", "x", "y", "a", "b", ids=[0, 7, 8, 1, 2]), IDS),
    (tokens(" Who", " Ann", ""), TEXTS),
    (tokens("", " Who", " Mara", "", ""), TEXTS),
    (tokens("", " What", " Mara", ""), TEXTS),
    ([], WORDS),
    ([Token("Mara", None, None), Token(" lives", None, -1.0)], Expected(WORDS.pieces, "")),  # no log-probability
]


@cases("read, expected", LIES)
def test_tokens_of_another_text_are_refused(read, expected):
    with pytest.raises(ServerError):
        reply_tokens(read, 0, expected)
