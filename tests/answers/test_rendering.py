"""Chat templates that do or write too much end in a sentence, and those that people use are as before."""

import sys
import time

import pytest

import nbsal
from nbsal.explain.prompt import chat
from tests.cases import cases
from tests.raising import refuses

ASKED = [{"role": "user", "content": "Where does Mara live? Mara lives in Oslo."}]
LOOPS = "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}"
ENDLESS = [
    *("{{ 'x' * 10**8 }}", "{{ 'x' * 100000000 }}", "{{ 'x' * 99999 * 9999 }}", "{{ 10 ** 10 ** 8 }}", LOOPS, "{# #}"),
    "{% set n = namespace(x='x') %}{% for i in range(24) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
]


@cases("template", ENDLESS)
def test_a_template_without_end_is_refused(template):
    before, start = sys.gettrace(), time.monotonic()
    with refuses("asked"):
        nbsal.answer(nbsal.load("demo/notes"), ASKED, "In Oslo", template=template, progress=False)
    assert time.monotonic() - start < 30 and sys.gettrace() is before


def test_others_are_rendered_as_the_tokenizer_does():
    tokenizer = nbsal.load("demo/notes").tokenizer
    template = "{% set line = '-' * 20 %}{% for m in messages %}{{ m.role }}{{ line }}{{ m.content }}{% endfor %}"
    for settings in ({}, {"chat_template": template}):
        text = tokenizer.apply_chat_template(ASKED, tokenize=False, **settings)
        assert chat.render(tokenizer, ASKED, **settings) == text and "Mara" in text
    long = [{"role": "user", "content": "x" * (chat.SIZE + 1)}]
    assert long[0]["content"] in chat.render(tokenizer, long)


def test_a_template_that_was_refused_is_refused_again():
    tokenizer = nbsal.load("demo/notes").tokenizer
    for _ in range(2):
        with pytest.raises(chat.TooLarge):
            chat.render(tokenizer, ASKED, chat_template="{{ 'x' * 10**8 }}")
