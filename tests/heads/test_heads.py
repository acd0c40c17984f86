"""Head studies on a model with hand-made heads, parses and their alignment, and head masks as sets."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.heads import HeadMask, HeadStudy, Parse, discover, study
from nbsal.heads.parses import align_words, from_conllu, read_parses
from nbsal.heads.spread import Spread
from nbsal.support.errors import Cancelled, UnknownName
from nbsal.support.intervals import wilson_interval
from tests.cases import cases
from tests.raising import refuses

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ADJECTIVES, NOUNS, OTHERS = ["big", "old", "red"], ["dog", "house", "river"], ["the", "and", "saw", "near"]
WORDS = [*SPECIAL, *ADJECTIVES, *NOUNS, *OTHERS]
SIZE = 16  # positions, words and features of a head


def handmade_model():
    """Two blocks of two heads: 0.0 attends one to the right, 0.1 from adjectives to nouns, block 1 uniformly."""
    config = transformers.BertConfig(
        vocab_size=SIZE, hidden_size=2 * SIZE, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=SIZE, num_labels=2,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1.0)
        embeddings = model.bert.embeddings
        embeddings.position_embeddings.weight[:, :SIZE] = torch.eye(SIZE)
        embeddings.word_embeddings.weight[:, SIZE:] = torch.eye(SIZE)
        attention = model.bert.encoder.layer[0].attention.self
        attention.query.weight[1:SIZE, : SIZE - 1] = 20 * torch.eye(SIZE - 1)  # position i asks for i + 1
        attention.key.weight[:SIZE, :SIZE] = torch.eye(SIZE)
        for adjective, noun in zip(ADJECTIVES, NOUNS, strict=True):
            attention.query.weight[SIZE + WORDS.index(noun), SIZE + WORDS.index(adjective)] = 20.0
        attention.key.weight[SIZE:, SIZE:] = torch.eye(SIZE)
    tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)})
    return nbsal.load(model, tokenizer=tokenizer)


def sentences():
    """Adjectives at varying distances from their nouns, before and after them."""
    parses = []
    for adjective, noun in zip(ADJECTIVES, NOUNS, strict=True):
        for words in (
            [adjective, noun, "saw", "the", "near"],
            [adjective, "and", "the", noun, "near"],
            ["the", noun, "and", "near", adjective],
            [noun, "saw", adjective, "and", "the"],
        ):
            heads = [-1] * len(words)
            heads[words.index(adjective)] = words.index(noun)
            relations = ["amod" if word == adjective else "dep" for word in words]
            parses.append(Parse.from_lists(words, heads, relations))
    return parses


def test_the_study_finds_the_handmade_heads():
    counts = study(handmade_model(), sentences(), relations=["amod", "nsubj"], progress=False)
    amod = counts.relations.query("relation == 'amod'").set_index(["block", "head"])["alpha"]
    assert amod[0, 1] == 1.0 and amod.drop((0, 1)).max() < 0.6
    right = counts.positions.query("offset == 1").set_index(["block", "head"])["alpha"]
    assert right[0, 0] >= 0.8 and right.drop((0, 0)).max() < 0.6
    mask = counts.mask(synt=0.1, pos=0.75)
    assert mask.syntactic.tolist() == [[False, True], [False, False]]
    assert mask.positional.tolist() == [[True, False], [False, False]]
    assert mask.relations["nsubj"].sum() == 0
    assert discover(handmade_model(), sentences(), pos=0.75, relations=["amod", "nsubj"], progress=False) == mask


def test_direction_selects_whose_attention_counts():
    back = study(handmade_model(), sentences(), relations=["amod"], direction="dependent", progress=False)
    assert back.relations.set_index(["block", "head"])["alpha"][0, 1] < 0.6
    both = study(handmade_model(), sentences(), relations=["amod"], direction="both", progress=False)
    assert both.cases == {"amod": 24}
    with refuses("direction", UnknownName) as caught:
        study(handmade_model(), sentences(), direction="up")
    assert caught.value.valid == ("head", "dependent", "both")


def test_studies_add_up_and_survive_a_file(tmp_path):
    parts = sentences()
    whole = study(handmade_model(), parts, relations=["amod"], progress=False)
    halves = [study(handmade_model(), half, relations=["amod"], progress=False) for half in (parts[:5], parts[5:])]
    joined = halves[0] + halves[1]
    joined.save(tmp_path / "study.json")
    again = HeadStudy.load(tmp_path / "study.json")
    for name in ("relations", "positions", "offsets"):
        assert getattr(whole, name).equals(getattr(joined, name)) and getattr(again, name).equals(getattr(joined, name))
    assert again.mask(pos=0.75) == whole.mask(pos=0.75)
    with refuses("other"):
        whole + study(handmade_model(), parts, relations=["dep"], progress=False)


def test_a_study_reports_progress_and_can_be_cancelled():
    cancel, seen = threading.Event(), []
    report = lambda done, total: (seen.append((done, total)), cancel.set())  # noqa: E731
    with pytest.raises(Cancelled):
        study(handmade_model(), sentences(), batch_size=4, progress=report, cancel=cancel)
    assert seen == [(4, 12)]


CONTRACTION = """# text = He doesn't like déjà-vu 👍🏽 films, films.
1\tHe\the\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tlike\tlike\tVERB\t_\t_\t0\troot\t_\t_
5\tdéjà-vu\tdéjà-vu\tADJ\t_\t_\t7\tamod\t_\t_
6\t👍🏽\t👍🏽\tSYM\t_\t_\t7\tdep\t_\t_
7\tfilms\tfilm\tNOUN\t_\t_\t4\tobj\t_\tSpaceAfter=No
8\t,\t,\tPUNCT\t_\t_\t9\tpunct\t_\t_
9\tfilms\tfilm\tNOUN\t_\t_\t7\tconj\t_\tSpaceAfter=No
10\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_

