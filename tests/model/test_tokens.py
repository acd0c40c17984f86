"""Encoding: offsets point into the original text, tokens form words, and invalid input is refused."""

import copy
import unicodedata

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import nbsal
from nbsal.methods import catalogue
from nbsal.support.errors import InputError
from tests import zoo
from tests.cases import cases
from tests.raising import refuses

ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "gpt2")


def check_row(subject, text):
    """Offsets are inside the text, in order, and cover it; every token belongs to exactly one word."""
    row = subject.encode(text)[0]
    covered, previous = set(), 0
    for i in row.content:
        start, end = row.offsets[i]
        assert 0 <= start <= end <= len(text)
        assert start >= previous or start == row.offsets[i - 1][0]
        previous = start
        piece = text[start:end]
        assert piece == piece.strip() or not piece.strip()
        covered.update(range(start, end))
    typed = {i for special, span in zip(row.special, row.offsets, strict=True) if special for i in range(*span)}
    if not row.dropped and not typed:
        visible = {i for i, c in enumerate(text) if not c.isspace() and unicodedata.category(c)[0] not in "CM"}
        assert visible <= covered
    for word in row.words:
        assert text[word.start : word.end] == word.text and word.tokens
    assert sorted(i for word in row.words for i in word.tokens) == list(row.content)
    assert len(row) <= subject.max_length


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_unicode(load, architecture):
    subject = load(architecture)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.text(max_size=80))
    @example("ab\u0300c")
    def check(text):
        try:
            subject.encode(text)
        except InputError as error:
            # Blank, or only characters that the tokenizer drops.
            assert error.argument == "text"
            plain = [c for c in text if not c.isspace() and unicodedata.category(c)[0] not in "CM"]
            assert not plain or "[" in text
        else:
            check_row(subject, text)

    check()


@pytest.mark.parametrize("text", ["a\x00b", "👍🏽 good", "你好 world", "so good " * 900])
def test_unusual_texts_can_be_explained_and_displayed(load, text):
    for architecture in ("bert", "roberta"):
        saliency = nbsal.Explainer(load(architecture), "decoded-gradcam")(text)
        assert saliency.to_html() and saliency.to_terminal() and len(saliency.to_frame()) == len(saliency.tokens)
        assert "".join(s.text for s in saliency.scored_spans()[0]) == text


def test_texts_that_are_too_long_are_truncated(load):
    row = load("bert").encode("joy " * 500)[0]
    assert len(row) == 64 and row.dropped > 0
    question = load("bert", "span").encode(("Who wrote the book?", "joy " * 500))[0]
    first_text = [i for i in question.content if question.segments[i] == 0]
    start, end = question.offsets[first_text[0]][0], question.offsets[first_text[-1]][1]
    assert question.parts[0][start:end] == "Who wrote the book?"


def test_a_batch_of_several_texts_must_be_indexed(load):
    encoded = load("bert").encode(["A joy", "The film is a bore"])
    assert len(encoded) == 2 and len(encoded[:1]) == 1
    assert len({len(ids) for ids in encoded.input_ids}) == 1
    assert encoded.attention_mask[0][-1] == 0
    with refuses("encoded"):
        len(encoded.tokens)
    assert not hasattr(encoded[:1], "token") and copy.copy(encoded).rows == encoded.rows


INVALID_TEXTS = [
    ("", "text"),
    ("  \n", "text"),
    (("a", " "), "text"),
    ([], "texts"),
    (["a", ("b", "c")], "texts"),
    (5, "text"),
    (("a", "b", "c"), "text"),
    (["good", 7], "text"),
    ("\ud800 lone", "text"),
    ("[SEP]", "text"),
]
INVALID_IDS = [
    ([], "input_ids"),
    ([[2, 5], [3]], "input_ids"),
    ([2, 10**7, 3], "input_ids"),
    (5, "input_ids"),
    ([True, False], "input_ids"),
    ([2, 3], "text"),
    (list(range(5, 100)), "input_ids"),
]


@cases("text, argument", INVALID_TEXTS)
def test_invalid_texts_are_refused(load, text, argument):
    with refuses(argument):
        load("bert").encode(text)


@cases("ids, argument", INVALID_IDS)
def test_invalid_ids_are_refused(load, ids, argument):
    with refuses(argument):
        load("bert").encode_ids(ids)


def test_a_subject_without_tokenizer_explains_only_ids():
    subject = nbsal.load(zoo.model("bert", "sequence"))
    assert nbsal.Explainer(subject, "gradcam").ids([2, 9, 10, 3]).tokens == ("#2", "#9", "#10", "#3")
    with refuses("tokenizer"):
        subject.encode("A joy.")
    with refuses("tokenizer"):
        nbsal.Subject(subject.model, transformers.ByT5Tokenizer()).encode("A joy.")


def test_ids_of_every_type_and_their_segments(load):
    subject = load("bert", "span")
    pair = subject.encode(("Who wrote it?", "The company wrote it."))[0]
    for ids in (list(pair.ids), np.array(pair.ids), [np.int64(i) for i in pair.ids], torch.tensor([pair.ids])):
        row = subject.encode_ids(ids, token_type_ids=pair.types)[0]
        assert row.parts == ("[CLS] who wrote it ? [SEP]", "the company wrote it . [SEP]")
        assert row.offsets[:4] == ((0, 5), (6, 7), (7, 8), (8, 9)), "[CLS], w, ##h and ##o"
        assert row.segments == pair.types
    with refuses("attention_mask"):
        subject.encode_ids(pair.ids, attention_mask=[1])
    with refuses("token_type_ids"):
        subject.encode_ids(pair.ids, token_type_ids=[7] * len(pair.ids))


@pytest.mark.some(5)
@pytest.mark.parametrize("name", [name for name in catalogue.names() if not name.startswith("mask-lrp")])
def test_padding_in_ids_has_no_effect(load, name):
    """It is not sampled, averaged over or scored: the scores are those of the same ids without padding."""
    explain = nbsal.Explainer(load("bert"), name)
    ids = list(explain.subject.encode("The film is a joy.").ids)
    plain, padded = explain.ids(ids), explain.ids([*ids, 0, 0, 0], attention_mask=[1] * len(ids) + [0] * 3)
    assert padded.tokens == plain.tokens
    assert np.array_equal(padded.scores, plain.scores, equal_nan=True)  # some published variants give 0/0


def test_masked_tokens_at_the_end_are_not_the_last_position(load):
    explain = nbsal.Explainer(load("gpt2", "causal"), "gradxact")
    plain = explain("The film is a joy")
    n = len(plain.tokens)
    padded = explain.ids([*plain.row.ids, *[9] * 5], attention_mask=[1] * n + [0] * 5)
    assert padded.prediction == plain.prediction
    assert abs(padded.scores[:n] - plain.scores).max() < 1e-10 * abs(plain.scores).max()
    encoded = load("gpt2").encode_ids([*plain.row.ids, *[9] * 5], attention_mask=[1] * n + [0] * 5)
    assert load("gpt2").pooled_positions(encoded) == [n - 1]
