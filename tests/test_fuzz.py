"""Test that odd arguments and damaged files give a result or one of nbsal's errors, never another exception."""

import json
import os
import shutil
import socket
import time

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbsal
from nbsal import corpus
from nbsal.corpus import storage
from nbsal.corpus.sources import open_source
from nbsal.corpus.storage import LOCK, Storage
from nbsal.errors import NbsalError
from nbsal.heads import HeadMask, HeadStudy, Parse
from nbsal.heads.parses import from_conllu
from tests import fuzzing
from tests.axioms import TEXTS
from tests.cases import cases
from tests.corpus import kills
from tests.heads.test_heads import CONTRACTION


def fuzz(examples, **strategies):
    """Run a test on that many examples, which are the same in every run."""
    suppressed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    options = settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=suppressed
    )
    return lambda test: options(given(**strategies)(test))


@st.composite
def damages(draw, most=4):
    """A list of damages to a file: (kind, place as a share of its length, bytes)."""
    kind = st.sampled_from(("flip", "cut", "drop", "put", "swap"))
    return draw(
        st.lists(st.tuples(kind, st.floats(0, 1), st.binary(min_size=1, max_size=6)), min_size=1, max_size=most)
    )


def damage(data, damages):
    """The bytes of a file after the damages."""
    for kind, share, content in damages:
        at = int(share * len(data))
        if kind == "flip" and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (content[0] or 1)]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + content[0] :]
        elif kind == "put":
            data = data[:at] + content + data[at:]
        elif kind == "swap":
            data = data[at:] + data[:at]
    return data


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.just(10**30), st.floats(), st.text(max_size=4),
    st.lists(st.integers(-2, 3), max_size=3), st.just([[]]), st.just([[1, 0], [1]]),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)  # fmt: skip


def paths(value, path=()):
    """The path to every value within a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from paths(part, (*path, key))


def replace_at(value, path, replacement):
    """A copy of a JSON value with another value at one path."""
    if not path:
        return replacement
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replace_at(copy[path[0]], path[1:], replacement)
    return copy


def replace_random(data, share, replacement):
    """JSON data with another value at a path chosen by `share`; all depths are equally likely."""
    value = json.loads(data)
    depths = sorted({len(path) for path in paths(value)})
    depth = depths[int(share * (len(depths) - 1e-9))]
    candidates = [path for path in paths(value) if len(path) == depth]
    path = candidates[int(share * 7919) % len(candidates)]
    return json.dumps(replace_at(value, path, replacement)).encode()


DEEP = b"[" * 100_000


@pytest.fixture(scope="module")
def saved(load, tmp_path_factory):
    """A folder with one file of each kind that nbsal saves."""
    folder = tmp_path_factory.mktemp("saved")
    nbsal.Explainer(load("bert"), "decoded-gradcam")(("A warm film \U0001f600.", "A joy.")).save(folder / "saliency")
    HeadMask([[1, 0], [0, 0]], {"nsubj": [[0, 1], [0, 0]]}, [[0, 0], [0, 1]]).save(folder / "mask")
    parse = Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    nbsal.heads.study(load("bert"), [parse], progress=False).save(folder / "study")
    nbsal.evaluation.games(nbsal.Explainer(load("bert"), "gradcam"), TEXTS, random=0, progress=False).save(
        folder / "results"
    )
    return folder


def use_results(path):
    results = nbsal.evaluation.results.Results.load(path)
    assert results.frame is not None and results.auc() is not None and repr(results)


def use_saliency(path):
    saliency = nbsal.Saliency.load(path)
    assert saliency.to_html() and saliency.to_terminal() and repr(saliency)
    for frame in (saliency.to_frame(), saliency.by_word(), saliency.top(3)):
        assert frame is not None


def use_mask(path):
    mask = HeadMask.load(path)
    assert (mask | ~mask).selected.all() and hash(mask) is not None and repr(mask)
    mask.matched_random(0), mask.corrupted(0.5, 0), mask.parts(weighted=True)


def use_study(path):
    results = HeadStudy.load(path)
    assert results.relations is not None and results.positions is not None and results.offsets is not None
    assert results.mask() is not None and repr(results + results)


USES = {"saliency": use_saliency, "mask": use_mask, "study": use_study, "results": use_results}
JSON = ("saliency", "mask", "study")


def refused(function, *arguments):
    """Whether a call raised one of nbsal's errors; any other exception fails the test."""
    try:
        function(*arguments)
    except NbsalError as error:
        assert str(error)
        return True
    return False


