"""Files that nbsal saves, after any damage: an error about the path, or exactly what was saved."""

import dataclasses
import json
import os
import random
import resource
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import psutil
import pytest

import nbsal
from nbsal.evaluation import Results
from nbsal.evaluation.curve import Curve
from nbsal.evaluation.results import MetricInfo
from nbsal.heads.statistics import HeadStudy
from nbsal.model.head_mask import HeadMask
from nbsal.model.loading import saved_files
from nbsal.support.errors import InputError
from tests.answers import writers
from tests.raising import refuses


@pytest.fixture(scope="module")
def results():
    """Small results, so that every truncation can be tried."""
    points, draws = (0.0, 0.5, 1.0), np.random.default_rng(0).random((4, 3))
    metric = MetricInfo("game", "fraction", "accuracy", "auc", {"hiding": "low"})
    return Results(metric, {("a", "hiding"): Curve(points, draws[:1], draws.T)}, ("4 texts",))


@pytest.fixture(scope="module")
def saved(reviews, results):
    """What can be saved, by the name of its class, with values that tell whether two are equal."""
    explain = nbsal.Explainer(reviews, "gradcam")
    study = HeadStudy(
        (1, 2), {"nsubj": np.array([[1, 2]])}, {"nsubj": 2}, {"nsubj": Counter({1: 2})}, {-1: np.array([[0, 1]])}, 3, 0
    )
    answer = nbsal.answer(writers.load(), "A joy.", "It.", progress=False)
    return {
        "Answer": dataclasses.replace(answer, running=None),
        "Saliency": explain("A joy."),
        "LayerSaliency": explain.every_layer("A joy."),
        "HeadMask": HeadMask([[1, 0]], {"nsubj": [[0, 1]]}),
        "HeadStudy": study,
        "Results": results,
    }


@pytest.fixture(params=["Answer", "Saliency", "LayerSaliency", "HeadMask", "HeadStudy", "Results"])
def kind(request):
    return request.param


def content(thing):
    """The content of a saved object, to compare two of them."""

    def values(curve):
        return curve.points, curve.runs.tolist(), curve.samples.tolist(), curve.resampled

    if isinstance(thing, Results):
        return thing.metric, thing.notes, {key: values(curve) for key, curve in thing.curves.items()}
    return str({k: v.tolist() if hasattr(v, "tolist") else v for k, v in vars(thing).items() if k != "order"})


def load_or_refuse(thing, path):
    """Whether the file is accepted; any error must be one about the path."""
    try:
        type(thing).load(path)
    except InputError as error:
        assert error.argument == "path" and str(error)
        return False
    return True


def test_files_come_back(saved, kind, tmp_path):
    saved[kind].save(tmp_path / "file")
    assert content(type(saved[kind]).load(tmp_path / "file")) == content(saved[kind])


