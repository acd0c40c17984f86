"""CSV and JSONL files: no text is cut, swallowed or replaced silently."""

import csv
import gzip

import pytest

from nbsal.corpus.sources import text_files
from nbsal.corpus.sources.open import UnreadableRow, open_source
from nbsal.support.errors import UnknownName
from tests.cases import cases
from tests.raising import refuses


@pytest.fixture
def create(tmp_path):
    """create(content, name) writes a file; returns its path."""

    def create_file(content, name="corpus.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return create_file


def rows_of(path, text="text"):
    """The rows of a file, with the reason in place of each row that cannot be read."""
    source = open_source(path, text)
    rows = list(source.rows)
    assert source.total == len(rows)
    return [row.reason if isinstance(row, UnreadableRow) else row for row in rows]


CUT = {
    "leftover field": "A slow, dull film,neg",
    "two leftover fields": "A slow, dull, long film,neg",
    "only commas": ",,",
    "missing field": "A slow film",
    "NUL": "A\0 slow film,neg",
}


@pytest.mark.parametrize("line", CUT.values(), ids=CUT)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_rows_with_other_fields_than_the_header_are_not_explained(create, line, end):
    path = create(end.join(["text,label", "A joy.,pos", line, "", "A bore.,neg"]))
    first, error, last = rows_of(path)
    assert (first, last) == ("A joy.", "A bore.")
    assert path.name in error and "line 3" in error.lower()


LINES = text_files.MAX_ROW_LINES
QUOTES = {  # the content of a file, and the line of the quote
    "never closed": ('A joy.,pos\n"A slow film,neg\nA bore.,neg\nA hit.,pos\n', 3),
    "never closed, in the last line": ('A joy.,pos\nA bore.,"neg', 3),
    "opened in the second field": ('"A\njoy.","pos\nA bore.,neg\n', 3),
    "closed by the next quote": ('"A slow film,neg\nA bore.,neg\n"A hit.",pos\n', 2),
    "not doubled": ('A joy.,pos\n"He said "no" and left.",neg\n', 3),
    "after an escaped quote": ('A joy.,pos\n"He said ""no"" and left.,neg\n', 3),
    "closed much later": ('A joy.,pos\n"A slow film,neg\n' + "A bore.,neg\n" * LINES + 'A hit.",pos\n', 3),
}


@cases("content, line", QUOTES.values())
def test_a_file_with_a_quote_that_is_not_closed_is_refused_at_its_line(create, content, line):
    path = create("text,label\n" + content)
    with refuses("source") as caught:
        open_source(path, "text")
    assert path.name in str(caught.value) and f"line {line} " in str(caught.value) + " "


@cases("name", ["corpus.csv", "corpus.jsonl", "corpus.csv.gz"])
def test_a_byte_order_mark_is_not_part_of_the_content(create, name):
    content = b'\xef\xbb\xbf{"text": "A joy."}\n' if "jsonl" in name else b'\xef\xbb\xbf"text",n\nA joy.,1\n'
    assert rows_of(create(gzip.compress(content) if name.endswith("gz") else content, name)) == ["A joy."]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["corpus.csv", "corpus.jsonl"])
def test_wide_encodings_are_refused(create, encoding, name):
    content = '{"text": "Une pièce."}\n' if "jsonl" in name else "text,n\nUne pièce.,1\n"
    path = create(content.encode(encoding), name)
    with refuses("source") as caught:
        open_source(path, "text")
    assert path.name in str(caught.value) and "UTF-8" in str(caught.value)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "mac-roman", "shift-jis"])
@pytest.mark.parametrize("name", ["corpus.csv", "corpus.jsonl"])
def test_a_text_in_another_encoding_names_its_file_line_and_byte(create, encoding, name):
    text = "映画" if encoding == "shift-jis" else "Une pièce."
    content = f'{{"text": "A joy."}}\n{{"text": "{text}"}}\n' if "jsonl" in name else f"text,n\nA joy.,1\n{text},1\n"
    path = create(content.encode(encoding), name)
    byte = next(byte for byte in text.encode(encoding) if byte > 127)
    line = 2 if "jsonl" in name else 3
    first, error = rows_of(path)
    assert first == "A joy." and all(part in error for part in (path.name, f"line {line}", f"0x{byte:02x}", "UTF-8"))


def test_files_without_a_header_are_refused(create):
    for content in ("", "\n\n"):
        with refuses("text", UnknownName) as caught:
            open_source(create(content), "text")
        assert caught.value.valid == ()


def test_files_read_at_the_same_time_do_not_disturb_each_other(create):
    large = "word " * 50_000
    path, limit = create(f"text,n\nA joy.,1\n{large},2\n"), csv.field_size_limit()
    first, second = (open_source(path, "text").rows for _ in range(2))
    assert next(first) == next(second) == "A joy." and csv.field_size_limit() == limit
    assert list(first) == list(second) == [large] and csv.field_size_limit() == limit


DAMAGED = {
    "duplicate key": b'{"text": "A bore.", "text": "A hit."}',
    "escaped duplicate key": b'{"text": "A bore.", "\\u0074ext": "A hit."}',
    "half": b'{"text": "A bo',
    "two": b'{"text": "A bore."}{"text": "A hit."}',
    "list": b'["A bore."]',
    "string": b'"A bore."',
    "null": b"null",
    "no text": b'{"review": "A bore."}',
    "nested": b'{"row": {"text": "A bore."}}',
    "deep": b'{"text": ' + b"[" * 100_000,
    "NUL": b'{"text": "A\0 bore."}',
    "number": b'{"text": "A bore.", "n": ' + b"9" * 5000 + b"}",
}


@cases("line", DAMAGED.values())
def test_lines_that_are_not_rows_are_kept_with_their_errors(create, line):
    path = create(b'{"text": "A joy."}\n' + line + b'\n{"text": "A hit."}\n', "corpus.jsonl")
    first, error, last = rows_of(path)
    assert (first, last) == ("A joy.", "A hit.") and path.name in error and "line 2" in error.lower()
