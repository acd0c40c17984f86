"""Damage to a stored corpus: nothing is read whose bytes were not checked."""

import io
import random
import shutil
import warnings

import pytest
from pyarrow import parquet

import nbsal
from nbsal import corpus
from nbsal.corpus.folder.storage import Storage
from nbsal.support.errors import NbsalError
from tests.corpus.kills import files
from tests.raising import refuses


@pytest.fixture(scope="module")
def intact(load, texts, tmp_path_factory):
    """The folder of a corpus of two methods in two shards."""
    out = tmp_path_factory.mktemp("intact")
    subject = load("bert", dtype="float32")
    explainers = [nbsal.Explainer(subject, name) for name in ("gradcam", "gradxact")]
    corpus.explain(explainers, texts[:16], out, shard_rows=8, progress=False)
    return out


READS = {
    "to_frame": lambda out: corpus.open(out).to_frame().to_json(),
    "columns": lambda out: corpus.open(out).to_frame(["text_id", "prediction", "gradcam"]).to_json(),
    "failures": lambda out: corpus.open(out).failures().to_json(),
    "saliency": lambda out: [repr(vars(s)) for s in corpus.open(out).saliencies("gradxact")],
    "verify": lambda out: corpus.open(out).verify(),
    "lazy": lambda out: corpus.open(out).verify() or corpus.open(out).dataset.to_table().to_pandas().to_json(),
}


def read(name, out):
    """What a read gives, or None if it is an error of ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return READS[name](out)
    except NbsalError:
        return None


def test_no_flipped_bit_changes_an_answer(intact, tmp_path):
    out, generator = shutil.copytree(intact, tmp_path / "out"), random.Random(0)
    truths = {name: read(name, intact) for name in READS}
    assert None not in truths.values()
    reads = refused = 0
    for path in sorted(out.iterdir()):
        data = path.read_bytes()
        for place in [generator.randrange(len(data)) for _ in range(6)] + [0, 3, -1, -6]:
            flipped = bytearray(data)
            flipped[place] ^= 1 << generator.randrange(8)
            path.write_bytes(flipped)
            answers = {name: read(name, out) for name in READS}
            assert all(answer is None or answer == truths[name] for name, answer in answers.items())
            reads += len(answers)
            refused += list(answers.values()).count(None)
        path.write_bytes(data)
    assert refused > reads / 2
    first, second = (out / f"part-{number:06}.parquet" for number in (0, 1))
    first.rename(tmp_path / "first")
    second.rename(first)
    (tmp_path / "first").rename(second)
    assert {read(name, out) for name in READS} == {None}, "shards were exchanged"


@pytest.mark.parametrize("location", ["", "memory://sizes"])
def test_opening_compares_sizes_and_reads_no_shard(intact, tmp_path, monkeypatch, location):
    storage, reads = Storage(location or tmp_path), []
    for name, data in files(intact).items():
        storage.write(name, data)
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "read", lambda self, name: reads.append(name) or storage.files.cat(self.path_of(name)))
        corpus.open(storage.location)
    assert reads == ["_manifest.json"]
    storage.write("part-000001.parquet", storage.read("part-000001.parquet")[:-3])
    with refuses("location"):
        corpus.open(storage.location)
    storage.remove("part-000001.parquet")
    with refuses("location"):
        corpus.open(storage.location)


def test_verify_names_every_damaged_file(intact, tmp_path):
    out = shutil.copytree(intact, tmp_path / "out")
    opened = corpus.open(out)
    assert opened.verify() == []
    names = ("part-000000.parquet", "part-000001.parquet", "_vocabulary.json")
    for name in names:
        data = bytearray((out / name).read_bytes())
        data[len(data) // 2] ^= 4
        (out / name).write_bytes(data)
    with refuses("location") as caught:
        opened.verify()
    assert all(name in str(caught.value) for name in names)
    for name in ("part-000000.parquet", "_manifest.json"):
        (out / name).unlink()
        with refuses("location"):
            opened.verify()


def test_stray_files_are_named_and_not_read(explain, intact, texts, tmp_path):
    out = shutil.copytree(intact, tmp_path / "out")
    strays = ("part-000002.parquet", "part-000000-copy.parquet", "part-x.tmp", "extra.parquet")
    for name in strays:
        shutil.copy(out / "part-000001.parquet", out / name)
    (out / "README.md").write_text("notes")
    with pytest.warns(UserWarning) as caught:
        opened = corpus.open(out)
    assert all(name in str(caught[0].message) for name in strays) and "README" not in str(caught[0].message)
    assert opened.verify() == sorted(strays)
    assert len(opened.to_frame()) == opened.dataset.count_rows() == opened.rows == 16
    assert len(opened) == len([text for text in texts[:16] if text])


def test_shards_have_page_checksums(intact):
    """Other readers can check them: a flipped bit in the data of a page is an error."""
    data = bytearray((intact / "part-000000.parquet").read_bytes())
    metadata = parquet.read_metadata(intact / "part-000000.parquet")
    column = metadata.row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    data[start + column.total_compressed_size - 2] ^= 1
    with pytest.raises(OSError, match=r"(?i)crc"):
        parquet.read_table(io.BytesIO(data), page_checksum_verification=True)


def swapped(table, name, other):
    """A table in which one column has the values of another."""
    return table.set_column(table.column_names.index(name), name, table[other])


FORGERIES = {
    "no metadata": lambda table: table.replace_schema_metadata({}),
    "no error": lambda table: table.drop_columns("error"),
    "no scores": lambda table: table.drop_columns("gradxact"),
    "text for tokens": lambda table: swapped(table, "token_ids", "prediction"),
    "text for probabilities": lambda table: swapped(table, "probabilities", "prediction"),
    "numbers for predictions": lambda table: swapped(table, "prediction", "probabilities"),
    "errors": lambda table: swapped(table, "error", "prediction"),
    "fewer rows": lambda table: table.slice(0, 1),
}
FORGED_READS = {name: read for name, read in READS.items() if name not in ("verify", "lazy")} | {
    "one": lambda out: corpus.open(out).saliency(9, "gradxact").scores,
    "clouds": lambda out: corpus.open(out).clouds("gradxact", unit="word").labels,
    "confidences": lambda out: corpus.open(out).confidences(),
    "predictions": lambda out: corpus.open(out).predictions(),
    "texts": lambda out: corpus.open(out).texts(),
    "index": lambda out: corpus.open(out)[-1].scores,
}


def test_a_shard_with_other_content_is_refused_whatever_is_read(intact, monkeypatch):
    """Its checksum may be right: whoever writes a shard can write the manifest too."""
    trusted, refused = Storage.read_verified, {}
    for forgery, change in FORGERIES.items():

        def read_forged(self, name, checksum, change=change):
            data = trusted(self, name, checksum)
            if name != "part-000001.parquet":
                return data
            buffer = io.BytesIO()
            parquet.write_table(change(parquet.read_table(io.BytesIO(data))), buffer)
            return buffer.getvalue()

        monkeypatch.setattr(Storage, "read_verified", read_forged)
        for name in FORGED_READS:
            try:
                FORGED_READS[name](intact)
            except NbsalError:
                refused.setdefault(forgery, set()).add(name)
    assert refused["fewer rows"] == set(FORGED_READS) and list(refused) == list(FORGERIES)
