"""Sources of texts, and rows that cannot be explained."""

import gzip
import json

import pandas
import polars
import pyarrow
import pytest
from pyarrow import parquet

from nbsal import corpus
from nbsal.corpus.sources import UnreadableRow, open_source
from nbsal.errors import UnknownName
from tests.cases import cases
from tests.raising import refuses

TEXTS = ["A joy.", "Une pièce, 悲しい.", 'He said "no",\nthen left.']


def create_source(kind, folder):
    """The texts as that kind of source."""
    frame = pandas.DataFrame({"text": TEXTS, "n": range(len(TEXTS))})
    path = folder / f"corpus.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(frame.to_json(orient="records", lines=True).encode()))
    elif kind == "folder":
        path.mkdir()
        frame[:2].to_parquet(path / "a.parquet")
        frame[2:].to_parquet(path / "b.parquet")
    else:
        return {
            "pandas": frame,
            "polars": polars.from_pandas(frame),
            "arrow": pyarrow.Table.from_pandas(frame),
            "dicts": frame.to_dict("records"),
            "list": TEXTS,
        }[kind]
    return path


KINDS = ("parquet", "csv", "jsonl", "jsonl.gz", "folder", "pandas", "polars", "arrow", "dicts", "list")


@cases("kind", KINDS)
def test_every_kind_of_source(tmp_path, kind):
    source = open_source(create_source(kind, tmp_path), "text")
    assert list(source.rows) == TEXTS and source.total == len(TEXTS)


@cases(
    "column",
    [
        pandas.Series(TEXTS),
        polars.Series(TEXTS),
        pyarrow.array(TEXTS),
        pyarrow.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pyarrow.array(TEXTS).dictionary_encode(),
    ],
)
def test_columns_of_data_frames(column):
    source = open_source(column, "text")
    assert list(source.rows) == TEXTS and source.total == len(TEXTS)


def categories(kind, folder):
    """The texts as categories, which Arrow stores as a dictionary; one is missing."""
    frame = pandas.DataFrame({"text": pandas.Categorical([*TEXTS, None, TEXTS[0]])})
    if kind == "parquet":
        frame.to_parquet(folder / "corpus.parquet")
        return folder / "corpus.parquet"
    return pyarrow.Table.from_pandas(frame) if kind == "arrow" else polars.from_pandas(frame)


@cases("kind", ["parquet", "arrow", "polars"])
def test_columns_of_categories(tmp_path, kind):
    assert list(open_source(categories(kind, tmp_path), "text").rows) == [*TEXTS, None, TEXTS[0]]


def test_tables_of_datasets_are_read_row_by_row():
    class Split(list):
        column_names = ("text", "label")

        def to_list(self):
            raise MemoryError("read the whole split at once")

    split = Split({"text": text, "label": 0} for text in TEXTS)
    assert list(open_source(split, "text").rows) == TEXTS
    with refuses("text", UnknownName) as caught:
        open_source(split, "review")
    assert caught.value.valid == ("text", "label")


@cases("kind", ["parquet", "csv", "pandas", "arrow"])
def test_unknown_columns_are_refused(tmp_path, kind):
    with refuses("text", UnknownName) as caught:
        list(open_source(create_source(kind, tmp_path), "review").rows)
    assert caught.value.value == "review" and caught.value.valid == ("text", "n")


def test_rows_as_dicts_need_the_column_at_least_once():
    rows = [{"text": "One.", "n": 1}, {"n": 2}]
    assert isinstance(list(open_source(rows, "text").rows)[1], UnreadableRow)
    with refuses("text", UnknownName) as caught:
        open_source(rows, "review")
    assert caught.value.valid == ("text", "n")


def test_pairs_are_read_from_two_columns():
    frame = pandas.DataFrame({"a": ["One.", None], "b": ["Two.", "Three."]})
    first, second = open_source(frame, ("a", "b")).rows
    assert first == ("One.", "Two.") and second[1] == "Three."


def table_with(kind, folder, names, arrays):
    """A table as that kind of source."""
    table = pyarrow.Table.from_arrays([pyarrow.array(array) for array in arrays], names=names)
    if kind == "parquet":
        parquet.write_table(table, folder / "corpus.parquet")
        return folder / "corpus.parquet"
    frame = pandas.DataFrame(dict(enumerate(arrays)))
    frame.columns = names
    return table if kind == "arrow" else frame


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_text_column_that_exists_twice_is_refused(tmp_path, kind):
    source = table_with(kind, tmp_path, ["text", "text", "n"], [TEXTS, TEXTS, TEXTS])
    with refuses("text") as caught:
        open_source(source, "text")
    assert caught.value.value == "text"
    with refuses("text"):
        open_source(source, ("n", "text"))
    assert list(open_source(source, "n").rows) == TEXTS


def test_a_parquet_file_with_a_column_that_exists_twice_is_refused(tmp_path):
    with refuses("path"):  # Arrow reads no other column of it either
        open_source(table_with("parquet", tmp_path, ["text", "text"], [TEXTS, TEXTS]), "text")


