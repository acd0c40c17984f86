"""Tokenizers that only encode to ids: their offsets are found by the bytes of their tokens."""

import copy
import os
from importlib.util import find_spec

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nbsal.model.text.byte_tokenizer import ByteTokenizer

START, END, SIZE = 300, 301, 302
REQUIRED = "real" in os.environ.get("NBSAL_REQUIRE", "").split(",")


class Bytes:
    """Every byte is a token, and so are the pairs that a capital letter begins; texts may begin and end with others."""

    def __init__(self, before=0, after=0):
        self.ends = [START] * before, [END] * after

    def encode(self, text):
        ids, data = [], list(text.encode())
        while data:
            take = 2 if len(data) > 1 and 65 <= data[0] < 91 and data[1] == 0x20 else 1
            ids.append(data[0] if take == 1 else 256 + data[0] - 65)
            del data[:take]
        return [*self.ends[0], *ids, *self.ends[1]]

    def decode_single_token_bytes(self, index):
        if index in (START, END):
            return b"<end>"
        if index >= 256 + 26:
            raise KeyError(index)
        return bytes([index]) if index < 256 else bytes([index - 256 + 65, 0x20])


def check_offsets(tokenizer, text):
    """Offsets slice the text: to the token where its bytes are whole characters, else to all that it has a byte of."""
    encoding = tokenizer([text], return_offsets_mapping=True)
    position, data = 0, text.encode()
    rows = zip(encoding["input_ids"][0], encoding["offset_mapping"][0], encoding["special_tokens_mask"][0], strict=True)
    for index, (start, end), special in rows:
        if special:
            continue
        piece = tokenizer.encoding.decode_single_token_bytes(index)
        before = len(text[:start].encode())
        assert before <= position and position + len(piece) <= len(text[:end].encode())
        assert data[position : position + len(piece)] == piece
        touched = {len(text.encode()[:at].decode(errors="ignore")) for at in range(position, position + len(piece))}
        assert set(range(start, end)) == touched
        position += len(piece)
    assert position == len(data)


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(0, 2), st.integers(0, 2))
@example("né A 日本😀", 1, 1)
@example("<end>", 1, 0)
def test_offsets_slice_any_text(text, before, after):
    tokenizer = ByteTokenizer(Bytes(before, after))
    check_offsets(tokenizer, text)
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids[before : len(ids) - after]) == text


@pytest.mark.skipif(not REQUIRED and find_spec("tiktoken") is None, reason="needs the extra real")
@settings(max_examples=60, deadline=None)
@given(TEXTS)
@example("the théâtre 日本😀")
def test_offsets_of_tiktoken(text):
    import tiktoken

    merges = [b"th", b"the", b" th", "é".encode(), "日".encode() + "本".encode()[:1]]
    ranks = {bytes([byte]): byte for byte in range(256)} | {piece: 256 + rank for rank, piece in enumerate(merges)}
    pattern = r"\p{L}+| ?[^\s\p{L}]+|\s+"
    check_offsets(
        ByteTokenizer(tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})), text
    )


def test_long_texts_lose_their_end_and_pairs_are_refused():
    tokenizer = ByteTokenizer(Bytes(1, 1))
    whole, short = tokenizer("abcdef")["input_ids"], tokenizer("abcdef", max_length=5)["input_ids"]
    assert short == [*whole[:4], whole[-1]]
    with pytest.raises(ValueError, match="pairs"):
        tokenizer(["a"], ["b"])


def test_names_are_those_of_byte_level_tokens():
    tokenizer = ByteTokenizer(Bytes())
    assert tokenizer.tokenize("A b") == ["AĠ", "b"] and len(tokenizer) == 282
    assert tokenizer.convert_ids_to_tokens(9999) is None
    assert copy.deepcopy(tokenizer).get_vocab() == tokenizer.get_vocab()
