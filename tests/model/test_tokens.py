"""Encoded: offsets slice the text as typed, words are words, what cannot be explained says so."""

import copy
import unicodedata

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import nbsal
from nbsal.errors import InputError, NbsalError
from nbsal.methods import catalogue
from nbsal.model import tokenize, tokens
from tests import zoo

UGLY = [
    "a\x00b",
    "e\u0301te\u0301 no\u0308el",
    "👩‍👩‍👧‍👦 family 🇺🇳 👍🏽",
    "שלום עולם مرحبا بالعالم",
    "你好，世界 film",
    "हिन्दी में ข้อความ",
    "A [SEP] B",
    "ﬁne ½ Ⅷ ＡＢＣ",
    "\u202eevil\u202c \u200b zero",
    "x" * 10_000,
    "so good " * 1_250,
]
HOPELESS = ["", "   \n\t ", "[CLS][SEP]", "[MASK]", "\ud83d"]
KINDS = ("bert", "roberta", "xlm-roberta", "gpt2")


def holds(subject, text):
    """Offsets lie in the text and in order, together they cover it, and every token belongs to one word."""
    row = subject.encode(text)[0]
    covered, at = set(), 0
    for i in row.content:
        start, end = row.offsets[i]
        assert 0 <= start <= end <= len(text)
        assert start >= at or start == row.offsets[i - 1][0]
        at = start
        piece = text[start:end]
        assert piece == piece.strip() or not piece.strip()
        covered.update(range(start, end))
    typed = {i for special, span in zip(row.special, row.offsets, strict=True) if special for i in range(*span)}
    if not row.dropped and not typed:
        seen = {i for i, c in enumerate(text) if not c.isspace() and unicodedata.category(c)[0] not in "CM"}
        assert seen <= covered
    for word in row.words:
        assert text[word.start : word.end] == word.text and word.tokens
    assert sorted(i for word in row.words for i in word.tokens) == list(row.content)
    assert len(row) <= subject.max_length


@pytest.mark.parametrize("architecture", KINDS)
@pytest.mark.parametrize("text", UGLY, ids=range(len(UGLY)))
def test_ugly_texts(load, architecture, text):
    holds(load(architecture), text)


@pytest.mark.parametrize("architecture", KINDS)
@pytest.mark.parametrize("text", HOPELESS, ids=range(len(HOPELESS)))
def test_hopeless_texts_are_a_sentence(load, architecture, text):
    with pytest.raises(InputError):
        load(architecture).encode(text)


@pytest.mark.parametrize("broken", [lambda text, start, end: (0, 0), lambda text, start, end: (start + 1, end + 1)])
def test_the_offsets_axiom_catches(load, monkeypatch, broken):
    monkeypatch.setattr(tokenize, "strip_span", broken)
    with pytest.raises(AssertionError):
        holds(load("bert"), "The film is a joy")


@pytest.mark.parametrize("architecture", KINDS)
def test_any_unicode(load, architecture):
    subject = load(architecture)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.text(max_size=80))
    @example("ab\u0300c")
    def check(text):
        try:
            subject.encode(text)
        except InputError as error:
            # Blank, or nothing but characters that the tokenizer drops.
            assert "empty or blank" in str(error) or "only special tokens" in str(error)
            plain = [c for c in text if not c.isspace() and unicodedata.category(c)[0] not in "CM"]
            assert not plain or "[" in text
        else:
            holds(subject, text)

    check()


@pytest.mark.parametrize("text", ["a\x00b", "👍🏽 good", "你好 world", "so good " * 900])
def test_ugly_texts_are_explained_to_the_last_picture(load, text):
    for architecture in ("bert", "roberta"):
        found = nbsal.Explainer(load(architecture), "decoded-gradcam")(text)
        assert found.to_html() and found.to_terminal() and len(found.to_frame()) == len(found.tokens)
        assert "".join(s.text for s in found.scored_spans()[0]) == text


def test_wordpiece_tokens_stand_where_they_point(load):
    row = load("bert").encode("Café noir, THE film")[0]
    for i in row.content:
        if row.tokens[i] not in ("[UNK]",):
            piece = "Café noir, THE film"[slice(*row.offsets[i])]
            assert row.tokens[i].removeprefix("##") == piece.lower().replace("é", "e")


def test_byte_level_offsets_leave_their_leading_space(load):
    text = "The film is a joy"
    row = load("gpt2").encode(text)[0]
    assert any(token.startswith("Ġ") for token in row.tokens)
    pieces = [text[slice(*row.offsets[i])] for i in row.content]
    assert all(piece == piece.strip() or not piece.strip() for piece in pieces) and "is" in pieces


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's a joy, isn’t it?", ["It's", "a", "joy", ",", "isn’t", "it", "?"]),
        ("e\u0301te\u0301 naïve", ["e\u0301te\u0301", "naïve"]),
        ("你好 world", ["你", "好", "world"]),
        ("👍🏽!", ["👍🏽", "!"]),
        ("3.5 stars", ["3", ".", "5", "stars"]),
    ],
)
def test_words(text, words):
    assert [m.group() for m in tokens._WORD.finditer(text)] == words


def test_words_of_a_text_carry_all_its_tokens(load):
    for architecture in KINDS:
        row = load(architecture).encode("The unquestionably funny film, a joy!")[0]
        assert [word.text for word in row.words] == ["The", "unquestionably", "funny", "film", ",", "a", "joy", "!"]
        assert sorted(i for word in row.words for i in word.tokens) == list(row.content)


def test_pairs_keep_their_members_apart(load):
    row = load("bert").encode(("A joy", "The film"))[0]
    found = {(row.segments[i], row.parts[row.segments[i]][slice(*row.offsets[i])]) for i in row.content}
    assert {(0, "A"), (1, "The")} <= found
    assert [word.segment for word in row.words] == [0, 0, 1, 1]
    assert row.types[1] == 0 and row.types[-1] == 1