def test_a_full_disk_keeps_the_file_that_was_there(saved, kind, tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    saved[kind].save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with refuses("path"):
            saved[kind].save(link)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and set(tmp_path.iterdir()) == {path, link}
    saved[kind].save(link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640


def test_a_file_in_a_folder_that_cannot_be_written_is_saved(tmp_path, monkeypatch):
    path = tmp_path / "mask.json"
    path.write_text("old")

    def refuse_new_files(method):
        def call(self, *args, **settings):
            if not self.exists():
                raise PermissionError(13, "Permission denied", str(self))
            return method(self, *args, **settings)

        return call

    for name in ("open", "touch"):
        monkeypatch.setattr(Path, name, refuse_new_files(getattr(Path, name)))
    saved_files.write(path, b"new")
    assert path.read_bytes() == b"new"


def test_nobody_else_can_read_a_private_file_while_it_is_saved(tmp_path, monkeypatch):
    private, modes, write_bytes = tmp_path / "mask.json", [], Path.write_bytes
    private.write_text("old")
    private.chmod(0o600)

    def write(self, content):
        size = write_bytes(self, content)
        modes.append(self.stat().st_mode & 0o777)
        return size

    monkeypatch.setattr(Path, "write_bytes", write)
    saved_files.write(private, b"new")
    assert modes == [0o600] and private.stat().st_mode & 0o777 == 0o600


@pytest.mark.some(2)
def test_every_truncated_file_is_refused(saved, kind, tmp_path):
    path = tmp_path / "file"
    saved[kind].save(path)
    data = path.read_bytes()
    for size in {*range(0, len(data), max(1, len(data) // 200)), len(data) - 1}:
        path.write_bytes(data[:size])
        assert not load_or_refuse(saved[kind], path), size


WRONG = [None, True, "1", "", -1, 1.5, 10**400, float("nan"), float("inf"), [], [[]], {}, {"a": 1}, ["1"], [True],
         [None], [[1, 2], [3]], [float("nan")], [1e999], [10**400]]  # fmt: skip


def places(value, path=()):
    """The path of every value inside JSON; of a long list only the first entry."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(1, len(value))):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["Answer", "Saliency", "LayerSaliency", "HeadMask", "HeadStudy"])
def test_wrong_values_anywhere_are_refused_or_can_be_used(saved, kind, share, tmp_path):
    """A file with one value replaced or removed is refused, or what it holds can be shown."""
    path, seed, accepted = tmp_path / "file", random.randrange(10**6), []
    saved[kind].save(path)
    text = path.read_text(encoding="utf-8")
    changes = [(place, wrong) for place in places(json.loads(text)) for wrong in [*WRONG, "remove"]]
    print(f"seed {seed}")
    for place, wrong in random.Random(seed).sample(changes, int(share * len(changes))):
        changed = json.loads(text)
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        if wrong == "remove":
            del inner[place[-1]]
        else:
            inner[place[-1]] = wrong
        path.write_text(json.dumps(changed))
        accepted.append(load_or_refuse(saved[kind], path))
        if accepted[-1]:
            use(type(saved[kind]).load(path))
    assert not all(accepted)


def use(thing):
    """Show what was loaded in every way that a notebook does."""
    repr(thing)
    if isinstance(thing, nbsal.Saliency | nbsal.LayerSaliency):
        thing._repr_html_(), thing.to_frame(), thing.words, thing.caption(), thing.notes()
    if isinstance(thing, nbsal.LayerSaliency):
        thing.at(0)._repr_html_()
    if isinstance(thing, nbsal.Answer):
        thing._repr_html_(), thing.tokens(), thing.sources(), thing.matrix()
    if isinstance(thing, HeadMask):
        thing.selected, ~thing, thing.parts(), thing | thing
    if isinstance(thing, HeadStudy):
        thing.relations, thing.positions, thing.offsets, thing.mask()


def test_folders_pipes_devices_and_other_kinds_are_refused(saved, kind, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    other = next(thing for name, thing in saved.items() if name != kind)
    other.save(tmp_path / "other")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "other"):
        with refuses("path"):
            type(saved[kind]).load(path)
    monkeypatch.setattr(saved_files, "LARGEST_JSON", 10)
    monkeypatch.setattr(saved_files, "LARGEST_ARCHIVE", 10)
    saved[kind].save(tmp_path / "large")
    with refuses("path"):
        type(saved[kind]).load(tmp_path / "large")


def header(shape, dtype="<f8"):
    """The header of an .npy file."""
    stream = BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def archive(path, members, **options):
    """An archive with these members, by name or in pairs; a number stands for as many null bytes after a header."""
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in members.items() if isinstance(members, dict) else members:
            with file.open(name, "w") as member:
                if isinstance(data, int):
                    member.write(header((data // 8,)))
                    for _ in range(data // 1_000_000):
                        member.write(bytes(1_000_000))
                else:
                    member.write(data)


def members_of(path):
    """The members of an archive."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def understated(path):
    """An archive whose member declares fewer bytes than it unpacks to."""
    archive(path, {"head.npy": 120_000_000}, compression=zipfile.ZIP_DEFLATED)
    size = 120_000_000 + len(header((15_000_000,)))
    data = path.read_bytes().replace(size.to_bytes(4, "little"), (200).to_bytes(4, "little"))
    path.write_bytes(data)
    assert zipfile.ZipFile(path).infolist()[0].file_size == 200


def objects(path):
    stream = BytesIO()
    np.save(stream, np.array([{}], object), allow_pickle=True)
    archive(path, {"head.npy": stream.getvalue()})


ARCHIVES = {
    "bomb": lambda path: archive(path, {"head.npy": 120_000_000}, compression=zipfile.ZIP_DEFLATED),
    "understated bomb": understated,
    "many small bombs": lambda path: archive(
        path, {f"a{i}.npy": bytes(10_000_000) for i in range(12)}, compression=zipfile.ZIP_DEFLATED
    ),
    "header larger than its member": lambda path: archive(path, {"head.npy": header((10**9, 10**9)) + bytes(8)}),
    "negative shape": lambda path: archive(path, {"head.npy": header((-1, -1)) + bytes(8)}),
    "objects": objects,
    "unknown version": lambda path: archive(path, {"head.npy": b"\x93NUMPY\x09\x09" + bytes(100)}),
    "no arrays": lambda path: archive(path, {}),
    "no head": lambda path: archive(path, {"points0.npy": header((1,)) + bytes(8)}),
    "path as name": lambda path: archive(path, {"../head.npy": header((1,)) + bytes(8)}),
    "too many": lambda path: archive(path, {f"a{i}.npy": b"" for i in range(2_000)}),
    "LZMA": lambda path: archive(path, {"head.npy": header((1,)) + bytes(8)}, compression=zipfile.ZIP_LZMA),
    "plain array": lambda path: path.write_bytes(header((1,)) + bytes(8)),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused_before_they_are_unpacked(name, tmp_path):
    path = tmp_path / "file.npz"
    ARCHIVES[name](path)
    before = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, psutil.Process().memory_info().rss)
    with refuses("path"):
        Results.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < 100_000_000


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_repeated_extra_and_missing_members_are_refused(results, tmp_path):
    path = tmp_path / "file.npz"
    results.save(path)
    members = members_of(path)
    for changed in (
        [*members.items(), ("runs0.npy", members["runs0.npy"])],
        members | {"runs1.npy": members["runs0.npy"]},
        {name: data for name, data in members.items() if name != "samples0.npy"},
    ):
        archive(path, changed)
        with refuses("path"):
            Results.load(path)


def test_wrong_arrays_of_results_are_refused(results, tmp_path):
    def save(**arrays):
        stored = {"points0": np.arange(3.0), "runs0": np.ones((1, 3)), "samples0": np.ones((3, 4))} | arrays
        np.savez(tmp_path / "file.npz", head=head, **stored)
        return Results.load(tmp_path / "file.npz")

    results.save(tmp_path / "file.npz")
    with np.load(tmp_path / "file.npz", allow_pickle=False) as stored:
        head = stored["head"]
    save()
    wrong = {
        "points0": [np.arange(2.0), np.array(["a", "b", "c"]), np.array([0, np.nan, 1]), np.ones((3, 1)), np.arange(3)],
        "runs0": [np.ones(3), np.ones((1, 2)), np.ones((0, 3)), np.full((1, 3), "1"), np.ones((1, 3), bool)],
        "samples0": [np.ones(3), np.ones((2, 4)), np.ones((3, 0)), np.float64(1.0), np.ones((3, 4), complex)],
        "head": [],
    }
    for name, arrays in wrong.items():
        for array in arrays:
            with refuses("path"):
                save(**{name: array})
    good = json.loads(str(head))
    sheet = good["sheet"]
    for change in (
        {"nbsal": 99}, {"nbsal": True}, {"nbsal": "1"}, {"sheet": {}}, {"sheet": 5}, {"sheet": sheet | {"measure": 5}},
        {"sheet": sheet | {"summary": "sum"}}, {"sheet": sheet | {"better": {"hiding": 5}}}, {"notes": "ab"},
        {"sheet": sheet | {"better": []}}, {"notes": [1]}, {"curves": []}, {"curves": [["a"]]}, {"curves": [[1, 2]]},
        {"curves": ["ab"]}, {"curves": [["a", "b"]] * 2}, {"curves": {"a": "b"}}, {"curves": [["a", ["b"]]]},
        {"resampled": []}, {"resampled": [0]}, {"resampled": ["1"]}, {"sheet": sheet | {"bounds": {"hiding": [1, 0]}}},
        {"sheet": sheet | {"bounds": {"hiding": 1}}}, {"sheet": sheet | {"bounds": {"hiding": ["a", "b"]}}},
    ):  # fmt: skip
        head = np.array(json.dumps(good | change))
        with refuses("path"):
            save()
    for text in ("[]", "{", "[" * 100_000, ""):
        head = np.array(text)
        with refuses("path"):
            save()


@pytest.mark.parametrize("kind", ["Saliency", "LayerSaliency"])
def test_what_could_not_be_loaded_is_not_saved(saved, kind, tmp_path):
    broken = dataclasses.replace(saved[kind], scores=saved[kind].scores * np.nan)
    with refuses("scores"):
        broken.save(tmp_path / "file")
    assert not (tmp_path / "file").exists()
