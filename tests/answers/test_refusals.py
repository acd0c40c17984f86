"""What cannot be explained is refused before anything runs: with the argument that is wrong, and what to do instead."""

import re
from inspect import signature

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.explain.reply_settings import NAMES
from nbsal.support.errors import InputError, ModelError, UnknownName
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

CHAT = [{"role": "user", "content": "The film is a joy. The plot is a bore."}]


@pytest.fixture(scope="module")
def subject():
    return writers.load(dtype=torch.float32)


def answer(subject, asked=CHAT, reply=" Ann.", **settings):
    return nbsal.answer(subject, asked, reply, progress=False, **settings)


@pytest.fixture(scope="module")
def questioned(subject):
    return answer(subject, reply=" Ann wrote it. Ann.")


def content(value):
    return [{"role": "user", "content": value}]


def text_part(value):
    return content([{"type": "text", "text": value}])


CONTENTS = (
    None,
    [],
    "\ud800",
    [{"type": "image", "url": "x"}],
    [{"type": "text", "text": "A joy."}, {"type": "image"}],
)
CHATS = ([], ["hello"], [{"role": "user"}], [{"content": "A joy."}], text_part(None), text_part("Printed as Python."))
VALUES = {  # by argument
    "asked": [CHAT[0], None, "", b"A joy.", "\ud800", *CHATS, *map(content, CONTENTS)],
    "reply": ["", [], 1.5, "</s>", [2, 0], [400], [20.5, 30], torch.tensor([[20, 30]]), True, "\ud800"],
    "documents": [["a", " "], [3], "one text", [{"title": "x"}]],
    "unit": [[(0, 5), (3, 9)], [(0, 500)], [(-1, 3)], [(0,)], [(3, 3)], [], "lines", 7],
    "method": [[]],
    "number": ["odds"],
    "batch_size": [0],
    "num_return_sequences": [2],
}
TOGETHER = [
    ({"asked": [*CHAT, {"role": "assistant", "content": "Ann"}], "reply": None}, "asked"),
    ({"template": "{{ raise_exception('System role not supported') }}"}, "asked"),
    ({"template": "{% for %}"}, "asked"),
    ({"template": "{{ messages[0].what.is.this }}"}, "asked"),
    ({"reply": " a" * 600}, "asked"),
    ({"asked": " a" * 600, "reply": None}, "asked"),
    ({"asked": "{documents} {documents}", "documents": ["x"]}, "asked"),
    ({"asked": content("{documents} {documents}"), "documents": ["x"]}, "asked"),
    ({"documents": ["x"], "template": "{% if documents %}{{ messages[0].content }}{% endif %}"}, "documents"),
    ({"asked": "One unit", "method": "ridge"}, "unit"),
    ({"asked": content(""), "method": "ridge"}, "unit"),
    ({"tempertaure": 1}, "generate"),
    ({"continue_final_message": True}, "generate"),
]
WRITING = [{"temperature": 0.0, "do_sample": True}, {"num_beams": 0}, {"bad_words_ids": 3}]
WRITING = [(settings, "generate") for settings in (*WRITING, {"penalty_alpha": 0.6, "top_k": 4})]
WRITING += [({"max_new_tokens": count}, "max_new_tokens") for count in (510, 0, None)]
WRITING += [({"seed": seed}, "seed") for seed in ("x", -1)]
WRITING += [({"max_length": 90}, "max_length"), ({"return_dict_in_generate": False}, "return_dict_in_generate")]
REFUSED = [({name: value}, name) for name, values in VALUES.items() for value in values] + TOGETHER
REFUSED += [({"reply": None} | settings, argument) for settings, argument in WRITING]


@cases("settings, argument", REFUSED)
def test_what_cannot_be_is_refused(subject, settings, argument):
    with refuses(argument):
        answer(subject, **settings)


@cases("name, meant", [("docs", "documents"), ("document", "documents"), ("temprature", "temperature")])
def test_misspelled_arguments_are_suggested(subject, name, meant):
    with refuses("generate", UnknownName) as caught:
        answer(subject, **{name: ["A joy."]})
    assert caught.value.suggestion == meant


def test_an_argument_that_is_unknown_is_named_among_known_ones(subject):
    with refuses("cancl", UnknownName) as caught:
        nbsal.flip(nbsal.Explainer(subject, "random"), "A joy.", most=1, cancl=None)
    assert "cancel" in caught.value.valid


def test_settings_of_methods_are_told_where_they_belong(subject):
    with refuses("generate", UnknownName) as caught:
        answer(subject, way="text")
    method = re.search(r"method=(nbsal\.\w+\(.*\))", str(caught.value))[1]
    assert answer(subject, method=eval(method)).provenance["parameters"]["way"] == "text"