@pytest.mark.parametrize("name", USES)
@fuzz(60, done=damages())
def test_damaged_saved_files(saved, tmp_path, name, done):
    path = tmp_path / "damaged"
    path.write_bytes(damage((saved / name).read_bytes(), done))
    refused(USES[name], path)


@pytest.mark.parametrize("name", JSON)
@fuzz(60, share=st.floats(0, 1), value=VALUES)
def test_saved_files_with_a_wrong_value(saved, tmp_path, name, share, value):
    path = tmp_path / "wrong"
    path.write_bytes(replace_random((saved / name).read_bytes(), share, value))
    refused(USES[name], path)


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe", b"[]", b"{}", b"NaN", DEEP], ids=lambda c: c[:8])
@pytest.mark.parametrize("name", USES)
def test_other_files_are_refused(tmp_path, name, content):
    (tmp_path / "other").write_bytes(content)
    assert refused(USES[name], tmp_path / "other")


@fuzz(80, done=damages())
def test_damaged_parses(tmp_path, done):
    path = tmp_path / "parses.conllu"
    path.write_bytes(damage(CONTRACTION.encode(), done))
    refused(from_conllu, path)


CELLS = st.sampled_from(["", "_", "0", "-1", "99", "1-2", "2-1", "1.1", "1-99999999", "x", "a=b|c", "|", "#", "\u0085"])


@fuzz(60, column=st.integers(0, 9), row=st.integers(0, 11), cell=CELLS, text=st.booleans())
def test_parses_with_a_wrong_cell(column, row, cell, text):
    lines = CONTRACTION.split("\n")[0 if text else 1 :]
    cells = lines[row % len(lines)].split("\t")
    cells[column % len(cells)] = cell
    lines[row % len(lines)] = "\t".join(cells)
    refused(from_conllu, "\n".join(lines))


ROWS = [*TEXTS, " ", "A joy."]


@pytest.fixture(scope="module")
def explainer(load):
    return nbsal.Explainer(load("bert", dtype="float32"), "gradcam")


@pytest.fixture(scope="module")
def explained(explainer, tmp_path_factory):
    """The folder of a small corpus."""
    out = tmp_path_factory.mktemp("corpus")
    corpus.explain(explainer, ROWS, out, shard_rows=3, progress=False)
    return out


def use_corpus(out):
    """Call every method of a corpus; raise the first error only after all of them were called."""
    opened = corpus.open(out)
    calls = [lambda: opened.saliency(1), lambda: list(opened), opened.to_frame, opened.failures, opened.clouds]
    failing = [call for call in calls if refused(call)]
    assert repr(opened) and len(opened) == 5
    if failing:
        failing[0]()


FILES = ("_manifest.json", "_vocabulary.json", "part-000001.parquet")


@pytest.mark.parametrize("name", FILES)
@fuzz(25, done=damages(2))
def test_damage_to_a_corpus_is_noticed(explained, tmp_path_factory, name, done):
    out = tmp_path_factory.mktemp("damaged") / "corpus"
    shutil.copytree(explained, out)
    before = (explained / name).read_bytes()
    (out / name).write_bytes(damage(before, done))
    assert refused(use_corpus, out) == ((out / name).read_bytes() != before)