"""


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "xlm-roberta"])
def test_words_are_aligned_by_offsets(load, architecture):
    (parse,) = from_conllu(CONTRACTION)
    assert [parse.text[word.start : word.end] for word in parse.words][:4] == ["He", "does", "n't", "like"]
    row = load(architecture).encode(parse.text)[0]
    tokens = align_words(row, parse)
    assert all(tokens)
    for word, places in zip(parse.words, tokens, strict=True):
        starts, ends = zip(*(row.offsets[i] for i in places), strict=True)
        assert min(starts) <= word.start and max(ends) >= word.end
    assert not set(tokens[6]) & set(tokens[8])  # the same word twice, at two places
    assert parse.words[8].relation == "conj" and parse.words[6].head == 3


class Token:
    def __init__(self, i, idx, text, dep, head=None):
        self.i, self.idx, self.text, self.dep_, self.head = i, idx, text, dep, head or self


class Doc(list):
    """The part of a spaCy Doc that nbsal reads."""

    text = "Dogs chase cats"

    def has_annotation(self, name):
        return name == "DEP" and len(self) > 0


def test_spacy_docs_are_read():
    verb = Token(1, 5, "chase", "ROOT")
    doc = Doc([Token(0, 0, "Dogs", "nsubj", verb), verb, Token(2, 11, "cats", "dobj", verb)])
    (parse,) = read_parses([doc])
    assert [(word.relation, word.head) for word in parse.words] == [("nsubj", 1), ("ROOT", -1), ("obj", 1)]
    with refuses("parses"):
        read_parses([Doc()])


def test_bad_lists_are_refused():
    with refuses("heads"):
        Parse.from_lists(["a", "b"], [1], ["x", "y"])
    with refuses("heads"):
        Parse.from_lists(["a", "b"], [2, -1], ["x", "y"])
    beyond = CONTRACTION.replace("\t7\tconj", "\t20\tconj")
    for parses in (5, [], ["a sentence"], beyond):
        with refuses("parses"):
            read_parses(parses)
    for relations in ([], 5, [1]):
        with refuses("relations"):
            study(handmade_model(), sentences(), relations=relations)


MASK = HeadMask([[1, 0, 0], [0, 0, 0]], {"nsubj": [[0, 1, 0], [0, 0, 0]], "obj": [[0, 1, 1], [0, 0, 0]]})


def test_masks_are_sets():
    assert MASK.syntactic.tolist() == [[False, True, True], [False] * 3]
    assert MASK.selected.sum() == 3 and (~MASK).selected.sum() == 3
    assert (MASK | ~MASK).selected.all() and not (MASK & ~MASK).selected.any()
    assert (MASK | MASK) == MASK == (MASK & MASK) and hash(MASK | MASK) == hash(MASK)
    only = HeadMask.from_array([[1, 0], [0, 1]])
    assert not only.syntactic.any() and not only.positional.any() and only.selected.sum() == 2
    with refuses("mask"):
        MASK | only
    with refuses("mask"):
        HeadMask([[1, 0]], {"obj": [[1], [0]]})


def test_random_masks_match_and_corruption_adds():
    random = MASK.matched_random(seed=3)
    for part in ("syntactic", "positional", "selected"):
        assert getattr(random, part).sum() == getattr(MASK, part).sum()
    assert random == MASK.matched_random(seed=3) != MASK.matched_random(seed=4)
    corrupted = MASK.corrupted(0.67, seed=1)
    assert (corrupted.selected & MASK.selected).sum() == 3 and corrupted.selected.sum() == 5
    bare = HeadMask.from_array(np.zeros((10, 10), int))
    assert [bare.corrupted(percent / 100, 0).selected.sum() for percent in range(101)] == list(range(101))
    sizes = [MASK.corrupted(tenth / 10, 0).selected.sum() - 3 for tenth in range(11)]
    assert sizes == [0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert MASK.corrupted(1.0, 0).selected.all() and MASK.corrupted(0.0, 0) == MASK
    with refuses("rate"):
        MASK.corrupted(1.5, 0)


@cases("change", [{"positional": [[2]]}, {"provenance": {"pos": "0.8"}}])
def test_files_of_masks_with_odd_values_are_refused(tmp_path, change):
    path = tmp_path / "mask.json"
    MASK.save(path)
    assert HeadMask.load(path) == MASK
    older = json.loads((Path(__file__).parents[1] / "data" / "saved" / "0.2.0" / "mask.json").read_text())
    path.write_text(json.dumps(older | change))
    with refuses("path"):
        HeadMask.load(path)


@cases("array", [[1, 0], [[0.5]], [[2]], np.zeros((0, 4)), [[1, 0], [1]], [[1, 0], 1]])
def test_masks_are_zeros_and_ones(array):
    with refuses("mask"):
        HeadMask.from_array(array)


@pytest.mark.parametrize(("sentences", "share"), [(12, 0.5), (30, 0.8), (100, 0.9)])
def test_intervals_of_shares_cover_the_truth_where_cases_of_a_sentence_are_alike(sentences, share):
    generator, covered, narrow = np.random.default_rng(0), 0, 0
    for _ in range(600):
        spread, hits = Spread(), 0
        sizes = generator.integers(3, 20, sentences)
        for size in sizes.tolist():
            count = generator.binomial(size, generator.beta(4 * share, 4 * (1 - share)))
            spread.add(size, {"head": count})
            hits += count
        low, high = spread.interval("head", hits, int(sizes.sum()))
        covered += low <= share <= high
        low, high = wilson_interval(hits / sizes.sum(), sizes.sum())
        narrow += low <= share <= high
    assert 0.925 <= covered / 600 <= 0.985
    assert narrow / 600 < 0.85  # if all cases were independent


def test_sums_of_other_heads_are_not_added():
    counts = study(handmade_model(), sentences(), relations=["amod"], progress=False)
    spread = counts.position_spread
    shape = next(iter(spread.squares.values())).shape
    spread.check_shapes(shape, shape)
    with pytest.raises(ValueError, match="sums of different heads"):
        spread.check_shapes((9, 9), (9, 9))
    spread.products.popitem()
    with pytest.raises(ValueError, match="sums of different shares"):
        spread.check_shapes(shape, shape)
