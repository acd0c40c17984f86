"""Test that odd arguments and damaged files give a result or one of nbsal's errors, never another exception."""

import json
import os
import shutil
import time
from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbsal
from nbsal import corpus
from nbsal.corpus.sources.open import open_source
from nbsal.heads import HeadMask, HeadStudy, Parse
from nbsal.heads.parses import from_conllu
from nbsal.support.errors import NbsalError
from tests import fuzzing
from tests.axioms import TEXTS
from tests.cases import cases


def fuzz(examples, **strategies):
    """Run a test on that many examples, which are the same in every run."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    options = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": checks}
    return lambda test: settings(max_examples=examples, **options)(given(**strategies)(test))


KINDS = st.sampled_from(("flip", "cut", "drop", "put", "swap"))
# A list of damages to a file: (kind, place as a share of its length, bytes).
DAMAGES = st.lists(st.tuples(KINDS, st.floats(0, 1), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4)


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


def replaced(value, shares, replacement):
    """A copy of a JSON value with another value at a place: each share picks a part, one level deeper."""
    if not shares or not value or not isinstance(value, dict | list):
        return replacement
    copy = value.copy()
    key = (list(copy) if isinstance(value, dict) else range(len(copy)))[int(shares[0] * len(copy))]
    copy[key] = replaced(copy[key], shares[1:], replacement)
    return copy


SHARES = st.lists(st.floats(0, 1, exclude_max=True), max_size=4)
DEEP = b"[" * 100_000


@pytest.fixture(scope="module")
def saved(load, tmp_path_factory):
    """A folder with one file of each kind that nbsal saves."""
    folder = tmp_path_factory.mktemp("saved")
    nbsal.Explainer(load("bert"), "decoded-gradcam")(("A warm film \U0001f600.", "A joy.")).save(folder / "saliency")
    HeadMask([[1, 0], [0, 0]], {"nsubj": [[0, 1], [0, 0]]}, [[0, 0], [0, 1]]).save(folder / "mask")
    parse = Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    nbsal.heads.study(load("bert"), [parse], progress=False).save(folder / "study")
    results = nbsal.evaluation.games(nbsal.Explainer(load("bert"), "gradcam"), TEXTS, random=0, progress=False)
    results.save(folder / "results")
    return folder


def use_results(path):
    results = nbsal.evaluation.results.Results.load(path)
    assert results.frame is not None and results.auc() is not None and repr(results)


def use_saliency(path):
    saliency = nbsal.Saliency.load(path)
    assert saliency.to_html() and saliency.to_terminal() and repr(saliency)
    assert all(frame is not None for frame in (saliency.to_frame(), saliency.by_word(), saliency.top(3)))


def use_mask(path):
    mask = HeadMask.load(path)
    assert (mask | ~mask).selected.all() and hash(mask) is not None and repr(mask)
    mask.matched_random(0), mask.corrupted(0.5, 0), mask.parts(weighted=True)


def use_study(path):
    results = HeadStudy.load(path)
    assert results.relations is not None and results.positions is not None and repr(results + results)
    assert results.mask() is not None and results.offsets is not None


USES = {"saliency": use_saliency, "mask": use_mask, "study": use_study, "results": use_results}
OLDER = Path(__file__).parent / "data" / "saved" / "0.2.0"  # in JSON
JSON = ("saliency.json", "mask.json", "study.json")


def refused(function, *arguments):
    """Whether a call raised one of nbsal's errors; any other exception fails the test."""
    try:
        function(*arguments)
    except NbsalError as error:
        assert str(error)
        return True
    return False


@pytest.mark.parametrize("name", USES)
@fuzz(60, done=DAMAGES)
def test_damaged_saved_files(saved, tmp_path, name, done):
    path = tmp_path / "damaged"
    path.write_bytes(damage((saved / name).read_bytes(), done))
    refused(USES[name], path)


@pytest.mark.parametrize("name", JSON)
@fuzz(60, shares=SHARES, value=VALUES)
def test_files_of_earlier_versions_with_a_wrong_value(tmp_path, name, shares, value):
    path = tmp_path / "wrong"
    path.write_text(json.dumps(replaced(json.loads((OLDER / name).read_text()), shares, value)))
    refused(USES[Path(name).stem], path)


@cases("content", [b"", b"null", b"\xff\xfe", b"[]", b"{}", b"NaN", DEEP])
def test_other_files_are_refused(tmp_path, content):
    for use in USES.values():
        (tmp_path / "other").write_bytes(content)
        assert refused(use, tmp_path / "other")


PARSES = """# text = It's good
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_
3\tgood\tgood\tADJ\tJJ\t_\t0\troot\t_\t_
"""


@fuzz(80, done=DAMAGES)
def test_damaged_parses(tmp_path, done):
    path = tmp_path / "parses.conllu"
    path.write_bytes(damage(PARSES.encode(), done))
    refused(from_conllu, path)


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
@fuzz(25, done=DAMAGES)
def test_damage_to_a_corpus_is_noticed(explained, tmp_path_factory, name, done):
    out = tmp_path_factory.mktemp("damaged") / "corpus"
    shutil.copytree(explained, out)
    before = (explained / name).read_bytes()
    (out / name).write_bytes(damage(before, done))
    assert refused(use_corpus, out) == ((out / name).read_bytes() != before)
    (out / name).unlink()
    assert refused(use_corpus, out)


TABLE = pandas.DataFrame({"text": [*TEXTS, "caf\u00e9 \U0001f600"], "n": range(5)})


@pytest.mark.parametrize("name", ["one.csv", "one.jsonl.gz", "one.parquet"])
@fuzz(40, done=DAMAGES)
def test_damaged_sources(tmp_path, name, done):
    path = tmp_path / name
    if name == "one.csv":
        TABLE.to_csv(path, index=False)
    elif name == "one.parquet":
        TABLE.to_parquet(path)
    else:
        TABLE.to_json(path, orient="records", lines=True)
    path.write_bytes(damage(path.read_bytes(), done))
    refused(lambda: list(open_source(path, "text").rows))


SEED = int(os.environ.get("NBSAL_SEED", time.time_ns() % 1000))  # each run draws other odd values


@pytest.mark.parametrize("share", [40, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("discover", [fuzzing.discover, fuzzing.discover_views])
def test_odd_arguments_of_every_public_call_and_view(load, tmp_path, monkeypatch, discover, share):
    monkeypatch.chdir(tmp_path)
    objects = fuzzing.receivers(load("bert", dtype="float32"), tmp_path)
    count, bare = fuzzing.bare_errors(discover(objects), share, SEED)
    assert not bare, "\n".join([f"NBSAL_SEED={SEED} repeats these odd values:", *bare])
    assert count >= 5_000 // share


def test_a_call_without_checks_is_noticed():
    count, bare = fuzzing.bare_errors(fuzzing.variants("unchecked", lambda text, count=1: text * count))
    assert count == len(fuzzing.ODD) and any("TypeError" in case for case in bare)
