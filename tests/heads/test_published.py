"""The published head study: its pairing, its comparison by text, and its counting of places."""

import numpy as np
import pytest

import nbsal
from nbsal.errors import UnknownName
from nbsal.heads import Parse, published, study
from nbsal.heads.parses import Link

WORDS = ["Good", "food", "makes", "dogs", "jump", ",", "a", "food", "dance"]
HEADS = [1, 2, -1, 4, 2, 2, 8, 8, 4]
RELATIONS = ["amod", "nsubj", "root", "nsubj", "ccomp", "punct", "det", "compound", "obj"]


@pytest.fixture(scope="module")
def parse():
    return Parse.from_lists(WORDS, HEADS, RELATIONS)


def test_words_are_paired_in_order_and_compared_by_text(reviews, parse):
    row = reviews.encode(parse.text)[0]
    assert row.tokens == ("[CLS]", "good", "food", "makes", "dogs", "jump", ",", "a", "food", "dance", "[SEP]")
    found = list(published.links(reviews, row, parse))
    assert found == [
        Link("amod", 1, (2, 8), 1),  # "food" stands twice: either is a hit
        Link("nsubj", 2, (3,), 1),
        Link("nsubj", 4, (5,), 1),
        Link("ccomp", 5, (3,), -2),
        Link("compound", 8, (9,), 1),
        Link("obj", 9, (5,), -4),
    ]


def test_one_word_too_many_shifts_all_that_follow(reviews):
    """A hyphen splits a parsed word for the tokenizer, but the parsed word is skipped: pairs are off from there on."""
    parse = Parse.from_lists(["A", "well-made", "film", "wins"], [2, 2, 3, -1], ["det", "amod", "nsubj", "root"])
    row = reviews.encode(parse.text)[0]
    (link,) = published.links(reviews, row, parse)
    assert row.tokens[link.origin] == "well" and link.relation == "nsubj"


def test_pieces_are_glued_back(reviews):
    parse = Parse.from_lists(
        ["Heartwarmingly", "acted", "films", "win"], [1, 2, 3, -1], ["advmod", "amod", "nsubj", "x"]
    )
    row = reviews.encode(parse.text)[0]
    assert any(token.startswith("##") for token in row.tokens)
    acted = next(link for link in published.links(reviews, row, parse) if link.relation == "amod")
    assert row.tokens[acted.origin] == "acted"


def test_robertas_space_marks_match_nothing(load, parse):
    subject = load("roberta")
    row = subject.encode(parse.text)[0]
    assert all(not link.goal for link in published.links(subject, row, parse))


def test_gpt2_words_begin_with_a_space_or_a_capital(load):
    subject = load("gpt2")
    parse = Parse.from_lists(
        ["The", "film", "is", "a", "joy"], [1, 4, 4, 4, -1], ["det", "nsubj", "cop", "det", "root"]
    )
    row = subject.encode(parse.text)[0]
    words = [word.text for word in published._from_spaced(row)]
    assert [word for word in words if word] == ["The", "film", "is", "a", "joy"]
    nsubj = next(link for link in published.links(subject, row, parse) if link.relation == "nsubj")
    assert "".join(row.tokens[i] for i in nsubj.goal) == "Ġjoy"


def test_separators_are_hidden_and_every_row_counts(reviews, parse):
    found = study(reviews, [parse], variant="published", progress=False)
    plain = study(reviews, [parse], progress=False)
    assert found.rows == 11 and plain.rows == 9
    shown = published.shown(reviews, reviews.encode(parse.text)[0])
    assert shown.mask == (1,) * 10 + (0,)
    attended = nbsal.trace.record(reviews, nbsal.Encoded([shown], 0), needs={"attention"}).attention
    assert all(not maps[..., -1].any() for maps in attended.values())
    own = np.stack([attended[block][0] for block in range(reviews.depth)]).argmax(-1)
    kept = own == np.arange(11)
    assert np.array_equal(found.places[0], kept.sum(-1))  # a position itself is a place
    assert found.cases == {"nsubj": 2, "obj": 1, "amod": 1, "advmod": 0}
    expected = np.isin(own[..., 1], (2, 8))
    assert np.array_equal(found.hits["amod"], expected)


def test_other_models_than_classifiers_see_separators(load):
    row = load("bert", "span").encode(("Who?", "The river."))[0]
    assert published.shown(load("bert", "span"), row) == row


def test_unknown_variants_are_named(reviews, parse):
    with pytest.raises(UnknownName, match="published"):
        study(reviews, [parse], variant="original", progress=False)
