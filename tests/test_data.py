"""Test that tables have the same columns from a folder, from the hub and from the samples."""

import csv
import json
import os
import sys
from types import SimpleNamespace

import pytest

import nbsal
from nbsal.evaluation import data, fill_tables
from nbsal.support.errors import InputError, TableMissing, UnknownName
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
def tables(tmp_path, monkeypatch):
    """The folder of tables, with no hub beside it."""
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    return tmp_path


@pytest.fixture
def hub(tables, monkeypatch):
    """Replace the hub by one with additional columns; returns the list of tables that were loaded from it."""
    loaded = []

    def read(*names, split):
        loaded.append((*names, split))
        table = next(name for name, table in data.TABLES.items() if table.hub == names)
        return [ROWS[table] | {"idx": 0, "title": "x"}] * 2

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=read))
    return loaded


def test_a_split_that_the_hub_lacks_is_refused_without_asking(hub):
    for name, split in (("sst2", "validaton"), ("imdb", "validation"), ("mnli", "validation")):
        with refuses("split", UnknownName) as caught:
            data.load(name, split)
        assert data.TABLES[name].split in caught.value.valid
    assert not hub
    readable = ["train", "train[:2]", "train+test", "train + test", "all"]
    for split in readable:
        assert len(data.load("sst2", split)) == 2
    assert hub == [("nyu-mll/glue", "sst2", split) for split in readable]


@pytest.mark.parametrize("name", data.TABLES)
def test_a_table_is_the_same_from_a_folder_and_from_the_hub(name, hub, tables):
    table, row = data.TABLES[name], ROWS[name]
    from_hub = data.load(name)
    assert hub == [(*table.hub, table.split)]
    folder(tables, name, table.split, [row] * 2)
    from_folder = data.load(name)
    assert len(hub) == 1 and from_folder.equals(from_hub)
    assert from_folder.columns.tolist() == list(row) == list(table.columns)
    expected = [value for key, value in row.items() if key in data.TEXT_COLUMNS]
    assert data.texts(from_folder)[0] == (expected[0] if len(expected) == 1 else tuple(expected))


def test_published_filters(tables, reviews):
    rows = [ROWS["qqp"], ROWS["qqp"] | {"label": 0}, ROWS["qqp"] | {"question1": "Who is it " * 9}]
    folder(tables, "qqp", "validation", rows)
    assert data.load("qqp")["label"].tolist() == [1, 0, 1]
    duplicates = data.load("qqp", duplicates_only=True)
    assert duplicates["label"].tolist() == [1, 1] and duplicates.index.tolist() == [0, 1]
    size = len(reviews.encode(data.texts(duplicates)[0])[0])
    for shortest, count in ((size, 2), (size + 1, 1)):
        long = data.load("qqp", duplicates_only=True, shortest=shortest, tokenizer=reviews.tokenizer)
        assert len(long) == count and long["question1"].iloc[-1] == rows[2]["question1"]
    folder(tables, "snli", "validation", [ROWS["snli"], ROWS["snli"] | {"label": -1}])
    assert data.load("snli")["label"].tolist() == [0], "rows without a label"


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
    for name, model in (("sst2", "reviews"), ("ag_news", "news"), ("snli", "nli")):
        assert data.labels(name) == nbsal.samples.LABELS[model]
    with refuses("name", UnknownName) as caught:
        data.labels("sst")
    assert caught.value.valid == tuple(data.TABLES)


def test_missing_tables_and_wrong_arguments_are_refused(tables, monkeypatch, reviews):
    with refuses("name", TableMissing) as caught:
        data.load("sst2")
    assert str(tables / "sst2") in str(caught.value) and "nbsal[hub]" in str(caught.value)
    monkeypatch.delenv(data.FOLDER)
    with refuses("name", TableMissing) as caught:
        data.load("sst2")
    assert data.FOLDER in str(caught.value) and "samples/reviews" in str(caught.value)
    with refuses("name", UnknownName) as caught:
        data.load("sst5")
    assert caught.value.valid == (*data.TABLES, *data.SAMPLES) and caught.value.suggestion == "sst2"
    wrong = [
        ("split", {"split": "test"}),
        ("duplicates_only", {"duplicates_only": True}),
        ("tokenizer", {"shortest": 3}),
    ]
    wrong.append(("shortest", {"shortest": True, "tokenizer": reviews.tokenizer}))
    for argument, options in wrong:
        with refuses(argument):
            data.load("samples/reviews", **options)
    with refuses("frame"):
        data.texts(data.load("samples/reviews")[["label"]])