VALUES = {
    "integers": [1, 2],
    "numbers": [1.5, None],
    "truths": [True, False],
    "times": [pandas.Timestamp("2024-01-01")] * 2,
    "missing": [float("nan")] * 2,
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_a_column_without_texts_is_refused(tmp_path, kind, values):
    source = polars.DataFrame({"text": values}) if kind == "polars" else table_with(kind, tmp_path, ["text"], [values])
    with refuses("text") as caught:
        open_source(source, "text")
    assert caught.value.value == "text"


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_column_of_lists_is_refused(tmp_path, kind):
    with refuses("text"):
        open_source(table_with(kind, tmp_path, ["text"], [[["A joy."], ["A bore."]]]), "text")


@pytest.mark.parametrize("kind", ["pandas", "arrow", "parquet"])
def test_missing_texts_are_failures(explain, tmp_path, kind):
    source = table_with(kind, tmp_path, ["text"], [["A joy.", None, "A bore."]])
    explained = corpus.explain(explain, source, tmp_path / "out", progress=False)
    assert explained.failures()["text_id"].tolist() == [1] and len(explained) == 2


@cases("kind", ["string", "large_string", "string_view", "binary", "large_binary"])
def test_every_type_of_strings_is_read(kind):
    values = [text.encode() for text in TEXTS] if "binary" in kind else TEXTS
    table = pyarrow.table({"text": pyarrow.array(values, getattr(pyarrow, kind)())})
    assert list(open_source(table, "text").rows) == TEXTS


@cases("dtype", ["object", "str", "string", "category", "string[python]"])
def test_every_type_of_strings_in_a_data_frame_is_read(dtype):
    assert list(open_source(pandas.DataFrame({"text": TEXTS}, dtype=dtype), "text").rows) == TEXTS


@cases("columns", [("a",), ["a", "b"], ("a", "b", "c"), 3])
def test_text_must_be_a_name_or_a_pair_of_names(columns):
    with refuses("text"):
        open_source(TEXTS, columns)


@cases("wrong", [7, {"text": TEXTS}, "no/such.jsonl", b"bytes"[0]])
def test_other_sources_are_refused(wrong):
    with refuses("source"):
        open_source(wrong, "text")


def test_unknown_file_formats_are_refused(tmp_path):
    (tmp_path / "corpus.xlsx").touch()
    with refuses("source", UnknownName) as caught:
        open_source(tmp_path / "corpus.xlsx", "text")
    assert caught.value.valid == (".parquet", ".csv", ".jsonl")


# Sources with rows that cannot be explained. The first and the last row can be, and the last one is truncated. Each
# function returns the source and, for each of the other rows, words of its stored error.


def bad_jsonl(folder):
    lines = [
        b'{"text": "A joy."}',
        b'{"text": ""}',
        b'{"text": null}',
        b'{"text": 3}',
        b'{"text": "\xff"}',
        b"{",
        b'{"t": 1}',
        b'{"text": "\\ud800"}',
        b"[1]",
        json.dumps({"text": "joy " * 500}).encode(),
    ]
    path = folder / "bad.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path, ["empty", "None", "3", "UTF-8", "JSON", "'text'", "surrogate", "JSON object"]


def bad_csv(folder):
    path = folder / "bad.csv"
    path.write_bytes(b'n,text\n1,A joy.\n2,\n3\n4,caf\xe9\n5,"' + b"joy " * 50_000 + b'"\n')
    return path, ["empty", "1 field", "UTF-8"]


def bad_parquet(folder):
    path = folder / "bad.parquet"
    values = [b"A joy.", b" ", None, b"caf\xe9", b"joy " * 500]
    offsets = pyarrow.array(values, pyarrow.binary())
    texts = pyarrow.Array.from_buffers(pyarrow.string(), len(values), offsets.buffers(), offsets.null_count)
    parquet.write_table(pyarrow.table({"text": texts}), path)
    return path, ["empty", "None", "UTF-8"]


def bad_frame(folder):
    values = ["A joy.", "", None, 3, float("nan"), "\ud800", ["A", "list"], "joy " * 500]
    frame = pandas.DataFrame({"text": pandas.Series(values, dtype=object)})
    return frame, ["empty", "None|nan", "3", "nan", "surrogate", "list|A"]


@pytest.mark.parametrize("create", [bad_jsonl, bad_csv, bad_parquet, bad_frame])
def test_rows_that_cannot_be_explained_are_stored_with_their_errors(explain, tmp_path, create):
    source, expected = create(tmp_path)
    explained = corpus.explain(explain, source, tmp_path / "out", shard_rows=3, progress=False)
    failures = explained.failures()
    assert failures["text_id"].tolist() == list(range(1, len(expected) + 1))
    for error, words in zip(failures["error"], expected, strict=True):
        assert any(word in error for word in words.split("|")), (error, words)
    assert (explained.failed, explained.truncated, len(explained)) == (len(expected), 1, 2)
    assert explained[0].text == "A joy." and explained[1].row.dropped > 0
    assert f"{len(expected)} failed, 1 truncated" in repr(explained)
    with refuses("i") as caught:
        explained.saliency(1)
    assert failures["error"][0] in str(caught.value)


def test_a_text_that_fails_does_not_affect_its_batch(explain, tmp_path, monkeypatch):
    logits = explain.subject.logits

    def failing_logits(inputs):
        if inputs["input_ids"].eq(explain.subject.encode("bore")[0].ids[1]).any():
            raise RuntimeError("failed")
        return logits(inputs)

    monkeypatch.setattr(explain.subject, "logits", failing_logits)
    explained = corpus.explain(explain, ["A joy.", "bore", "A film."], tmp_path, progress=False)
    assert explained.failures()["error"].tolist() == ["RuntimeError: failed"]
    assert [s.text for s in explained] == ["A joy.", "A film."]


def test_scores_that_are_not_finite_are_a_failure(explain, tmp_path, monkeypatch):
    method = type(explain.method)
    monkeypatch.setattr(method, "scores", lambda self, trace: trace.hidden[self.chosen].sum(-1) * float("nan"))
    explained = corpus.explain(explain, ["A joy."], tmp_path, progress=False)
    (error,) = explained.failures()["error"]
    assert "gradcam" in error and "NaN" in error
