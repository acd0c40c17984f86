"""Tables by name: the same columns from a folder, from the hub, and from the samples."""

import json
import sys
from types import SimpleNamespace

import pytest

import nbsal
from nbsal import data
from nbsal.errors import InputError, UnknownName

ROWS = {
    "sst2": {"sentence": "a joy", "label": 1},
    "ag_news": {"text": "Prices fell.", "label": 2},
    "imdb": {"text": "A joy.", "label": 1},
    "yelp_polarity": {"text": "a joy", "label": 1},
    "mnli": {"premise": "It rains.", "hypothesis": "It is wet.", "label": 0},
    "snli": {"premise": "It rains.", "hypothesis": "It is wet.", "label": 0},
    "qqp": {"question1": "Who is it?", "question2": "Who?", "label": 1},
    "squad": {"id": "1", "question": "Who?", "context": "Ada.", "answers": {"text": ["Ada"], "answer_start": [0]}},
    "squad_v2": {"id": "1", "question": "Who?", "context": "Ada.", "answers": {"text": [], "answer_start": []}},
}


def folder(path, name, split, rows):
    (path / name).mkdir()
    (path / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def hub(monkeypatch):
    """A hub whose tables have columns beside those that are wanted; it remembers what was asked of it."""
    asked = []

    def read(*names, split):
        asked.append((*names, split))
        table = next(name for name, table in data.TABLES.items() if table.hub == names)
        return [ROWS[table] | {"idx": 0, "title": "x"}] * 2

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=read))
    monkeypatch.delenv(data.FOLDER, raising=False)
    return asked


@pytest.mark.parametrize("name", data.TABLES)
def test_a_table_is_the_same_from_a_folder_and_from_the_hub(name, hub, tmp_path, monkeypatch):
    split = data.TABLES[name].split
    theirs = data.load(name)
    assert hub == [(*data.TABLES[name].hub, split)]
    folder(tmp_path, name, split, [ROWS[name]] * 2)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    ours = data.load(name)
    assert len(hub) == 1
    assert ours.equals(theirs)
    assert ours.columns.tolist() == list(ROWS[name]) == list(data.TABLES[name].columns)
    expected = [value for key, value in ROWS[name].items() if key in data.PARTS]
    assert data.texts(ours)[0] == (expected[0] if len(expected) == 1 else tuple(expected))


def test_what_the_folder_lacks_comes_from_the_hub(hub, tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert len(data.load("sst2", "train")) == 2
    assert hub == [("nyu-mll/glue", "sst2", "train")]


def test_published_filters(tmp_path, monkeypatch, reviews):
    rows = [ROWS["qqp"], ROWS["qqp"] | {"label": 0}, ROWS["qqp"] | {"question1": "Who is it " * 9}]
    folder(tmp_path, "qqp", "validation", rows)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("qqp")["label"].tolist() == [1, 0, 1]
    same = data.load("qqp", duplicates_only=True)
    assert same["label"].tolist() == [1, 1] and same.index.tolist() == [0, 1]
    long = data.load("qqp", shortest=20, tokenizer=reviews.tokenizer)
    assert len(long) == 1 and long["question1"].item() == rows[2]["question1"]
    size = len(reviews.encode(data.texts(same)[0])[0])
    assert len(data.load("qqp", duplicates_only=True, shortest=size, tokenizer=reviews.tokenizer)) == 2
    assert len(data.load("qqp", duplicates_only=True, shortest=size + 1, tokenizer=reviews.tokenizer)) == 1


def test_rows_without_a_label_are_left_out(tmp_path, monkeypatch):
    folder(tmp_path, "snli", "validation", [ROWS["snli"], ROWS["snli"] | {"label": -1}])
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("snli")["label"].tolist() == [0]


@pytest.mark.parametrize("name", data.SAMPLES)
def test_the_samples_always_work(name, monkeypatch):
    monkeypatch.delenv(data.FOLDER, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    frame = data.load(name)
    assert len(frame) >= 40
    assert len(data.texts(frame)) == len(frame)
    if name == "samples/answers":
        row = frame.iloc[0]
        start, text = row["answers"]["answer_start"][0], row["answers"]["text"][0]
        assert row["context"][start : start + len(text)] == text


def test_labels_are_those_of_the_embedded_models():
    assert data.labels("sst2") == nbsal.samples.LABELS["reviews"]
    assert data.labels("ag_news") == nbsal.samples.LABELS["news"]
    assert data.labels("snli") == nbsal.samples.LABELS["nli"]
    with pytest.raises(UnknownName, match="sst2"):
        data.labels("sst")


def test_errors_say_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        InputError, match=r"is not there, and the hub needs pip install 'nbsal\[hub\]'.*samples/reviews"
    ):
        data.load("sst2")
    monkeypatch.delenv(data.FOLDER)
    with pytest.raises(InputError, match="names no folder"):
        data.load("sst2")
    with pytest.raises(UnknownName, match="sst2, ag_news"):
        data.load("sst5")
    with pytest.raises(UnknownName, match="split of samples/reviews"):
        data.load("samples/reviews", "test")
    with pytest.raises(InputError, match="qqp; samples/reviews has none"):
        data.load("samples/reviews", duplicates_only=True)
    with pytest.raises(InputError, match=r"tokenizer=subject\.tokenizer"):
        data.load("samples/reviews", shortest=3)
    with pytest.raises(InputError, match="no column of texts"):
        data.texts(data.load("samples/reviews")[["label"]])


@pytest.mark.parametrize("line", ["{", "[1]", '{"text": "a joy", "label": 1}', "\udcff"])
def test_a_folder_with_other_lines_is_a_sentence(monkeypatch, tmp_path, line):
    folder(tmp_path, "sst2", "validation", [ROWS["sst2"]])
    with (tmp_path / "sst2" / "validation.jsonl").open("a", encoding="utf-8", errors="surrogateescape") as lines:
        lines.write(line + "\n")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with pytest.raises(InputError, match=r"validation\.jsonl is no sst2 as JSON lines, or is damaged"):
        data.load("sst2")


def test_rows_without_their_columns_are_told_which_they_must_have(monkeypatch, tmp_path):
    told = "A row of sst2 has the columns sentence, label; this one does not"
    rows = [{"text": "a joy", "label": 1}]
    monkeypatch.delenv(data.FOLDER, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *_, **__: rows))
    with pytest.raises(InputError, match=told):
        data.load("sst2")
    folder(tmp_path, "sst2", "validation", rows)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with pytest.raises(InputError, match=rf"damaged\. {told}"):
        data.load("sst2")


def test_the_shortest_is_a_number(reviews):
    with pytest.raises(InputError, match="a number of tokens, not True"):
        data.load("samples/reviews", shortest=True, tokenizer=reviews.tokenizer)


def test_a_hub_out_of_reach_is_a_sentence(monkeypatch, tmp_path):
    def unreachable(*_, **__):
        raise ConnectionError("no route to the hub")

    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(InputError, match=r"sst2 \(test\) could not be read from the hub: no route"):
        data.load("sst2", "test")