def test_a_hub_out_of_reach_is_a_missing_table(tables, monkeypatch):
    def unreachable(*_, **__):
        raise ConnectionError("no route to the hub")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with refuses("name", TableMissing) as caught:
        data.load("sst2", "test")
    assert isinstance(caught.value.__cause__, ConnectionError) and "no route to the hub" in str(caught.value)


LAYOUTS = {
    "jsonl": "sst2/validation.jsonl",
    "parquet": "sst2/validation.parquet",
    "parts": "sst2/data/validation-00000-of-00002.parquet",
    "saved": "sst2/validation/data-00000-of-00001.arrow",
    "glue": "SST-2/dev.tsv",
}


@cases("kind", LAYOUTS)
def test_a_table_is_read_in_the_layouts_that_people_have(kind, tmp_path, monkeypatch):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [ROWS["sst2"], {"sentence": '"a bore" it is', "label": 0}]
    table, path = pyarrow.Table.from_pylist(rows), tmp_path / LAYOUTS[kind]
    path.parent.mkdir(parents=True)
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
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    assert data.load("sst2").to_dict("records") == rows


def test_tables_of_glue(tables, monkeypatch):
    """Labels are words or numbers; line ends and lengths are any, without a change of the limit of the module csv."""
    monkeypatch.setattr(csv, "field_size_limit", pytest.fail)
    (tables / "MNLI").mkdir()
    lines = ["index\tsentence1\tsentence2\tgold_label", "0\tIt rains.\tIt is wet.\tcontradiction"]
    (tables / "MNLI" / "dev_matched.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    expected = {"premise": "It rains.", "hypothesis": "It is wet.", "label": 2}
    assert data.load("mnli").to_dict("records") == [expected]
    row = {"sentence": "a\u2028joy\x85", "label": 1}  # line separators of Unicode
    (tables / "sst2").mkdir()
    (tables / "sst2" / "train.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert data.load("sst2", "train").to_dict("records") == [row]
    long = "a joy " * 40_000
    (tables / "SST-2").mkdir()
    (tables / "SST-2" / "dev.tsv").write_bytes(f"sentence\tlabel\r\n{long}\t1\r\n\r\na\x85bore\t0".encode())
    assert data.load("sst2").to_dict("records") == [
        {"sentence": long, "label": 1},
        {"sentence": "a\x85bore", "label": 0},
    ]


LINES = ["{", "[1]", '{"text": "a joy", "label": 1}', '{"sentence": "a joy", "label": "positive"}', "\udcff"]
DAMAGED = [
    *(("sst2/validation.jsonl", f"{json.dumps(ROWS['sst2'])}\n{line}\n") for line in LINES),
    ("SST-2/dev.tsv", "text\tlabel\na joy\t1"),
    ("SST-2/dev.tsv", "sentence\tlabel\na joy"),
    ("SST-2/dev.tsv", "sentence\tlabel\na joy\tgood"),
    ("sst2/validation.parquet", "no table"),
    ("sst2/validation/data-0.arrow", "no table"),
]


@cases("name, content", DAMAGED)
def test_damaged_files_are_refused(tmp_path, monkeypatch, name, content):
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8", errors="surrogateescape")
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    with pytest.raises(InputError) as caught:
        data.load("sst2")
    assert str(path.parent) in str(caught.value)


def test_a_folder_is_filled_once_with_what_the_tables_are_read_from(hub, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fill_tables", str(tmp_path / "filled")])
    fill_tables.main()
    assert data.FOLDER not in os.environ and len(hub) == 6
    monkeypatch.setenv(data.FOLDER, str(tmp_path / "filled"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    for name in fill_tables.DEFAULT:
        assert data.load(name).to_dict("records") == [ROWS[name]] * 2
    fill_tables.main()  # asks nothing again
    assert len(hub) == 6
