"""Sources of texts, and rows that cannot be explained."""

import re

import pandas
import polars
import pyarrow
from pyarrow import parquet

from nbsal import corpus
from nbsal.corpus.sources.open import UnreadableRow, open_source
from nbsal.support.errors import UnknownName
from tests.cases import cases
from tests.raising import refuses

TEXTS = ["A joy.", "Une pièce, 悲しい.", 'He said "no",\nthen left.']
FRAME = pandas.DataFrame({"text": TEXTS, "n": range(len(TEXTS))})


def create_source(kind, folder):
    """The texts as a source on disk."""
    path = folder / f"corpus.{kind}"
    if kind == "parquet":
        FRAME.to_parquet(path)
    elif kind == "csv":
        FRAME.to_csv(path, index=False)
    elif "jsonl" in kind:
        FRAME.to_json(path, orient="records", lines=True)
    else:
        path.mkdir()
        FRAME[:2].to_parquet(path / "a.parquet")
        FRAME[2:].to_parquet(path / "b.parquet")
    return path


@cases("kind", ["parquet", "csv", "jsonl", "jsonl.gz", "folder"])
def test_files_and_folders(tmp_path, kind):
    path = create_source(kind, tmp_path)
    source = open_source(path, "text")
    assert list(source.rows) == TEXTS and source.total == len(TEXTS)
    if "jsonl" not in kind:
        with refuses("text", UnknownName) as caught:
            open_source(path, "review")
        assert caught.value.valid == ("text", "n")


@cases("kind, rows", [(kind, rows) for kind in ("csv", "jsonl", "parquet") for rows in (1, 5)])
def test_a_file_that_changes_while_it_is_read_is_not_complete(explain, tmp_path, kind, rows):
    """The error has both counts; the finished shards stay, and the run goes on once the file is whole."""
    path, folder = create_source(kind, tmp_path), tmp_path / "out"
    whole = path.read_bytes()
    source = open_source(path, "text")
    other = tmp_path / "other"
    other.mkdir()
    changed = pandas.DataFrame({"text": (TEXTS * 2)[:rows], "n": range(rows)})
    getattr(changed, f"to_{'json' if kind == 'jsonl' else kind}")(
        path, **{"csv": {"index": False}, "jsonl": {"orient": "records", "lines": True}}.get(kind, {})
    )
    with refuses("source") as caught:
        list(source.rows)
    if kind != "parquet" or rows < len(TEXTS):
        assert {"3", str(rows)} <= set(re.findall(r"\d+", str(caught.value).removeprefix(str(path))))
    path.write_bytes(whole)
    assert corpus.explain(explain, path, folder, shard_rows=2, progress=False).complete


def test_a_folder_that_gets_another_file_while_it_is_read_is_not_complete(tmp_path):
    folder = create_source("folder", tmp_path)
    rows = open_source(folder, "text").rows
    assert next(rows) == TEXTS[0]
    FRAME.to_parquet(folder / "c.parquet")
    with refuses("source") as caught:
        list(rows)
    assert "3 rows" in str(caught.value) and "6" in str(caught.value)


def arrow_table(kind):
    values = [text.encode() if "binary" in kind else text for text in TEXTS]
    return pyarrow.table({"text": pyarrow.array(values, getattr(pyarrow, kind)())})


@cases(
    "source",
    [
        TEXTS,
        FRAME,
        polars.from_pandas(FRAME),
        pyarrow.Table.from_pandas(FRAME),
        FRAME.to_dict("records"),
        pandas.Series(TEXTS),
        polars.Series(TEXTS),
        pyarrow.array(TEXTS),
        pyarrow.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pyarrow.array(TEXTS).dictionary_encode(),
        *map(arrow_table, ["string", "large_string", "string_view", "binary", "large_binary"]),
        *(FRAME.astype({"text": dtype}) for dtype in ["object", "str", "string", "category", "string[python]"]),
    ],
)
def test_tables_and_columns_in_memory(source):
    rows = open_source(source, "text")
    assert list(rows.rows) == TEXTS and rows.total == len(TEXTS)


def test_columns_of_categories_and_pairs(tmp_path):
    values = [*TEXTS, None, TEXTS[0]]
    frame = pandas.DataFrame({"text": pandas.Categorical(values), "b": "Two."})
    frame.to_parquet(tmp_path / "corpus.parquet")
    for source in (tmp_path / "corpus.parquet", pyarrow.Table.from_pandas(frame), polars.from_pandas(frame)):
        assert list(open_source(source, "text").rows) == values
    rows = list(open_source(frame, ("text", "b")).rows)
    assert rows[0] == (TEXTS[0], "Two.") and rows[3][1] == "Two."


def test_rows_and_tables_of_datasets_need_the_column():
    class Split(list):
        column_names = ("text", "n")

        def to_list(self):
            raise MemoryError("read the whole split at once")

    split = Split({"text": text, "n": 0} for text in TEXTS)
    assert list(open_source(split, "text").rows) == TEXTS
    rows = [{"text": "One.", "n": 1}, {"n": 2}]
    assert isinstance(list(open_source(rows, "text").rows)[1], UnreadableRow)
    for source in (split, rows):
        with refuses("text", UnknownName) as caught:
            open_source(source, "review")
        assert caught.value.valid == ("text", "n")


