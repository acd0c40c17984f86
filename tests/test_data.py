"""Test that tables have the same columns from a folder, from the hub and from the samples."""

import csv
import json
import sys
from types import SimpleNamespace

import pytest

import nbsal
from nbsal import data
from nbsal.errors import InputError, TableMissing, UnknownName
from tests.cases import cases
from tests.raising import refuses

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
    """Replace the hub by one with additional columns; returns the list of tables that were loaded from it."""
    loaded = []

    def read(*names, split):
        loaded.append((*names, split))
        table = next(name for name, table in data.TABLES.items() if table.hub == names)
        return [ROWS[table] | {"idx": 0, "title": "x"}] * 2

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=read))
    monkeypatch.delenv(data.FOLDER, raising=False)
    return loaded


def test_a_split_that_the_hub_lacks_is_refused_without_asking(hub):
    for name, split in (("sst2", "validaton"), ("imdb", "validation"), ("mnli", "validation")):
        with refuses("split", UnknownName) as caught:
            data.load(name, split)
        assert data.TABLES[name].split in caught.value.valid
    assert not hub
    readable = ["train[:2]", "train+test", "train + test", "all"]
    for split in readable:
        data.load("sst2", split)
    assert hub == [("nyu-mll/glue", "sst2", split) for split in readable]


@pytest.mark.parametrize("name", data.TABLES)
def test_a_table_is_the_same_from_a_folder_and_from_the_hub(name, hub, tmp_path, monkeypatch):
    split = data.TABLES[name].split
    from_hub = data.load(name)
    assert hub == [(*data.TABLES[name].hub, split)]
    folder(tmp_path, name, split, [ROWS[name]] * 2)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    from_folder = data.load(name)
    assert len(hub) == 1
    assert from_folder.equals(from_hub)
    assert from_folder.columns.tolist() == list(ROWS[name]) == list(data.TABLES[name].columns)
    expected = [value for key, value in ROWS[name].items() if key in data.TEXT_COLUMNS]
    assert data.texts(from_folder)[0] == (expected[0] if len(expected) == 1 else tuple(expected))


def test_tables_that_the_folder_lacks_come_from_the_hub(hub, tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert len(data.load("sst2", "train")) == 2
    assert hub == [("nyu-mll/glue", "sst2", "train")]


def test_published_filters(tmp_path, monkeypatch, reviews):
    rows = [ROWS["qqp"], ROWS["qqp"] | {"label": 0}, ROWS["qqp"] | {"question1": "Who is it " * 9}]
    folder(tmp_path, "qqp", "validation", rows)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("qqp")["label"].tolist() == [1, 0, 1]
    duplicates = data.load("qqp", duplicates_only=True)
    assert duplicates["label"].tolist() == [1, 1] and duplicates.index.tolist() == [0, 1]
    long = data.load("qqp", shortest=20, tokenizer=reviews.tokenizer)
    assert len(long) == 1 and long["question1"].item() == rows[2]["question1"]
    size = len(reviews.encode(data.texts(duplicates)[0])[0])
    assert len(data.load("qqp", duplicates_only=True, shortest=size, tokenizer=reviews.tokenizer)) == 2
    assert len(data.load("qqp", duplicates_only=True, shortest=size + 1, tokenizer=reviews.tokenizer)) == 1


def test_rows_without_a_label_are_left_out(tmp_path, monkeypatch):
    folder(tmp_path, "snli", "validation", [ROWS["snli"], ROWS["snli"] | {"label": -1}])
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("snli")["label"].tolist() == [0]


@cases("label", ["positive", {"a": 1}, [1]])
def test_labels_that_are_no_numbers_are_refused(tmp_path, monkeypatch, label):
    folder(tmp_path, "snli", "validation", [ROWS["snli"] | {"label": label}])
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with refuses("name"):
        data.load("snli")


@cases("name", data.SAMPLES)
def test_samples_work_without_folder_and_hub(name, monkeypatch):
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
    with refuses("name", UnknownName) as caught:
        data.labels("sst")
    assert caught.value.valid == tuple(data.TABLES)


def test_missing_tables_and_wrong_arguments_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with refuses("name", TableMissing) as caught:
        data.load("sst2")
    assert str(tmp_path / "sst2") in str(caught.value) and "nbsal[hub]" in str(caught.value)
    monkeypatch.delenv(data.FOLDER)
    with refuses("name", TableMissing) as caught:
        data.load("sst2")
    assert data.FOLDER in str(caught.value) and "samples/reviews" in str(caught.value)
    with refuses("name", UnknownName) as caught:
        data.load("sst5")
    assert caught.value.valid == (*data.TABLES, *data.SAMPLES) and caught.value.suggestion == "sst2"
    with refuses("split") as caught:
        data.load("samples/reviews", "test")
    assert caught.value.value == "test"
    with refuses("duplicates_only"):
        data.load("samples/reviews", duplicates_only=True)
    with refuses("tokenizer"):
        data.load("samples/reviews", shortest=3)
    with refuses("frame"):
        data.texts(data.load("samples/reviews")[["label"]])


@cases("line", ["{", "[1]", '{"text": "a joy", "label": 1}', "\udcff"])
def test_files_with_other_lines_are_refused(monkeypatch, tmp_path, line):
    folder(tmp_path, "sst2", "validation", [ROWS["sst2"]])
    path = tmp_path / "sst2" / "validation.jsonl"
    with path.open("a", encoding="utf-8", errors="surrogateescape") as lines:
        lines.write(line + "\n")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with pytest.raises(InputError) as caught:
        data.load("sst2")
    assert str(path) in str(caught.value)


def test_a_text_may_contain_any_line_separator_of_unicode(monkeypatch, tmp_path):
    folder(tmp_path, "sst2", "validation", [])
    row = json.dumps({"sentence": "a\u2028joy\x85", "label": 1}, ensure_ascii=False)
    (tmp_path / "sst2" / "validation.jsonl").write_text(row + "\n", encoding="utf-8")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("sst2")["sentence"].tolist() == ["a\u2028joy\x85"]


def test_rows_that_lack_a_column_are_refused(monkeypatch, tmp_path):
    rows = [{"text": "a joy", "label": 1}]
    monkeypatch.delenv(data.FOLDER, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda *_, **__: rows))
    with refuses("name") as caught:
        data.load("sst2")
    assert "sentence, label" in str(caught.value)
    folder(tmp_path, "sst2", "validation", rows)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with refuses("name") as caught:
        data.load("sst2")
    assert "sentence, label" in str(caught.value)


