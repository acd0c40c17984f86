"""What cannot be explained is refused before anything runs: with the argument that is wrong, and what to do instead."""

from inspect import signature

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.answers import generate
from nbsal.errors import InputError, ModelError, NbsalError, UnknownName
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

CHAT = [{"role": "user", "content": "The film is a joy. The plot is a bore."}]


@pytest.fixture(scope="module")
def subject():
    return writers.load(dtype=torch.float32)


def answer(subject, asked=CHAT, reply=" Ann.", **settings):
    return nbsal.answer(subject, asked, reply, progress=False, **settings)


def content(value):
    return [{"role": "user", "content": value}]


def text_part(value):
    return content([{"type": "text", "text": value}])


REFUSED = [
    ({"asked": CHAT[0]}, "asked"),
    ({"asked": None}, "asked"),
    ({"asked": b"A joy."}, "asked"),
    ({"asked": "  "}, "asked"),
    ({"asked": [{"content": "A joy."}]}, "asked"),
    ({"asked": [{"role": None, "content": "A joy."}]}, "asked"),
    ({"asked": content(None)}, "asked"),
    ({"asked": content(3)}, "asked"),
    ({"asked": content([])}, "asked"),
    ({"asked": content([{"type": "image", "url": "x"}])}, "asked"),
    ({"asked": content([{"type": "text", "text": "A joy."}, {"type": "image"}])}, "asked"),
    ({"asked": text_part(None)}, "asked"),
    ({"asked": text_part("ChatML would print this as Python.")}, "asked"),
    ({"asked": "\ud800"}, "asked"),
    ({"asked": content("\ud800")}, "asked"),
    ({"asked": [*CHAT, {"role": "assistant", "content": "Ann"}], "reply": None}, "asked"),
    ({"template": "{{ raise_exception('System role not supported') }}"}, "asked"),
    ({"template": "{% for %}"}, "asked"),
    ({"template": "{{ messages[0].what.is.this }}"}, "asked"),
    ({"reply": ""}, "reply"),
    ({"reply": "</s>"}, "reply"),
    ({"reply": [2, 0]}, "reply"),
    ({"reply": [400]}, "reply"),
    ({"reply": [-1]}, "reply"),
    ({"reply": [20.5, 30]}, "reply"),
    ({"reply": [[20, 30]]}, "reply"),
    ({"reply": torch.tensor([[20, 30]])}, "reply"),
    ({"reply": ["a", "b"]}, "reply"),
    ({"reply": True}, "reply"),
    ({"reply": "\ud800"}, "reply"),
    ({"reply": " a" * 600}, "asked"),
    ({"asked": " a" * 600, "reply": None}, "asked"),
    ({"asked": "{documents} {documents}", "documents": ["x"]}, "asked"),
    ({"asked": content("{documents} {documents}"), "documents": ["x"]}, "asked"),
    ({"documents": ["a", " "]}, "documents"),
    ({"documents": [3]}, "documents"),
    ({"documents": 3}, "documents"),
    ({"documents": ["x"], "template": "{% if documents %}{{ messages[0].content }}{% endif %}"}, "documents"),
    ({"unit": [(0, 5), (3, 9)]}, "unit"),
    ({"unit": [(0, 500)]}, "unit"),
    ({"unit": [(-1, 3)]}, "unit"),
    ({"unit": [(0,)]}, "unit"),
    ({"unit": None}, "unit"),
    ({"asked": "One unit", "method": "ridge"}, "unit"),
    ({"asked": "One unit", "method": "contextcite"}, "unit"),
    ({"asked": content(""), "method": "ridge"}, "unit"),
    ({"method": []}, "method"),
    ({"number": "odds"}, "number"),
    ({"batch_size": 0}, "batch_size"),
    ({"tempertaure": 1}, "generate"),
    ({"continue_final_message": True}, "generate"),
    ({"add_generation_prompt": False}, "generate"),
    ({"num_return_sequences": 2}, "num_return_sequences"),
]
WRITING = [
    ({"max_new_tokens": 510}, "max_new_tokens"),
    ({"max_new_tokens": 0}, "max_new_tokens"),
    ({"max_new_tokens": None}, "max_new_tokens"),
    ({"max_new_tokens": 1.5}, "max_new_tokens"),
    ({"max_length": 90}, "max_length"),
    ({"return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"output_scores": False}, "output_scores"),
    ({"temperature": 0.0, "do_sample": True}, "generate"),
    ({"num_beams": 0}, "generate"),
    ({"bad_words_ids": 3}, "generate"),
    ({"penalty_alpha": 0.6, "top_k": 4}, "generate"),
    ({"seed": "x"}, "seed"),
]


@cases("settings, argument", REFUSED + [({"reply": None} | s, a) for s, a in WRITING])
def test_what_cannot_be_is_refused(subject, settings, argument):
    with pytest.raises(InputError) as caught:
        answer(subject, **settings)
    assert caught.value.argument == argument and len(str(caught.value)) > 20


@cases("name, meant", [("docs", "documents"), ("document", "documents"), ("temprature", "temperature")])
def test_misspelled_arguments_are_suggested(subject, name, meant):
    with refuses("generate", UnknownName) as caught:
        answer(subject, **{name: ["A joy."]})
    assert caught.value.suggestion == meant and "min_new_tokens" not in str(caught.value)


def test_the_arguments_of_answer_are_all_suggested():
    parameters = signature(nbsal.answer).parameters.values()
    assert {p.name for p in parameters if p.kind != p.VAR_KEYWORD} - {"subject"} == set(generate.ARGUMENTS)


def test_settings_that_stop_are_allowed(subject):
    longer = answer(subject, reply=None, max_new_tokens=12, do_sample=True, temperature=1.5, seed=2)
    letter = next(c for c in longer.text if c.isalpha())
    stopped = answer(
        subject, reply=None, max_new_tokens=12, do_sample=True, temperature=1.5, seed=2, stop_strings=[letter]
    )
    assert longer.text.startswith(stopped.text) and letter in stopped.text and len(stopped.ids) < 12
    assert len(answer(subject, reply=None, max_new_tokens=4, pad_token_id=5).ids) == 4


def test_models_that_cannot_reply_are_named(subject, load, reviews):
    for other in (reviews, load("bert", "span"), load("bert", "masked"), load("bert", "token")):
        with pytest.raises(ModelError) as caught:
            answer(other, "A joy.")
        assert caught.value.part == "task" and "nbsal.Explainer" in str(caught.value)
    with refuses("tokenizer"):
        answer(nbsal.load(subject.model), "A joy.")
    with refuses("template"):
        answer(writers.load(template=None))


BERT = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
XLNET = {"vocab_size": 400, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}


@pytest.mark.parametrize(("kind", "sizes"), [("BertLMHeadModel", BERT), ("XLNetLMHeadModel", XLNET)])
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


@cases(
    "call, argument",
    [
        (lambda a: a.of("Ann"), "span"),
        (lambda a: a.of("Vienna"), "span"),
        (lambda a: a.of(""), "span"),
        (lambda a: a.of(None), "span"),
        (lambda a: a.of(True), "span"),
        (lambda a: a.of([0, 1]), "span"),
        (lambda a: a.of((5, 2)), "span"),
        (lambda a: a.of((0,)), "span"),
        (lambda a: a.rather(a.ids[0], 0), "token"),
        (lambda a: a.rather(9, slice(0, 2)), "at"),
        (lambda a: a.rather(9, 99), "at"),
        (lambda a: a.of(-99), "span"),
        (lambda a: a.matrix("line"), "rows"),
        (lambda a: a.matrix("token", "line"), "unit"),
        (lambda a: a.sources(0), "k"),
        (lambda a: a.sources(1, "line"), "rows"),
        (lambda a: a.lens([99]), "layers"),
        (lambda a: a.lens(k=0), "k"),
        (lambda a: a.speaks(0, 99), "token"),
    ],
)
def test_questions_to_an_answer_are_checked(subject, call, argument):
    with pytest.raises(InputError) as caught:
        call(answer(subject, reply=" Ann wrote it. Ann."))
    assert caught.value.argument == argument


def test_both_places_of_a_text_are_named(subject):
    with refuses("span") as caught:
        answer(subject, reply=" Ann wrote it. Ann.").of("Ann")
    assert "(1, 4)" in str(caught.value) and "(15, 18)" in str(caught.value)


def test_both_lengths_are_named(subject):
    with refuses("asked") as caught:
        answer(subject, reply=" a" * 600)
    assert isinstance(caught.value, NbsalError) and "512" in str(caught.value)
