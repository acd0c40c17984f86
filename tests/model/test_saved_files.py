"""Files that nbsal saves, after any damage: an error about the path, or exactly what was saved."""

import dataclasses
import hashlib
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
from nbsal.model.loading import result_file, saved_files
from nbsal.model.loading.plain_values import to_plain
from nbsal.support.errors import InputError
from tests.answers import writers
from tests.forging import forge, opened
from tests.raising import refuses

OLDER = Path(__file__).parents[1] / "data" / "saved" / "0.2.0" / "games.npz"


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
        "Audit": nbsal.audit(explain, ["A dull film.", "A dull joy.", "A joy."], [0, 1, 1], least=1, progress=False),
    }


@pytest.fixture(params=["Answer", "Saliency", "LayerSaliency", "HeadMask", "HeadStudy", "Results", "Audit"])
def kind(request):
    return request.param


def content(thing):
    """The content of a saved object, to compare two of them."""

    def values(curve):
        return curve.points, curve.runs.tolist(), curve.samples.tolist(), curve.resampled

    if isinstance(thing, Results):
        return thing.metric, thing.notes, {key: values(curve) for key, curve in thing.curves.items()}
    if isinstance(thing, nbsal.Audit):
        return to_plain(thing, ["model"])
    if isinstance(thing, nbsal.Answer):
        return to_plain(thing, ["running", "origin"])
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
    saved_files.write(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"


def test_nobody_else_can_read_a_private_file_while_it_is_saved(tmp_path):
    private, modes = tmp_path / "mask.json", []
    private.write_text("old")
    private.chmod(0o600)

    def fill(file):
        file.write(b"new")
        modes.append(os.fstat(file.fileno()).st_mode & 0o777)

    saved_files.write(private, fill)
    assert modes == [0o600] and private.stat().st_mode & 0o777 == 0o600 and private.read_bytes() == b"new"


def test_a_full_disk_leaves_no_new_file(saved, kind, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with refuses("path"):
            saved[kind].save(tmp_path / "file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.some(2)
def test_every_truncated_file_is_refused(saved, kind, tmp_path):
    path = tmp_path / "file"
    saved[kind].save(path)
    data = path.read_bytes()
    for size in {*range(0, len(data), max(1, len(data) // 200)), len(data) - 1}:
        path.write_bytes(data[:size])
        assert not load_or_refuse(saved[kind], path), size


@pytest.mark.some(2)
def test_any_flipped_bit_is_refused(saved, kind, tmp_path):
    path, seed = tmp_path / "file", random.randrange(10**6)
    saved[kind].save(path)
    data = path.read_bytes()
    print(f"seed {seed}")
    for bit in random.Random(seed).sample(range(8 * len(data)), 200):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert not load_or_refuse(saved[kind], path), bit


def test_files_are_safetensors(saved, kind, tmp_path):
    """What another program writes with the same content is accepted."""
    saved[kind].save(tmp_path / "file")
    forge(tmp_path / "file", *opened(tmp_path / "file"))
    assert content(type(saved[kind]).load(tmp_path / "file")) == content(saved[kind])


WRONG = [None, True, "1", "", -1, 1.5, 10**400, float("nan"), float("inf"), [], [[]], {}, {"a": 1}, ["1"], [True],
         [None], [[1, 2], [3]], [float("nan")], [1e999], [10**400]]  # fmt: skip


def places(value, path=()):
    """The path of every value inside JSON; of a long list only the first entry."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(1, len(value))):
            yield from places(value[key], (*path, key))


def replaced(value, place, wrong):
    """A copy of JSON with one value replaced or removed."""
    changed = json.loads(json.dumps(value))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if wrong == "remove":
        del inner[place[-1]]
    else:
        inner[place[-1]] = wrong
    return changed


def wrong_arrays(array):
    """An array as it should not be."""
    yield from (
        array[:-1],
        array[None],
        array.astype(np.float32),
        array.astype(np.int64),
        array[:0],
        -array.astype(int),
    )
    yield np.full_like(array, 127)
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.full)])
def test_wrong_values_anywhere_are_refused_or_can_be_used(saved, kind, share, tmp_path):
    """A file with one value or array replaced or removed, and the right checksum, is refused, or can be shown."""
    path, seed, accepted = tmp_path / "file", random.randrange(10**6), []
    saved[kind].save(path)
    metadata, content, arrays = opened(path)
    changes = [(place, wrong) for place in places(content) for wrong in [*WRONG, "remove"]]
    forgeries = [(replaced(content, *change), arrays) for change in changes]
    for name, array in arrays.items():
        forgeries.append((content, {key: value for key, value in arrays.items() if key != name}))
        forgeries += [(content, arrays | {name: wrong}) for wrong in wrong_arrays(np.atleast_1d(array))]
    print(f"seed {seed}")
    for forged in random.Random(seed).sample(forgeries, int(share * len(forgeries))):
        forge(path, metadata, *forged)
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
    if isinstance(thing, nbsal.Audit):
        thing._repr_html_(), thing.words, thing.mistakes, thing.slices, thing.to_html()
    if isinstance(thing, HeadMask):
        thing.selected, ~thing, thing.parts(), thing | thing
    if isinstance(thing, HeadStudy):
        thing.relations, thing.positions, thing.offsets, thing.mask()


def test_folders_pipes_devices_and_other_kinds_are_refused(saved, kind, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    other = next(thing for name, thing in saved.items() if name != kind)
    other.save(tmp_path / "other")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "other"):
        with refuses("path"):
            type(saved[kind]).load(path)


def test_what_could_not_be_read_is_not_written(saved, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(result_file, "LARGEST_HEADER", 100)
    with refuses("path"):
        saved[kind].save(tmp_path / "large")
    assert not list(tmp_path.iterdir())


def header_of(entries, size=None):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text


FORGED = {
    "huge shape": header_of({"a": {"dtype": "F64", "shape": [10**12, 10**12], "data_offsets": [0, 8]}}),
    "huge header": header_of(b"{" + b" " * 10, 2**62),
    "many lists": header_of(b'{"a":[' + b"[]," * 8_000_000 + b"0]}"),
    "deep": header_of(b'{"a":' + b"[" * 1_000_000),
    "overlap": header_of({str(i): {"dtype": "U8", "shape": [10**6], "data_offsets": [0, 10**6]} for i in range(10_000)})
    + bytes(10**6),
    "older, many lists": b'{"nbsal": 1, "a": [' + b"[]," * 30_000_000 + b"0]}",
    "older, deep": b'{"nbsal": ' + b"[" * 1_000_000,
}


def test_arrays_that_overlap_are_refused():
    """They would be copied: a small file could fill the memory."""
    entry = {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]}
    for count in (1, 2):
        entries = {"__metadata__": {"sha256": "0" * 64}} | {str(at): entry for at in range(count)}
        data = header_of(entries)
        start, data = len(data), data + bytes(1000)
        data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
        if count == 1:
            assert result_file._parse(data, start)[1].keys() == {"0"}
        else:
            with pytest.raises(ValueError):
                result_file._parse(data, start)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused_in_little_memory(name, tmp_path):
    (tmp_path / "file").write_bytes(FORGED[name])
    before = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, psutil.Process().memory_info().rss)
    with refuses("path"):
        HeadMask.load(tmp_path / "file")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < 100_000_000


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
def test_repeated_extra_and_missing_members_are_refused(tmp_path):
    path = tmp_path / "file.npz"
    members = members_of(OLDER)
    archive(path, members)
    assert Results.load(path).explainers == ["ours", "rollout", "random"]
    for changed in (
        [*members.items(), ("runs0.npy", members["runs0.npy"])],
        members | {"runs9.npy": members["runs0.npy"]},
        {name: data for name, data in members.items() if name != "samples0.npy"},
    ):
        archive(path, changed)
        with refuses("path"):
            Results.load(path)


@pytest.mark.parametrize("kind", ["Saliency", "LayerSaliency"])
def test_what_could_not_be_loaded_is_not_saved(saved, kind, tmp_path):
    broken = dataclasses.replace(saved[kind], scores=saved[kind].scores * np.nan)
    with refuses("scores"):
        broken.save(tmp_path / "file")
    assert not (tmp_path / "file").exists()
