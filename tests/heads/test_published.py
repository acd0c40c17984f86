"""The published head study: how it pairs words, compares them by text and counts offsets."""

import numpy as np
import pytest

import nbsal
from nbsal.heads import Parse, published, study
from nbsal.heads.parses import Link
from nbsal.support.errors import UnknownName
from tests.raising import refuses

WORDS = ["Good", "food", "makes", "dogs", "jump", ",", "a", "food", "dance"]
HEADS = [1, 2, -1, 4, 2, 2, 8, 8, 4]
RELATIONS = ["amod", "nsubj", "root", "nsubj", "ccomp", "punct", "det", "compound", "obj"]


@pytest.fixture(scope="module")
def parse():
    return Parse.from_lists(WORDS, HEADS, RELATIONS)


def test_words_are_paired_in_order_and_compared_by_text(reviews, parse):
    row = reviews.encode(parse.text)[0]
    assert row.tokens == ("[CLS]", "good", "food", "makes", "dogs", "jump", ",", "a", "food", "dance", "[SEP]")
    links = list(published.links(reviews, row, parse))
    assert links == [
        Link("amod", 1, (2, 8), 1),  # "food" occurs twice: either is a hit
        Link("nsubj", 2, (3,), 1),
        Link("nsubj", 4, (5,), 1),
        Link("ccomp", 5, (3,), -2),
        Link("compound", 8, (9,), 1),
        Link("obj", 9, (5,), -4),
    ]


def test_word_pieces_are_joined(reviews):
    parse = Parse.from_lists(
        ["Heartwarmingly", "acted", "films", "win"], [1, 2, 3, -1], ["advmod", "amod", "nsubj", "x"]
    )
    row = reviews.encode(parse.text)[0]
    assert any(token.startswith("##") for token in row.tokens)
    acted = next(link for link in published.links(reviews, row, parse) if link.relation == "amod")
    assert row.tokens[acted.origin] == "acted"


def test_gpt2_words_begin_with_a_space_or_a_capital(load):
    subject = load("gpt2")
    parse = Parse.from_lists(
        ["The", "film", "is", "a", "joy"], [1, 4, 4, 4, -1], ["det", "nsubj", "cop", "det", "root"]
    )
    row = subject.encode(parse.text)[0]
    words = [word.text for word in published._words_by_space(row)]
    assert [word for word in words if word] == ["The", "film", "is", "a", "joy"]
    nsubj = next(link for link in published.links(subject, row, parse) if link.relation == "nsubj")
    assert "".join(row.tokens[i] for i in nsubj.goal) == "Ġjoy"


def test_separators_are_masked_and_every_row_counts(reviews, parse):
    counts = study(reviews, [parse], variant="published", progress=False)
    plain = study(reviews, [parse], progress=False)
    assert counts.rows == 11 and plain.rows == 9
    masked = published.without_separators(reviews, reviews.encode(parse.text)[0])
    assert masked.mask == (1,) * 10 + (0,)
    attended = nbsal.trace.record(reviews, nbsal.Encoded([masked], 0), needs={"attention"}).attention
    assert all(not maps[..., -1].any() for maps in attended.values())
    largest = np.stack([attended[block][0] for block in range(reviews.depth)]).argmax(-1)
    on_itself = largest == np.arange(11)
    assert np.array_equal(counts.places[0], on_itself.sum(-1))  # the attending position itself counts
    assert counts.cases == {"nsubj": 2, "obj": 1, "amod": 1, "advmod": 0}
    expected = np.isin(largest[..., 1], (2, 8))
    assert np.array_equal(counts.hits["amod"], expected)


def test_unknown_variants_are_refused(reviews, parse):
    with refuses("variant", UnknownName):
        study(reviews, [parse], variant="original", progress=False)