def table_with(kind, folder, names, arrays):
    """A table as that kind of source."""
    table = pyarrow.Table.from_arrays([pyarrow.array(array) for array in arrays], names=names)
    if kind == "parquet":
        parquet.write_table(table, folder / "corpus.parquet")
        return folder / "corpus.parquet"
    frame = pandas.DataFrame(dict(enumerate(arrays)))
    frame.columns = names
    return {"arrow": table, "pandas": frame, "polars": polars.from_arrow(table) if len(names) == 1 else None}[kind]


@cases("kind", ["pandas", "arrow", "parquet"])
def test_a_text_column_that_exists_twice_is_refused(tmp_path, kind):
    source = table_with(kind, tmp_path, ["text", "text", "n"], [TEXTS, TEXTS, TEXTS])
    if kind == "parquet":
        with refuses("path"):  # Arrow reads no other column of it either
            open_source(source, "text")
        return
    for columns in ("text", ("n", "text")):
        with refuses("text"):
            open_source(source, columns)
    assert list(open_source(source, "n").rows) == TEXTS


TIME = pandas.Timestamp("2024-01-01")
VALUES = [[1, 2], [1.5, None], [True, False], [TIME, TIME], [float("nan")] * 2, [["A joy."], ["A bore."]]]


@cases("kind", ["pandas", "polars", "arrow", "parquet"])
def test_a_column_without_texts_is_refused(tmp_path, kind):
    for values in VALUES[:5] if kind in ("pandas", "polars") else VALUES:
        with refuses("text"):
            open_source(table_with(kind, tmp_path, ["text"], [values]), "text")


def test_wrong_sources_and_columns_are_refused(tmp_path):
    for columns in (("a",), ["a", "b"], ("a", "b", "c"), 3):
        with refuses("text"):
            open_source(TEXTS, columns)
    for wrong in (7, {"text": TEXTS}, "no/such.jsonl"):
        with refuses("source"):
            open_source(wrong, "text")
    (tmp_path / "corpus.xlsx").touch()
    with refuses("source", UnknownName) as caught:
        open_source(tmp_path / "corpus.xlsx", "text")
    assert caught.value.valid == (".parquet", ".csv", ".jsonl")


# Sources with rows that cannot be explained. The first and the last row can be, and the last one is truncated. Each
# function returns the source and the number of the other rows.


def bad_parquet(folder):
    path = folder / "bad.parquet"
    values = [b"A joy.", b" ", None, b"caf\xe9", b"joy " * 500]
    offsets = pyarrow.array(values, pyarrow.binary())
    texts = pyarrow.Array.from_buffers(pyarrow.string(), len(values), offsets.buffers(), offsets.null_count)
    parquet.write_table(pyarrow.table({"text": texts}), path)
    return path, 3


def bad_frame(folder):
    values = ["A joy.", "", None, 3, float("nan"), "\ud800", ["A", "list"], "joy " * 500]
    return pandas.DataFrame({"text": pandas.Series(values, dtype=object)}), 6


@cases("create", [bad_parquet, bad_frame])
def test_rows_that_cannot_be_explained_are_stored_with_their_errors(explain, tmp_path, create):
    source, count = create(tmp_path)
    explained = corpus.explain(explain, source, tmp_path / "out", shard_rows=3, progress=False)
    failures = explained.failures()
    assert failures["text_id"].tolist() == list(range(1, count + 1)) and failures["error"].str.strip().all()
    unreadable = [row.reason for row in open_source(source, "text").rows if isinstance(row, UnreadableRow)]
    assert {*unreadable} <= {*failures["error"]} and bool(unreadable) == (create is bad_parquet)
    assert (explained.failed, explained.truncated, len(explained)) == (count, 1, 2)
    assert explained[0].text == "A joy." and explained[1].row.dropped > 0
    assert f"{count} failed, 1 truncated" in repr(explained)
    with refuses("i") as caught:
        explained.saliency(1)
    assert failures["error"][0] in str(caught.value)


def test_a_text_that_fails_does_not_affect_its_batch(explain, tmp_path, monkeypatch):
    logits = explain.subject.logits

    def failing_logits(inputs):
        if inputs["input_ids"].eq(explain.subject.encode("bore")[0].ids[1]).any():
            raise RuntimeError("failed")
        return logits(inputs)

    with monkeypatch.context() as patch:
        patch.setattr(explain.subject, "logits", failing_logits)
        explained = corpus.explain(explain, ["A joy.", "bore", "A film."], tmp_path / "one", progress=False)
    assert explained.failures()["error"].tolist() == ["RuntimeError: failed"]
    assert [s.text for s in explained] == ["A joy.", "A film."]
    method = type(explain.method)
    monkeypatch.setattr(method, "scores", lambda self, trace: trace.hidden[self.chosen].sum(-1) * float("nan"))
    (error,) = corpus.explain(explain, ["A joy."], tmp_path / "two", progress=False).failures()["error"]
    assert "gradcam" in error and "NaN" in error