@cases("name", FILES)
def test_a_missing_file_of_a_corpus_is_noticed(explained, tmp_path, name):
    shutil.copytree(explained, tmp_path / "corpus")
    (tmp_path / "corpus" / name).unlink()
    assert refused(use_corpus, tmp_path / "corpus")


@pytest.mark.parametrize("name", FILES[1:])
def test_explaining_a_corpus_again_repairs_it(explainer, explained, tmp_path, name):
    out = tmp_path / "corpus"
    shutil.copytree(explained, out)
    (out / name).write_bytes(b"[")
    corpus.explain(explainer, ROWS, out, shard_rows=3, progress=False)
    assert kills.files(out) == kills.files(explained)


OWNERS = st.dictionaries(st.sampled_from(["host", "pid", "began"]), VALUES)


@pytest.mark.filterwarnings("ignore::UserWarning")
@fuzz(40, lock=st.one_of(st.binary(max_size=20), st.just(DEEP), OWNERS.map(lambda owner: json.dumps(owner).encode())))
def test_a_damaged_lock_is_taken_over_or_refused(tmp_path_factory, monkeypatch, lock):
    monkeypatch.setattr(storage, "HALF_WRITTEN", 0.05)
    folder = tmp_path_factory.mktemp("locked")
    (folder / LOCK).write_bytes(lock.replace(b'"host": null', b'"host": "%s"' % socket.gethostname().encode()))

    def lock_folder():
        with Storage(folder).lock():
            pass

    refused(lock_folder)


TABLE = pandas.DataFrame({"text": [*TEXTS, "caf\u00e9 \U0001f600"], "n": range(5)})


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    TABLE.to_csv(folder / "one.csv", index=False)
    TABLE.to_csv(folder / "one.csv.gz", index=False)
    TABLE.to_json(folder / "one.jsonl", orient="records", lines=True)
    TABLE.to_json(folder / "one.jsonl.gz", orient="records", lines=True)
    TABLE.to_parquet(folder / "one.parquet")
    return folder


@pytest.mark.parametrize("name", ["one.csv", "one.csv.gz", "one.jsonl", "one.jsonl.gz", "one.parquet"])
@fuzz(40, done=damages())
def test_damaged_sources(sources, tmp_path, name, done):
    path = tmp_path / name
    path.write_bytes(damage((sources / name).read_bytes(), done))
    refused(lambda: list(open_source(path, "text").rows))


@pytest.fixture
def objects(load, tmp_path, monkeypatch):
    """Valid objects of every kind, on a tiny model; files that calls write lie in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return fuzzing.Objects(load("bert", dtype="float32", num_hidden_layers=2), tmp_path)


SEED = int(os.environ.get("NBSAL_SEED", time.time_ns() % 1000))  # each run draws other odd values


def assert_no_bare_errors(calls, share, least):
    cases, bare = fuzzing.bare_errors(calls, share, SEED)
    assert not bare, "\n".join([f"NBSAL_SEED={SEED} repeats these odd values:", *bare])
    assert cases >= least


def test_odd_arguments_of_every_public_call(objects):
    assert_no_bare_errors(fuzzing.discover(objects), 20, 450)


@pytest.mark.full
def test_all_odd_arguments_of_every_public_call(objects):
    assert_no_bare_errors(fuzzing.discover(objects), 1, 10_000)


def test_odd_arguments_and_traits_of_every_view(objects):
    assert_no_bare_errors(fuzzing.discover_views(objects), 20, 450)


@pytest.mark.full
def test_all_odd_arguments_of_every_view(objects):
    assert_no_bare_errors(fuzzing.discover_views(objects), 1, 9_000)


def test_a_call_without_checks_is_noticed(objects):
    call = fuzzing.call_of("unchecked", lambda text, count=1: text * count, objects)
    cases, bare = fuzzing.bare_errors([call])
    assert cases == 2 * len(fuzzing.ODD) and any("TypeError" in case for case in bare)
    with pytest.raises(AssertionError, match="GOOD"):
        fuzzing.call_of("new", lambda something_else: None, objects)
