"""Damaged input: whatever bytes lie in a file or on a command line, the answer is a result or a sentence."""

import json
import shutil
import socket

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbsal
from nbsal import corpus
from nbsal.corpus.sources import open_source
from nbsal.corpus.storage import LOCK, Storage
from nbsal.errors import NbsalError
from nbsal.heads import HeadMask, HeadStudy, Parse
from nbsal.heads.parses import from_conllu
from tests.axioms import TEXTS
from tests.corpus import kills
from tests.heads.test_heads import CONTRACTION


def fuzzed(count, **given_by):
    """Quick and always the same."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    options = settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=quiet)
    return lambda test: options(given(**given_by)(test))


@st.composite
def damages(draw, most=4):
    """What is done to a file: (how, where, with what)."""
    how = st.sampled_from(("flip", "cut", "drop", "put", "swap"))
    return draw(st.lists(st.tuples(how, st.floats(0, 1), st.binary(min_size=1, max_size=6)), min_size=1, max_size=most))


def damaged(data, done):
    """The file afterwards."""
    for how, where, what in done:
        at = int(where * len(data))
        if how == "flip" and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ (what[0] or 1)]) + data[at + 1 :]
        elif how == "cut":
            data = data[:at]
        elif how == "drop":
            data = data[:at] + data[at + what[0] :]
        elif how == "put":
            data = data[:at] + what + data[at:]
        elif how == "swap":
            data = data[at:] + data[:at]
    return data


THINGS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.just(10**30), st.floats(), st.text(max_size=4),
    st.lists(st.integers(-2, 3), max_size=3), st.just([[]]), st.just([[1, 0], [1]]),
    st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
)  # fmt: skip


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def with_other(value, path, other):
    """The value with another thing at one place."""
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_other(copy[path[0]], path[1:], other)
    return copy


def strange(data, where, thing):
    """JSON with a strange thing somewhere, or without it; shallow places are as likely as deep ones."""
    value = json.loads(data)
    every = sorted(places(value), key=len)
    depths = sorted({len(path) for path in every})
    depth = depths[int(where * (len(depths) - 1e-9))]
    some = [path for path in every if len(path) == depth]
    path = some[int(where * 7919) % len(some)]
    return json.dumps(with_other(value, path, thing)).encode()


DEEP = b"[" * 100_000


@pytest.fixture(scope="module")
def saved(load, tmp_path_factory):
    """What nbsal writes as JSON, by name: where it lies, how it is read, and all that may be done with it then."""
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
    found = nbsal.evaluation.results.Results.load(path)
    assert found.frame is not None and found.auc() is not None and repr(found)


def use_saliency(path):
    found = nbsal.Saliency.load(path)
    for shown in (found.to_html(), found.to_terminal(), repr(found), found.to_frame(), found.by_word(), found.top(3)):
        assert shown is not None


def use_mask(path):
    found = HeadMask.load(path)
    assert (found | ~found).selected.all() and hash(found) is not None and repr(found)
    found.matched_random(0), found.corrupted(0.5, 0), found.parts(weighted=True)


def use_study(path):
    found = HeadStudy.load(path)
    assert found.relations is not None and found.positions is not None and found.offsets is not None
    assert found.mask() is not None and repr(found + found)


USES = {"saliency": use_saliency, "mask": use_mask, "study": use_study, "results": use_results}
JSON = ("saliency", "mask", "study")


def told(use, *arguments):
    """Whether it came to a sentence rather than a result; nothing else may come."""
    try:
        use(*arguments)
    except NbsalError as error:
        assert str(error)
        return True
    return False


@pytest.mark.parametrize("name", USES)
@fuzzed(60, done=damages())
def test_damaged_saves_are_a_sentence(saved, tmp_path, name, done):
    path = tmp_path / "damaged"
    path.write_bytes(damaged((saved / name).read_bytes(), done))
    told(USES[name], path)


@pytest.mark.parametrize("name", JSON)
@fuzzed(150, where=st.floats(0, 1), thing=THINGS)
def test_strange_saves_are_a_sentence(saved, tmp_path, name, where, thing):
    path = tmp_path / "strange"
    path.write_bytes(strange((saved / name).read_bytes(), where, thing))
    told(USES[name], path)


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe", b"[]", b"{}", b"NaN", DEEP], ids=lambda c: c[:8])
@pytest.mark.parametrize("name", USES)
def test_what_was_never_saved_is_a_sentence(tmp_path, name, content):
    (tmp_path / "none").write_bytes(content)
    assert told(USES[name], tmp_path / "none")


@fuzzed(80, done=damages())
def test_damaged_parses_are_a_sentence(tmp_path, done):
    path = tmp_path / "parses.conllu"
    path.write_bytes(damaged(CONTRACTION.encode(), done))
    told(from_conllu, path)


CELLS = st.sampled_from(["", "_", "0", "-1", "99", "1-2", "2-1", "1.1", "1-99999999", "x", "a=b|c", "|", "#", "\u0085"])


@fuzzed(150, column=st.integers(0, 9), row=st.integers(0, 11), cell=CELLS, text=st.booleans())
def test_strange_parses_are_a_sentence(column, row, cell, text):
    lines = CONTRACTION.split("\n")[0 if text else 1 :]
    cells = lines[row % len(lines)].split("\t")
    cells[column % len(cells)] = cell
    lines[row % len(lines)] = "\t".join(cells)
    told(from_conllu, "\n".join(lines))


ROWS = [*TEXTS, " ", "A joy."]


@pytest.fixture(scope="module")
def explainer(load):
    return nbsal.Explainer(load("bert", dtype="float32"), "gradcam")


@pytest.fixture(scope="module")
def kept(explainer, tmp_path_factory):
    """A small corpus."""
    out = tmp_path_factory.mktemp("corpus")
    corpus.explain(explainer, ROWS, out, shard_rows=3, progress=False)
    return out


def use_corpus(out):
    """Everything that is asked of an opened corpus; what does not come of damaged shards still comes."""
    opened = corpus.open(out)
    asked = [lambda: opened.saliency(1), lambda: list(opened), opened.to_frame, opened.failures, opened.clouds]
    failed = [ask for ask in asked if told(ask)]
    assert repr(opened) and len(opened) == 5
    if failed:
        failed[0]()


KEPT = ("_manifest.json", "_vocabulary.json", "part-000001.parquet")


@pytest.mark.parametrize("name", KEPT)
@fuzzed(25, done=damages(2))
def test_a_damaged_corpus_is_a_sentence(kept, tmp_path_factory, name, done):
    out = tmp_path_factory.mktemp("damaged") / "corpus"
    shutil.copytree(kept, out)
    before = (kept / name).read_bytes()
    (out / name).write_bytes(damaged(before, done))
    assert told(use_corpus, out) == ((out / name).read_bytes() != before), "nothing that was changed goes unnoticed"


@pytest.mark.parametrize("name", KEPT)
def test_a_lost_file_of_a_corpus_is_a_sentence(kept, tmp_path, name):
    shutil.copytree(kept, tmp_path / "corpus")
    (tmp_path / "corpus" / name).unlink()
    assert told(use_corpus, tmp_path / "corpus")


@pytest.mark.parametrize("name", KEPT[1:])
def test_a_corpus_is_mended_by_running_it_again(explainer, kept, tmp_path, name):
    out = tmp_path / "corpus"
    shutil.copytree(kept, out)
    (out / name).write_bytes(b"[")
    corpus.explain(explainer, ROWS, out, shard_rows=3, progress=False)
    assert kills.files(out) == kills.files(kept)


OWNERS = st.dictionaries(st.sampled_from(["host", "pid", "began"]), THINGS)


@pytest.mark.filterwarnings("ignore:.*which is gone")
@fuzzed(40, lock=st.one_of(st.binary(max_size=20), st.just(DEEP), OWNERS.map(lambda owner: json.dumps(owner).encode())))
def test_a_strange_lock_is_taken_over_or_refused(tmp_path_factory, lock):
    folder = tmp_path_factory.mktemp("locked")
    (folder / LOCK).write_bytes(lock.replace(b'"host": null', b'"host": "%s"' % socket.gethostname().encode()))

    def take():
        with Storage(folder).lock():
            pass

    told(take)


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
@fuzzed(40, done=damages())
def test_damaged_sources_are_a_sentence(sources, tmp_path, name, done):
    path = tmp_path / name
    path.write_bytes(damaged((sources / name).read_bytes(), done))
    told(lambda: list(open_source(path, "text").rows))