def test_too_long_a_text_is_cut_and_says_so(load):
    row = load("bert").encode("joy " * 500)[0]
    assert len(row) == 64 and row.dropped > 0
    question = load("bert", "span").encode(("Who wrote the book?", "joy " * 500))[0]
    kept = [i for i in question.content if question.segments[i] == 0]
    assert question.parts[0][question.offsets[kept[0]][0] : question.offsets[kept[-1]][1]] == "Who wrote the book?"


def test_a_list_is_indexed_first(load):
    encoded = load("bert").encode(["A joy", "The film is a bore"])
    assert len(encoded) == 2 and len(encoded[:1]) == 1
    assert len({len(ids) for ids in encoded.input_ids}) == 1
    assert encoded.attention_mask[0][-1] == 0
    with pytest.raises(InputError, match=r"encoded\[0\].tokens"):
        len(encoded.tokens)
    assert not hasattr(encoded[:1], "token") and copy.copy(encoded).rows == encoded.rows


BAD = [
    ("", "empty or blank"),
    ("  \n", "empty or blank"),
    (("a", " "), "empty or blank"),
    ([], "list is empty"),
    (["a", ("b", "c")], "mixes"),
    (5, "must be a str or a pair"),
    (("a", "b", "c"), "must be a str or a pair"),
    (("a",), "must be a str or a pair"),
    (["good", 7], "Text 1"),
    ("\ud800 lone", "surrogate"),
    ("[SEP]", "only special tokens"),
    ("[CLS] [PAD]", "only special tokens"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_bad_texts_say_what_is_wrong(load, text, sentence):
    with pytest.raises(InputError, match=sentence):
        load("bert").encode(text)


BAD_IDS = [
    ([], "empty"),
    ([[2, 5], [3]], "different lengths"),
    ([2, 10**7, 3], "outside 0 to 128"),
    (5, "one sequence"),
    ([True, False], "whole numbers"),
    ([2.5, 3.0], "whole numbers"),
    ([2, 3], "only special"),
    (list(range(5, 100)), "64 at most"),
]


@pytest.mark.parametrize(("ids", "sentence"), BAD_IDS)
def test_bad_ids_say_what_is_wrong(load, ids, sentence):
    with pytest.raises(InputError, match=sentence):
        load("bert").encode_ids(ids)


def test_a_subject_without_tokenizer_explains_ids_only():
    subject = nbsal.load(zoo.model("bert", "sequence"))
    assert nbsal.Explainer(subject, "gradcam").ids([2, 9, 10, 3]).tokens == ("#2", "#9", "#10", "#3")
    with pytest.raises(NbsalError, match="tokenizer"):
        subject.encode("A joy.")
    with pytest.raises(InputError, match="ByT5Tokenizer gives no character offsets"):
        nbsal.Subject(subject.model, transformers.ByT5Tokenizer()).encode("A joy.")


def test_ids_of_any_make_and_their_segments(load):
    subject = load("bert", "span")
    pair = subject.encode(("Who wrote it?", "The company wrote it."))[0]
    for ids in (list(pair.ids), np.array(pair.ids), [np.int64(i) for i in pair.ids], torch.tensor([pair.ids])):
        row = subject.encode_ids(ids, token_type_ids=pair.types)[0]
        assert row.parts == ("who wrote it ?", "the company wrote it .") or len(row.parts) == 2
        assert row.segments == pair.types
    with pytest.raises(InputError, match="must have the same shape"):
        subject.encode_ids(pair.ids, attention_mask=[1])
    with pytest.raises(InputError, match="token_type_ids holds a number outside 0 to 1"):
        subject.encode_ids(pair.ids, token_type_ids=[7] * len(pair.ids))


@pytest.mark.parametrize("name", [name for name in catalogue.names() if not name.startswith("mask-lrp")])
def test_padding_that_comes_with_ids_is_invisible(load, name):
    """Nothing of it is drawn, averaged over or scored: the scores are those of the same ids without it."""
    explain = nbsal.Explainer(load("bert"), name)
    ids = list(explain.subject.encode("The film is a joy.").ids)
    plain, padded = explain.ids(ids), explain.ids([*ids, 0, 0, 0], attention_mask=[1] * len(ids) + [0] * 3)
    assert padded.tokens == plain.tokens
    assert np.array_equal(padded.scores, plain.scores, equal_nan=True)  # as published, 0/0 and all


def test_hidden_tokens_that_are_no_padding_stay(load):
    ids = [2, 9, 10, 3]
    assert load("bert").encode_ids(ids, attention_mask=[1, 1, 1, 0]).ids == tuple(ids)
    assert load("bert").encode_ids([*ids, 0]).ids == (*ids, 0)


def test_hidden_ends_of_ids_are_not_the_last_position(load):
    explain = nbsal.Explainer(load("gpt2", "causal"), "gradxact")
    plain = explain("The film is a joy")
    n = len(plain.tokens)
    padded = explain.ids([*plain.row.ids, *[9] * 5], attention_mask=[1] * n + [0] * 5)
    assert padded.prediction == plain.prediction
    assert abs(padded.scores[:n] - plain.scores).max() < 1e-10 * abs(plain.scores).max()
    encoded = load("gpt2").encode_ids([*plain.row.ids, *[9] * 5], attention_mask=[1] * n + [0] * 5)
    assert load("gpt2").pooled_positions(encoded) == [n - 1]


def test_a_question_that_leaves_no_room_for_its_context(load):
    with pytest.raises(InputError, match="cannot read this text"):
        load("bert", "span").encode(("who wrote " * 80, "a book"))