def test_shortest_must_be_a_number(reviews):
    with refuses("shortest"):
        data.load("samples/reviews", shortest=True, tokenizer=reviews.tokenizer)


def test_a_hub_out_of_reach_is_a_missing_table(monkeypatch, tmp_path):
    def unreachable(*_, **__):
        raise ConnectionError("no route to the hub")

    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with refuses("name", TableMissing) as caught:
        data.load("sst2", "test")
    assert isinstance(caught.value.__cause__, ConnectionError) and "no route to the hub" in str(caught.value)


def layout(root, kind):
    """A folder of tables in one of the layouts that people have, with the same two rows of SST-2."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([ROWS["sst2"], {"sentence": '"a bore" it is', "label": 0}])
    path = (
        root
        / {
            "jsonl": "sst2/validation.jsonl",
            "parquet": "sst2/validation.parquet",
            "parts": "sst2/data/validation-00000-of-00002.parquet",
            "saved": "sst2/validation/data-00000-of-00001.arrow",
            "glue": "SST-2/dev.tsv",
        }[kind]
    )
    path.parent.mkdir(parents=True)
    rows = table.to_pylist()
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "glue":
        lines = ["sentence\tlabel", *(f"{row['sentence']}\t{row['label']}" for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif kind == "saved":
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    elif kind == "parts":
        parquet.write_table(table[:1], path)
        parquet.write_table(table[1:], path.with_name("validation-00001-of-00002.parquet"))
    else:
        parquet.write_table(table, path)


@cases("kind", ["jsonl", "parquet", "parts", "saved", "glue"])
def test_a_table_is_read_in_the_layouts_that_people_have(kind, tmp_path, monkeypatch):
    layout(tmp_path, kind)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    frame = data.load("sst2")
    assert frame.to_dict("records") == [ROWS["sst2"], {"sentence": '"a bore" it is', "label": 0}]


def test_labels_of_glue_are_words_or_numbers(tmp_path, monkeypatch):
    (tmp_path / "MNLI").mkdir()
    lines = ["index\tsentence1\tsentence2\tgold_label", "0\tIt rains.\tIt is wet.\tcontradiction"]
    (tmp_path / "MNLI" / "dev_matched.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    expected = {"premise": "It rains.", "hypothesis": "It is wet.", "label": 2}
    assert data.load("mnli").to_dict("records") == [expected]
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "dev.tsv").write_text("sentence\tlabel\na joy\t1\n", encoding="utf-8-sig")
    assert data.load("sst2").to_dict("records") == [{"sentence": "a joy", "label": 1}]


def test_a_table_of_glue_has_any_line_ends_and_long_texts(tmp_path, monkeypatch):
    """No limit of the module csv is raised for them, since it holds for every thread of the process."""
    monkeypatch.setattr(csv, "field_size_limit", pytest.fail)
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    long = "a joy " * 40_000
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "dev.tsv").write_bytes(f"sentence\tlabel\r\n{long}\t1\r\n\r\na\x85bore\t0".encode())
    assert data.load("sst2").to_dict("records") == [
        {"sentence": long, "label": 1},
        {"sentence": "a\x85bore", "label": 0},
    ]


@cases("rows", ["text\tlabel\na joy\t1", "sentence\tlabel\na joy", "sentence\tlabel\na joy\tgood"])
def test_a_table_of_glue_with_other_columns_is_refused(tmp_path, monkeypatch, rows):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "dev.tsv").write_text(rows, encoding="utf-8")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with refuses("path"):
        data.load("sst2")


@pytest.mark.parametrize("name", ["validation.parquet", "validation/data-0.arrow"])
def test_a_damaged_file_is_refused(name, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "sst2" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no table")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with refuses("path"):
        data.load("sst2")
