"""Test the programs that train the embedded models: the rows they use, and each program on a few rows."""

import json
from dataclasses import replace

import pytest
import torch

import nbsal
from nbsal import samples
from nbsal.heads import HeadMask
from nbsal.samples import base, idf, low_rank, models, weight_files
from tests.training import answers, evaluate, masks, small, train
from tests.training import idf as count_idf

LONG = [
    "a warm and funny film that hardly ever stops being a joy from the start to the very end",
    "a dull and endless bore of a film that nobody who has seen another one would ever need to see",
]
PARTS = ["a warm and funny film", "dull and endless", "the very end", "hardly ever"]
OTHERS = ["a joy of its own", "slow and without wit", "nobody cares", "well played"]
SENTENCE = "The company said on Monday that its profits had fallen for the third time in a row , to {} dollars . "
ANSWER = {"question": "Who wrote the book?", "context": "The book about the river was written by Ada Byron in May."}


def tables():
    """Rows of every table that the programs read."""
    labelled = [*((text, 1) for text in LONG + PARTS), *((text, 0) for text in OTHERS)]
    news = [{"text": SENTENCE.format(at), "label": at % 4} for at in range(8)]
    pairs = [{"premise": text, "hypothesis": OTHERS[at], "label": at % 3 - (at == 3)} for at, text in enumerate(PARTS)]
    start = ANSWER["context"].index("Ada")
    question = ANSWER | {"answers": {"text": ["Ada Byron"], "answer_start": [start]}}
    return {
        "sst2/train": [{"sentence": text, "label": label} for text, label in labelled],
        "sst2/validation": [{"sentence": text, "label": label} for text, label in labelled[-4:]],
        "ag_news/train": news,
        "ag_news/test": news[:4],
        "imdb/test": [{"text": f"{text.capitalize()} . {text} .", "label": label} for text, label in labelled[-3:]],
        "yelp_polarity/test": [{"text": "\\n".join([f"is n't it {OTHERS[1]} ?"] * 9), "label": 1}],
        "snli/train": pairs,
        "snli/validation": [row for row in pairs if row["label"] >= 0],
        "squad/validation": [question] * 6,
        "wikitext2/articles": [{"text": SENTENCE.format(at) * 8} for at in range(301)],
    }


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Set NBSAL_DATA to a folder with tables of a few rows."""
    for name, rows in tables().items():
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("NBSAL_DATA", str(tmp_path))
    return tmp_path


def decode(examples):
    return [base.tokenizer().decode(example.ids, skip_special_tokens=True) for example in examples]


def test_training_phrases_are_not_part_of_held_out_sentences_nor_contain_them(folder, monkeypatch):
    examples, held_out = train.reviews(base.tokenizer())
    assert sorted(decode(held_out)) == sorted(LONG) and decode(examples) == OTHERS
    assert [example.label for example in examples] == [0] * 4
    longer = [{"sentence": text, "label": 1} for text in (LONG[0], f"{LONG[0]} , and then some", "well played")]
    (folder / "sst2" / "train.jsonl").write_text("\n".join(map(json.dumps, longer)), encoding="utf-8")
    monkeypatch.setattr(train, "shuffled", lambda rows, seed: rows[:1])
    examples, held_out = train.reviews(base.tokenizer())
    assert decode(held_out) == LONG[:1] and decode(examples) == ["well played"]


def test_evaluation_articles_are_not_trained_on():
    examples = train.passages(base.tokenizer())
    assert all(14 <= len(example.ids) <= 64 for example in examples)
    figures = {word for text in decode(examples) for word in text.split() if word.isdigit()}
    assert {"0", "7"} <= figures <= {str(at) for at in range(8)}  # from news and from the first article


def test_only_content_tokens_are_masked_and_the_chosen_ones_are_returned():
    ids = torch.randint(1000, 3000, (40, 60), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = train.CLS
    inputs, chosen = train.masked({"input_ids": ids}, torch.Generator().manual_seed(0))
    corrupted = inputs["input_ids"]
    assert not chosen[:, 0].any() and torch.equal(corrupted[~chosen], ids[~chosen])
    is_mask, unchanged = corrupted[chosen] == train.MASK, corrupted[chosen] == ids[chosen]
    assert float(chosen[:, 1:].float().mean()) == pytest.approx(0.25, abs=0.03)
    assert float(is_mask.float().mean()) == pytest.approx(0.7, abs=0.06)
    assert float(unchanged.float().mean()) == pytest.approx(0.2, abs=0.06)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["body", "reviews", "answers"])  # one of each kind; for reviews the mean of two runs
def test_a_short_training_saves_a_delta(name, tmp_path, monkeypatch, capsys):
    """It has the names of the embedded delta and merges into a model."""
    short = [replace(recipe, epochs=1) for recipe in train.RECIPES[name][:2]]
    monkeypatch.setattr(train, "RECIPES", {name: short})
    monkeypatch.setattr(train, "split", lambda examples: (examples[2:], examples[:2]))
    monkeypatch.setattr(answers, "answer_split", lambda: (tables()["squad/validation"], []))
    monkeypatch.setattr(answers, "make_questions", lambda *_: tables()["squad/validation"])
    every_one = answers.questions(base.tokenizer(), tables()["squad/validation"])
    monkeypatch.setitem(train.SOURCES, "answers", lambda tokenizer: ([], every_one))
    monkeypatch.setattr(train, "passages", lambda tokenizer: train.news(tokenizer)[0][:2])
    monkeypatch.setattr("sys.argv", ["train", name, "--out", str(tmp_path / "weights")])
    train.main()
    assert f"{name}.safetensors" in capsys.readouterr().out
    delta = weight_files.load(tmp_path / "weights" / f"{name}.safetensors")
    assert set(delta) == set(samples.delta(name)) and all(torch.isfinite(value).all() for value in delta.values())
    assert any(value.any() for key, value in delta.items() if key.endswith(".B")), "the delta is zero"
    settings = {"num_labels": len(samples.LABELS[name])} if name in samples.LABELS else {}
    low_rank.merge(models.blank(samples.KINDS.get(name, "MaskedLM"), **settings), delta)


def test_a_short_training_of_the_small_model_saves_what_it_is_built_from(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(small, "RECIPES", [replace(recipe, epochs=1) for recipe in small.RECIPES])
    monkeypatch.setattr(small, "MADE", 3)
    monkeypatch.setattr("sys.argv", ["small", "--out", str(tmp_path)])
    small.main()
    weights = weight_files.load(tmp_path / "reviews-small.safetensors")
    shipped = samples.delta("reviews-small")
    assert {name: weight.shape for name, weight in weights.items()} == {n: w.shape for n, w in shipped.items()}
    assert not weights["bert.pooler.dense.weight"].equal(shipped["bert.pooler.dense.weight"])
    model = samples.small.build("SequenceClassification", weights)
    assert "texts," in capsys.readouterr().out and all(torch.isfinite(weight).all() for weight in model.parameters())


def test_the_small_model_learns_from_texts_with_labels_and_without(monkeypatch):
    monkeypatch.setattr(small, "taught", lambda texts: [0.9] * len(texts))
    soft = small.examples(samples.small.tokenizer(), {"a joy": 1, "a bore": 0, "a film": None})
    assert [example.label for example in soft] == pytest.approx([0.95, 0.45, 0.9])
    texts = small.texts()
    asked = f"isn't it {OTHERS[1]} ?"
    assert {OTHERS[1]: 0, " ".join([asked] * 9): 1, asked: None}.items() <= texts.items()
    assert not set(LONG + PARTS) & set(texts)  # held out, or part of what is
    assert texts["the film is well played ."] is None and not any("{" in text for text in texts)
    pieces = small.learnt_pieces(list(texts))
    assert tuple(pieces[:5]) == samples.small.SPECIAL and "##e" in pieces


def test_answers_are_compared_with_the_first_gold_answer(monkeypatch):
    subject = nbsal.load("demo/answers")
    answer = nbsal.Explainer(subject, "simple")((ANSWER["question"], ANSWER["context"])).prediction
    rows = [ANSWER | {"answers": {"text": [text], "answer_start": [0]}} for text in (answer, "nothing at all")]
    monkeypatch.setattr(evaluate, "answer_split", lambda: ([], rows))
    assert evaluate.answers(subject) == (0.5, 0.5)


def test_masks_are_computed_and_saved(folder, tmp_path, monkeypatch, capsys):
    text = (masks.MASKS.parent / "parses.conllu").read_text(encoding="utf-8")
    (folder / "ud_ewt").mkdir()
    (folder / "ud_ewt" / "dev.conllu").write_text("\n\n".join(text.split("\n\n")[:12]) + "\n\n", encoding="utf-8")
    monkeypatch.setattr(masks, "MASKS", tmp_path / "masks")
    monkeypatch.setattr(masks, "KINDS", ("reviews",))
    monkeypatch.setattr("sys.argv", ["masks"])
    masks.main()
    mask = HeadMask.load(tmp_path / "masks" / "reviews.nbsal")
    assert f"demo/reviews: {mask}" in capsys.readouterr().out


def test_document_frequencies_are_counted_and_saved(tmp_path, monkeypatch):
    for module in (idf, count_idf):
        monkeypatch.setattr(module, "TABLE", tmp_path / "idf.json")
    monkeypatch.setattr("sys.argv", ["idf"])
    count_idf.main()
    assert idf.load()["company"] == 0 and idf.load()["300"] > idf.load()["monday"]
