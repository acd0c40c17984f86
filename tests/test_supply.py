"""What nbsal brings in and reaches for: no network, nothing unpickled or evaluated, pinned weights, known licences."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from nbsal import cli, licences
from nbsal.errors import WeightsError
from nbsal.samples import base
from tests.conftest import OFFLINE

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "nbsal").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

UNPICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "runpy", "code"}
REACHES = {"urllib", "urllib3", "http", "httpx", "requests", "aiohttp", "ftplib", "smtplib", "ssl", "websockets"}
RUNS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pandas.read_pickle", "yaml.load"}
SAFE = {"torch.load": ("weights_only", True), "numpy.load": ("allow_pickle", False), "np.load": ("allow_pickle", False)}
FORBIDDEN = {"trust_remote_code": True, "shell": True, "allow_pickle": True, "weights_only": False, "verify": False}


def dangers(source):
    """What in a file could run what it reads, or reach the network."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found |= {name for name in names if name.partition(".")[0] in UNPICKLES | REACHES}
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), {one.arg: ast.unparse(one.value) for one in node.keywords}
            found |= {name} & RUNS
            found |= {
                f"{key}={value}" for key, value in FORBIDDEN.items() if given.get(key, str(not value)) != str(not value)
            }
            if name in SAFE and given.get(SAFE[name][0]) != str(SAFE[name][1]):
                found.add(name)
        if isinstance(node, ast.Dict):
            keys = {
                ast.unparse(key).strip("'"): ast.unparse(one)
                for key, one in zip(node.keys, node.values, strict=True)
                if key
            }
            found |= {f"{key}={value}" for key, value in FORBIDDEN.items() if keys.get(key) == str(value)}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_read_is_run_and_no_network_is_asked_for(path):
    assert dangers(path.read_text(encoding="utf-8")) == set()


MUTANTS = [
    "import pickle", "from marshal import loads", "import urllib.request", "from requests import get", "eval(text)",
    "exec(text)", "torch.load(path)", "torch.load(path, weights_only=False)", "np.load(path)",
    "np.load(path, allow_pickle=flag)", "AutoModel.from_pretrained(name, trust_remote_code=True)",
    "AutoModel.from_pretrained(name, trust_remote_code=trust)", "options = {'trust_remote_code': True}",
    "subprocess.run(line, shell=True)", "__import__(name)", "os.system(line)",
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_runs_or_reaches_is_caught(mutant):
    assert dangers(f"def read(path, name, text, line, flag, trust):\n    {mutant}\n")


def alone(code):
    """What a fresh Python prints that has no network, and was not told so."""
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_HOME")}
    environment["PYTHONPATH"] = str(OFFLINE)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


LOAD = """
import socket, nbsal
for name in nbsal.__dir__():
    getattr(nbsal, name)
print(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")("A joy.").scores.any())
"""


def test_importing_loading_and_explaining_ask_for_no_network():
    found = alone(LOAD)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["True"] and "Refused" not in found.stderr


REACH = "socket.create_connection(('{}', 9), 1)"


@pytest.mark.parametrize("host", ["192.0.2.1", "huggingface.co", "2001:db8::1"])
def test_the_network_is_refused_even_to_those_who_swallow_errors(host):
    found = alone(f"import socket\ntry:\n    {REACH.format(host)}\nexcept Exception:\n    pass")
    assert found.returncode != 0 and f"Refused: The network was asked for: {host}" in found.stderr


def test_this_machine_can_be_reached():
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)"
    assert alone(code).returncode == 0


def test_notebooks_run_without_a_network():
    """Their kernels are started as this one is."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        reply = client.execute_interactive(f"import socket\n{REACH.format('192.0.2.1')}", timeout=60, output_hook=str)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (reply["content"]["status"], reply["content"]["ename"]) == ("error", "Refused")


@pytest.mark.parametrize("name", base.DIGESTS)
def test_base_weights_that_differ_in_a_bit_are_refused(monkeypatch, tmp_path, name):
    whole = base.find(name)
    copy = tmp_path / name
    data = bytearray(whole.read_bytes()[:100_000])
    data[50_000] ^= 1
    copy.write_bytes(data)
    monkeypatch.setattr(base, "cached", lambda asked: None)
    monkeypatch.setattr(base, "packaged", lambda asked: copy if asked == name else None)
    with pytest.raises(WeightsError, match=f"not the published {re.escape(name)}.*{base.digest(copy)}"):
        base.find(name)


def test_the_weights_package_is_pinned_and_its_digest_published():
    assert PROJECT["optional-dependencies"]["demo"] == [f"{base.PACKAGE}==0.1.0"]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in base.DIGESTS.values())


# As they are called once words that owners add or leave out are gone.
PERMITTED = set(
    "apache|apache 2.0|apache-2.0|mit|mit-0|mit-cmu|bsd|bsd 2-clause|bsd 3-clause|bsd-2-clause|bsd-3-clause|0bsd|isc|"
    "zlib|mpl-2.0|mozilla public 2.0|psf-2.0|python foundation|cnri-python|cc0-1.0|bsl-1.0|llvm-exception".split("|")
)
FILLERS = re.compile(r"\b(the|licen[cs]e|software|version)\b|\(.*?\)|,", re.IGNORECASE)
DRIVERS = "nvidia-"  # CUDA's own parts, which its builds of torch bring in under NVIDIA's terms


def permitted(licence):
    """Whether every part of a licence may be used in an Apache-2.0 project."""
    parts = re.split(r" AND | OR | WITH |, (?!Version)", licence)
    return all(" ".join(FILLERS.sub(" ", part).lower().split()) in PERMITTED for part in parts)


def stated():
    """Every requirement of the project and its extras."""
    lines = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    return sorted({licences.normal(licences.NAME.match(line)[0]) for line in lines} - {"nbsal"})


@pytest.mark.parametrize("name", stated())
def test_every_dependency_has_a_permitted_licence(name):
    found = licences.installed(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    assert permitted(found.licence), found


def test_so_has_all_that_they_bring_in():
    found = [package for package in licences.brought_in() if not package.name.startswith(DRIVERS)]
    assert len(found) > len(PROJECT["dependencies"])
    assert [package for package in found if not permitted(package.licence)] == []


@pytest.mark.parametrize("licence", ["GPL-3.0", "AGPL-3.0-only", "MIT AND GPL-2.0", "Proprietary", licences.UNSAID, ""])
def test_other_licences_are_caught(licence):
    assert not permitted(licence)


def test_licences_are_listed(capsys):
    assert cli.main(["licences"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {"torch", "transformers", "anywidget"} <= set(lines) and "Apache" in lines["transformers"]
