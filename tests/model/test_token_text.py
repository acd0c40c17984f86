"""Tokens as people read them: no marks of tokenizers, bytes decoded, and every name finds its token again."""

import pytest

from nbsal.model.text.token_text import possible_tokens, token_text
from nbsal.model.text.tokenize import named_token, token_name
from tests import zoo

KINDS = pytest.mark.parametrize("kind", ["wordpiece", "bytes", "pieces"])


@KINDS
def test_every_token_of_a_vocabulary_has_a_name_of_its_own(kind):
    tokenizer = zoo.tokenizer(kind)
    names = [token_name(tokenizer, index) for index in range(len(tokenizer))]
    assert [named_token(tokenizer, name) for name in names] == list(range(len(tokenizer)))
    assert not [name for name in names if "Ġ" in name or "▁" in name or "##" in name]


def test_bytes_are_decoded():
    for text in ["film", "café", "日本", "\U0001f600", "Łódź"]:
        marked, plain, _ = possible_tokens(text, byte_level=True)
        assert token_text(marked, byte_level=True) == token_text(plain, byte_level=True) == text
    cut = possible_tokens("日", byte_level=True)[1]
    assert token_text(cut[1:], byte_level=True) == "⟨0x97⟩⟨0xA5⟩"
    assert token_text("Łódź") == "Łódź", "not every tokenizer writes bytes as letters"
    assert [token_text(token, byte_level=True) for token in ("Ġ", "Ċ")] == ["␣", "⏎"]
    assert token_text("<0x0A>") == "⟨0x0A⟩"
