"""Texts encoded in one call of the tokenizer or alone, and tokens as people read them: without marks, bytes decoded."""

import pytest

import nbsal
from nbsal import corpus
from nbsal.model.text.token_text import possible_tokens, token_text
from nbsal.model.text.tokenize import named_token, token_name
from nbsal.support.errors import InputError
from tests import axioms, zoo
from tests.raising import refuses

TEXTS = [*axioms.TEXTS, "A joy.", "é ½ 日本 \U0001f600 A", "word " * 300, "  two  spaces\n"]
PAIRS = [("Who ran?", text) for text in TEXTS]


@pytest.fixture
def calls(monkeypatch, reviews):
    """The number of texts of every call of the tokenizer."""
    sizes, kind = [], type(reviews.tokenizer)
    call = kind.__call__
    monkeypatch.setattr(kind, "__call__", lambda self, *a, **k: sizes.append(len(a[0])) or call(self, *a, **k))
    return sizes


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("head", ["sequence", "span"])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "gpt2"])
def test_many_rows_equal_single_rows(load, architecture, head, texts):
    if architecture == "gpt2" and head == "span":
        pytest.skip("there is no such model")
    subject = load(architecture, head=head)
    many = subject.encode(texts)
    assert list(many) == [subject.encode(text)[0] for text in texts]
    assert any(row.dropped for row in many) and not all(row.dropped for row in many)


def test_a_question_without_room_for_a_text_is_refused(load):
    subject = load("bert", head="span")
    longest = "a " * (subject.max_length - 4)  # room for one token, beside [CLS] and two [SEP]
    assert len(subject.encode((longest, "warm joy"))[0]) == subject.max_length
    with refuses("text"):
        subject.encode((longest + "a", "warm joy"))


def test_a_text_that_the_tokenizer_refuses_is_named(reviews, monkeypatch):
    kind = type(reviews.tokenizer)
    call = kind.__call__

    def refuse(self, texts, *rest, **settings):
        if "bad" in texts:
            raise ValueError("bad")
        return call(self, texts, *rest, **settings)

    monkeypatch.setattr(kind, "__call__", refuse)
    with refuses("text", InputError) as caught:
        reviews.encode(["A joy.", "bad", "A film."])
    assert caught.value.value == ("bad",)


def test_a_corpus_encodes_a_shard_in_one_call_but_for_rows_with_errors(reviews, calls, tmp_path):
    explain, good = nbsal.Explainer(reviews, "gradcam"), ["A joy.", "A bore.", "A film."]
    stored = corpus.explain(explain, good, tmp_path / "good", progress=False)
    assert 3 in calls and [s.row for s in stored] == list(reviews.encode(good))
    calls.clear()
    frame = corpus.explain(explain, ["A joy.", " ", "A film."], tmp_path / "bad", progress=False).to_frame()
    assert 3 not in calls and frame["error"].notna().tolist() == [False, True, False]


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "pieces"])
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
