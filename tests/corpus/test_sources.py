"""Sources: where texts come from, and rows that cannot be explained."""

import gzip
import json

import pandas
import polars
import pyarrow
import pytest
from pyarrow import parquet

from nbsal import corpus
from nbsal.corpus.sources import open_source
from nbsal.errors import InputError, UnknownName

TEXTS = ["A joy.", "Une pièce, 悲しい.", 'He said "no",\nthen left.']


def given(kind, folder):
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


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_its_texts(tmp_path, kind):
    source = open_source(given(kind, tmp_path), "text")
    assert list(source.rows) == TEXTS and source.total == len(TEXTS)


@pytest.mark.parametrize(
    "column",
    [
        pandas.Series(TEXTS),
        polars.Series(TEXTS),
        pyarrow.array(TEXTS),
        pyarrow.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pyarrow.array(TEXTS).dictionary_encode(),
    ],
    ids=["pandas", "polars", "array", "chunked", "dictionary"],
)
def test_a_column_is_its_texts(column):
    source = open_source(column, "text")
    assert list(source.rows) == TEXTS and source.total == len(TEXTS)


def categories(kind, folder):
    """The texts as categories, as dictionaries of Arrow, one of them missing."""
    frame = pandas.DataFrame({"text": pandas.Categorical([*TEXTS, None, TEXTS[0]])})
    if kind == "parquet":
        frame.to_parquet(folder / "corpus.parquet")
        return folder / "corpus.parquet"
    return pyarrow.Table.from_pandas(frame) if kind == "arrow" else polars.from_pandas(frame)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "polars"])
def test_categories_are_texts(tmp_path, kind):
    assert list(open_source(categories(kind, tmp_path), "text").rows) == [*TEXTS, None, TEXTS[0]]


def test_datasets_are_rows_with_named_columns():
    class Split(list):
        column_names = ("text", "label")

        def to_list(self):
            raise MemoryError("the whole split at once")

    split = Split({"text": text, "label": 0} for text in TEXTS)
    assert list(open_source(split, "text").rows) == TEXTS
    with pytest.raises(UnknownName, match="text, label"):
        open_source(split, "review")


@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas", "arrow"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path, kind):
    with pytest.raises(UnknownName, match=r"review.*Valid: text, n"):
        list(open_source(given(kind, tmp_path), "review").rows)


def test_pairs_are_two_columns():
    frame = pandas.DataFrame({"a": ["One.", None], "b": ["Two.", "Three."]})
    first, second = open_source(frame, ("a", "b")).rows
    assert first == ("One.", "Two.") and second[1] == "Three."


@pytest.mark.parametrize("columns", [("a",), ["a", "b"], ("a", "b", "c"), 3])
def test_columns_are_a_name_or_a_pair_of_them(columns):
    with pytest.raises(InputError, match="the two columns of a pair"):
        open_source(TEXTS, columns)


@pytest.mark.parametrize("wrong", [7, {"text": TEXTS}, "no/such.jsonl", b"bytes"[0]])
def test_what_is_no_source_is_refused(wrong):
    with pytest.raises(InputError):
        open_source(wrong, "text")


def test_unknown_endings_are_refused_with_the_known_ones(tmp_path):
    (tmp_path / "corpus.xlsx").touch()
    with pytest.raises(UnknownName, match=r"\.parquet, \.csv, \.jsonl"):
        open_source(tmp_path / "corpus.xlsx", "text")


def bad_jsonl(folder):
    """Seven rows, the first and the last of them sound."""
    lines = [
        b'{"text": "A joy."}',
        b'{"text": ""}',
        b'{"text": null}',
        b'{"text": 3}',
        b'{"text": "\xff"}',
        b"{",
        b'{"t": 1}',
    ]
    lines += [b'{"text": "\\ud800"}', b"[1]", json.dumps({"text": "joy " * 500}).encode()]
    path = folder / "bad.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    said = [
        "empty or blank",
        "not None",
        "not 3",
        "not UTF-8",
        "no JSON",
        "no 'text', only t",
        "surrogate",
        "no JSON object",
    ]
    return path, said


def bad_csv(folder):
    path = folder / "bad.csv"
    path.write_bytes(b'n,text\n1,A joy.\n2,\n3\n4,caf\xe9\n5,"' + b"joy " * 50_000 + b'"\n')
    return path, ["empty or blank", "not None", "not UTF-8"]


def bad_parquet(folder):
    path = folder / "bad.parquet"
    values = [b"A joy.", b" ", None, b"caf\xe9", b"joy " * 500]
    offsets = pyarrow.array(values, pyarrow.binary())
    texts = pyarrow.Array.from_buffers(pyarrow.string(), len(values), offsets.buffers(), offsets.null_count)
    parquet.write_table(pyarrow.table({"text": texts}), path)
    return path, ["empty or blank", "not None", "not UTF-8"]


def bad_frame(folder):
    values = ["A joy.", "", None, 3, float("nan"), "\ud800", ["A", "list"], "joy " * 500]
    said = ["empty or blank", "None|nan", "not 3", "nan", "surrogate", "list|A"]
    return pandas.DataFrame({"text": pandas.Series(values, dtype=object)}), said


@pytest.mark.parametrize("made", [bad_jsonl, bad_csv, bad_parquet, bad_frame])
def test_bad_rows_are_written_down_with_their_errors_and_the_run_goes_on(explain, tmp_path, made):
    source, said = made(tmp_path)
    opened = corpus.explain(explain, source, tmp_path / "out", shard_rows=3, progress=False)
    failures = opened.failures()
    assert failures["text_id"].tolist() == list(range(1, len(said) + 1))
    assert failures["error"].str.contains(pandas.Series(said).iloc[0]).iloc[0]
    for error, sentence in zip(failures["error"], said, strict=True):
        assert any(part in error for part in sentence.split("|")), (error, sentence)
    assert (opened.failed, opened.cut, len(opened)) == (len(said), 1, 2)
    assert opened[0].text == "A joy." and opened[1].row.dropped > 0
    assert f"{len(said)} failed, 1 cut" in repr(opened)
    with pytest.raises(InputError, match=r"Row 1 was not explained: .*blank"):
        opened.saliency(1)


def test_a_text_that_a_model_chokes_on_harms_no_other_of_its_batch(explain, tmp_path, monkeypatch):
    logits = explain.subject.logits

    def choking(inputs):
        if inputs["input_ids"].eq(explain.subject.encode("bore")[0].ids[1]).any():
            raise RuntimeError("choked")
        return logits(inputs)

    monkeypatch.setattr(explain.subject, "logits", choking)
    opened = corpus.explain(explain, ["A joy.", "bore", "A film."], tmp_path, progress=False)
    assert opened.failures()["error"].tolist() == ["RuntimeError: choked"]
    assert [s.text for s in opened] == ["A joy.", "A film."]


def test_scores_that_are_not_finite_are_a_failure(explain, tmp_path, monkeypatch):
    kind = type(explain.method)
    monkeypatch.setattr(kind, "scores", lambda self, trace: trace.hidden[self.chosen].sum(-1) * float("nan"))
    opened = corpus.explain(explain, ["A joy."], tmp_path, progress=False)
    assert opened.failures()["error"].tolist() == ["A score of gradcam is NaN or infinite."]