def test_the_arguments_of_answer_are_all_suggested():
    parameters = signature(nbsal.answer).parameters.values()
    assert {p.name for p in parameters if p.kind != p.VAR_KEYWORD} - {"subject"} == {"asked", "reply", "method", *NAMES}


def test_settings_that_stop_are_allowed(subject):
    settings = {"reply": None, "max_new_tokens": 12, "do_sample": True, "temperature": 1.5, "seed": 2}
    longer = answer(subject, **settings)
    letter = next(c for c in longer.text if c.isalpha())
    stopped = answer(subject, stop_strings=[letter], **settings)
    assert longer.text.startswith(stopped.text) and letter in stopped.text and len(stopped.ids) < 12
    assert len(answer(subject, reply=None, max_new_tokens=4, pad_token_id=5).ids) == 4


def test_models_that_cannot_reply_are_named(subject, load, small):
    for other in (small, load("bert", "span"), load("bert", "masked"), load("bert", "token")):
        with pytest.raises(ModelError) as caught:
            answer(other, "A joy.")
        assert caught.value.part == "task"
    with refuses("tokenizer"):
        answer(nbsal.load(subject.model), "A joy.")
    with refuses("template"):
        answer(writers.load(template=None))


BERT = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
XLNET = {"vocab_size": 400, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}


@cases("kind, sizes", [("BertLMHeadModel", BERT), ("XLNetLMHeadModel", XLNET)])
def test_models_whose_tokens_read_what_follows_are_named(kind, sizes):
    model_class = getattr(transformers, kind)
    model = model_class(model_class.config_class(**sizes)).eval()
    with pytest.raises(ModelError) as caught:
        answer(nbsal.load(model, tokenizer=writers.tokenizer()), "A joy.")
    assert caught.value.part == "attention mask"


EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}


def test_experts_in_float64_are_named():
    """Grouped products have no float64, wherever they are run first."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.MixtralConfig(**writers.SIZES | EXPERTS)).eval()
    subject = nbsal.load(model.double(), tokenizer=writers.tokenizer())
    for settings in ({}, {"reply": None, "max_new_tokens": 2}):
        for method in ("gae", "gradxact", "occlusion"):
            with pytest.raises(ModelError) as caught:
                answer(subject, method=method, **settings)
            assert caught.value.part == "dtype"
    single = nbsal.load(model.float(), tokenizer=writers.tokenizer())
    assert np.isfinite(answer(single, method="gae").scores).all()


SPANS = ("Ann", "Vienna", "", None, True, [0, 1], (5, 2), (90, 95), (0,), 400, -99, 1.5, slice(5, 5))


@cases(
    "argument, call",
    [("span", lambda answer, span=span: answer.of(span)) for span in SPANS]
    + [
        ("token", lambda answer: answer.rather(answer.ids[0], 0)),
        ("token", lambda answer: answer.rather("several tokens at once", 0)),
        ("at", lambda answer: answer.rather(9, slice(0, 2))),
        ("at", lambda answer: answer.rather(9, 99)),
        ("rows", lambda answer: answer.matrix("line")),
        ("unit", lambda answer: answer.matrix("token", "line")),
        ("k", lambda answer: answer.sources(0)),
        ("rows", lambda answer: answer.sources(1, "line")),
        ("layers", lambda answer: answer.lens([99])),
        ("k", lambda answer: answer.lens(k=0)),
        ("token", lambda answer: answer.speaks(0, 99)),
    ],
)
def test_questions_to_an_answer_are_checked(questioned, argument, call):
    with refuses(argument):
        call(questioned)


@cases("count, most", [(40, 20), (25, 60)])
def test_too_many_documents_are_refused_with_those_that_fit(subject, count, most):
    texts = [f"{number}. The film is a warm joy. The plot is a bore." for number in range(count)]
    settings = {"reply": None, "max_new_tokens": most, "check": False, "method": "random"}
    for documents, fits in ((texts, True), (["".join(texts)], False)):
        with pytest.raises(InputError) as caught:
            answer(subject, documents=documents, **settings)
        advice = re.search(r"documents\[:(\d+)\]", str(caught.value))
        assert bool(advice) == fits
        if fits:
            assert answer(subject, documents=documents[: int(advice[1])], **settings).scores.any()
            with pytest.raises(InputError):
                answer(subject, documents=documents[: int(advice[1]) + 1], **settings)


def test_a_template_that_renders_nothing_is_refused(subject):
    for template in ("", "{# a comment #}", " \n"):
        with refuses("asked"):
            answer(subject, template=template)


@cases("reply", [None, "y"])
def test_a_view_of_a_question_needs_a_model(reply):
    with refuses("source"):
        nbsal.widgets.Answers(asked="x", reply=reply)
