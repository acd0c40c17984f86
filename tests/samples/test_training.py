"""How the embedded models were made: what they may read, and every program once, on a handful of rows."""

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import nbsal
from nbsal import samples
from nbsal.heads import HeadMask
from nbsal.samples import base, idf, low_rank, models
from nbsal.samples.training import evaluate, masks, train

LONG = [
    "a warm and funny film that hardly ever stops being a joy from the start to the very end",
    "a dull and endless bore of a film that nobody who has seen another one would ever need to see",
]
PARTS = ["a warm and funny film", "dull and endless", "the very end", "hardly ever"]
OTHERS = ["a joy of its own", "slow and without wit", "nobody cares", "well played"]
SENTENCE = "The company said on Monday that its profits had fallen for the third time in a row , to {} dollars . "
ANSWER = {"question": "Who wrote the book?", "context": "The book about the river was written by Ada Byron in May."}


def tables():
    """Rows of every table that a program reads."""
    labelled = [*((text, 1) for text in LONG + PARTS), *((text, 0) for text in OTHERS)]
    news = [{"text": SENTENCE.format(at), "label": at % 4} for at in range(8)]
    pairs = [{"premise": text, "hypothesis": OTHERS[at], "label": at % 3 - (at == 3)} for at, text in enumerate(PARTS)]
    start = ANSWER["context"].index("Ada")
    asked = ANSWER | {"answers": {"text": ["Ada Byron"], "answer_start": [start]}}
    return {
        "sst2/train": [{"sentence": text, "label": label} for text, label in labelled],
        "sst2/validation": [{"sentence": text, "label": label} for text, label in labelled[-4:]],
        "ag_news/train": news,
        "ag_news/test": news[:4],
        "snli/train": pairs,
        "snli/validation": [row for row in pairs if row["label"] >= 0],
        "squad/validation": [asked] * 6,
        "wikitext2/articles": [{"text": SENTENCE.format(at) * 8} for at in range(301)],
    }


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Tables of a few rows, of which less is held out than of whole ones."""
    for name, rows in tables().items():
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("NBSAL_DATA", str(tmp_path))
    return tmp_path


def read(examples):
    return [base.tokenizer().decode(example.ids, skip_special_tokens=True) for example in examples]


def test_no_part_of_a_held_sentence_is_learnt_nor_what_holds_it(folder, monkeypatch):
    learnt, held = train.reviews(base.tokenizer())
    assert sorted(read(held)) == sorted(LONG) and read(learnt) == OTHERS
    assert [example.label for example in learnt] == [0] * 4
    longer = [{"sentence": text, "label": 1} for text in (LONG[0], f"{LONG[0]} , and then some", "well played")]
    (folder / "sst2" / "train.jsonl").write_text("\n".join(map(json.dumps, longer)), encoding="utf-8")
    monkeypatch.setattr(train, "shuffled", lambda rows, seed: rows[:1])
    learnt, held = train.reviews(base.tokenizer())
    assert read(held) == LONG[:1] and read(learnt) == ["well played"]


def test_articles_that_are_judged_on_are_not_learnt():
    found = train.passages(base.tokenizer())
    assert all(14 <= len(example.ids) <= 64 for example in found)
    figures = {word for text in read(found) for word in text.split() if word.isdigit()}
    assert {"0", "7"} <= figures <= {str(at) for at in range(8)}  # of news, and of the first article


def test_a_thousand_are_held_out_once():
    learnt, held = train.split(list(range(1003)))
    assert (len(learnt), len(held)) == (3, 1000) and sorted(learnt + held) == list(range(1003))


def test_pairs_without_a_label_are_left_out(monkeypatch):
    monkeypatch.setattr(train, "split", lambda examples: (examples, []))
    learnt, _ = train.nli(base.tokenizer())
    assert [example.label for example in learnt] == [0, 1, 2] and learnt[0].types[-1] == 1


def test_answers_are_spans_of_tokens(monkeypatch):
    tokenizer, (question, *_) = base.tokenizer(), tables()["squad/validation"]
    lost = question | {"answers": {"text": [""], "answer_start": [0]}}
    (found,) = train.questions(tokenizer, [question, lost])
    first, last = found.label
    assert tokenizer.decode(found.ids[first : last + 1]) == "ada byron"


def test_content_alone_is_masked_and_the_truth_is_kept():
    ids = torch.randint(1000, 3000, (40, 60), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = train.CLS
    inputs, chosen = train.masked({"input_ids": ids}, torch.Generator().manual_seed(0))
    seen = inputs["input_ids"]
    assert not chosen[:, 0].any() and torch.equal(seen[~chosen], ids[~chosen])
    fates = Counter((seen[chosen] == train.MASK).tolist()), Counter((seen[chosen] == ids[chosen]).tolist())
    assert float(chosen[:, 1:].float().mean()) == pytest.approx(0.25, abs=0.03)
    assert fates[0][True] / int(chosen.sum()) == pytest.approx(0.7, abs=0.06)
    assert fates[1][True] / int(chosen.sum()) == pytest.approx(0.2, abs=0.06)


@pytest.mark.parametrize("name", ["body", "reviews", "answers"])  # one of each kind; of reviews the mean of two runs
def test_models_can_be_trained_again(name, tmp_path, monkeypatch, capsys):
    """A step or two, of which what is kept is what is shipped, by name, and a model takes it."""
    short = [replace(recipe, epochs=1) for recipe in train.RECIPES[name][:2]]
    monkeypatch.setattr(train, "RECIPES", {name: short})
    monkeypatch.setattr(train, "split", lambda examples: (examples[2:], examples[:2]))
    monkeypatch.setattr(train, "answer_split", lambda: (tables()["squad/validation"], []))
    monkeypatch.setitem(train.SOURCES, "answers", lambda tokenizer: (train.answers(tokenizer)[0],) * 2)
    monkeypatch.setattr(train, "passages", lambda tokenizer: train.news(tokenizer)[0][:2])
    monkeypatch.setattr("sys.argv", ["train", name, "--out", str(tmp_path / "weights")])
    train.main()
    assert f"{name}.safetensors" in capsys.readouterr().out
    delta = load_file(tmp_path / "weights" / f"{name}.safetensors")
    assert set(delta) == set(samples.delta(name)) and all(torch.isfinite(value).all() for value in delta.values())
    assert any(value.any() for key, value in delta.items() if key.endswith(".B")), "nothing was learnt"
    settings = {"num_labels": len(samples.LABELS[name])} if name in samples.LABELS else {}
    low_rank.merge(models.blank(samples.KINDS.get(name, "MaskedLM"), **settings), delta)


def test_answers_are_judged_by_what_they_share_with_the_first_given(monkeypatch):
    subject = nbsal.load("demo/answers")
    said = nbsal.Explainer(subject, "simple")((ANSWER["question"], ANSWER["context"])).prediction
    asked = [ANSWER | {"answers": {"text": [text], "answer_start": [0]}} for text in (said, "nothing at all")]
    monkeypatch.setattr(evaluate, "answer_split", lambda: ([], asked))
    assert evaluate.answers(subject) == (0.5, 0.5)


def test_masks_are_found_and_kept(folder, tmp_path, monkeypatch, capsys):
    text = (masks.MASKS.parent / "parses.conllu").read_text(encoding="utf-8")
    (folder / "ud_ewt").mkdir()
    (folder / "ud_ewt" / "dev.conllu").write_text("\n\n".join(text.split("\n\n")[:12]) + "\n\n", encoding="utf-8")
    monkeypatch.setattr(masks, "MASKS", tmp_path / "masks")
    monkeypatch.setattr(masks, "KINDS", ("reviews",))
    monkeypatch.setattr("sys.argv", ["masks"])
    masks.main()
    found = HeadMask.load(tmp_path / "masks" / "reviews.json")
    said = capsys.readouterr().out
    assert f"demo/reviews: {found}" in said and "nsubj: " in said
    assert f"syntactic heads by block {found.syntactic.sum(1).tolist()}" in said


def test_frequencies_are_counted_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(idf, "TABLE", tmp_path / "idf.json")
    monkeypatch.setattr("sys.argv", ["idf"])
    idf.main()
    assert idf.load()["company"] == 0 and idf.load()["300"] > idf.load()["monday"]
