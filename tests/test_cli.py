"""Test the command line."""

import gc
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
from functools import cache
from importlib.util import find_spec

import pytest
import torch

import nbsal
from nbsal import cli, doctor, trace
from nbsal.methods import catalogue
from nbsal.samples import base
from tests import zoo
from tests.raising import refuses

TEXT = "A warm and funny film."


def test_explain_prints_the_prediction_and_the_words(capsys):
    assert cli.main(["explain", TEXT]) == 0
    out = capsys.readouterr().out
    assert "positive (" in out and "decoded-gradcam" in out and "layer 5" in out
    assert re.search(r"most important: (warm|funny)", out)


def modules_after(code, *names):
    """Those of some modules that are loaded after some code in a new process."""
    program = f"import sys; {code}; print([name for name in {names} if name in sys.modules], file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr.strip()


def test_commands_import_only_what_they_need():
    slow = ("torch", "transformers", "numpy", "pandas", "matplotlib")
    assert modules_after("from nbsal import cli; cli._parser()", *slow) == "[]"
    explained = modules_after(
        f"from nbsal import cli; cli.main(['explain', {TEXT!r}])",
        *("torch", "pandas", "pyarrow", "matplotlib", "captum", "ipywidgets", "anywidget", "nbsal.widgets"),
        *("nbsal.corpus", "nbsal.evaluation", "nbsal.clouds"),
    )
    assert explained == "['torch']"


def test_the_collector_is_paused_while_a_command_loads_a_model(monkeypatch, capsys):
    """It takes a fifth of the time of importing torch and transformers."""
    enabled, load = [], nbsal.load
    monkeypatch.setattr(nbsal, "load", lambda *a, **k: enabled.append(gc.isenabled()) or load(*a, **k))
    assert cli.main(["explain", TEXT]) == 0 and gc.isenabled()
    assert cli.main(["explain", TEXT, "--model", "demo/nothing"]) == 2 and gc.isenabled()
    gc.disable()
    try:
        assert cli.main(["explain", TEXT]) == 0 and not gc.isenabled()
    finally:
        gc.enable()
    assert enabled == [False] * 3 and "warm" in capsys.readouterr().out


def test_explain_as_json_and_as_html(capsys, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["explain", TEXT, "--method", "gradxact", "--layer", "3", "--target", "negative"]
    assert cli.main([*arguments, "--json", "--html", str(page)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["prediction"], content["target"]) == ("positive", "negative")
    assert [token["token"] for token in content["tokens"]][:3] == ["[CLS]", "a", "warm"]
    assert content["provenance"]["parameters"]["layer"] == 3
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>") and "funny" in page.read_text()


def test_explain_a_pair(capsys):
    assert cli.main(["explain", "A man sleeps.", "--pair", "A man is awake.", "--model", "demo/nli"]) == 0
    out = capsys.readouterr().out
    assert re.match(r"(entailment|neutral|contradiction) \(", out)
    assert "A man sleeps." in out and "awake" in out


def test_answer_writes_a_reply_with_its_sources(capsys, tmp_path):
    from tests.answers import writers

    subject = writers.load(dtype=torch.float32)
    subject.model.save_pretrained(tmp_path / "writer")
    subject.tokenizer.save_pretrained(tmp_path / "writer")
    (tmp_path / "notes.txt").write_text("Ann wrote the book.\nIt was warm.\n\nBen read it.")
    arguments = ["answer", "Who wrote the book?", "--model", str(tmp_path / "writer"), "--unit", "document"]
    files = [
        "--documents",
        str(tmp_path / "notes.txt"),
        "--html",
        str(tmp_path / "why.html"),
        "--json",
        str(tmp_path / "a"),
    ]
    assert cli.main([*arguments, *files, "--reply", "Ann."]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Ann." and len(out) == 5 and any("document 2: Ben read it." in line for line in out)
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")
    assert [unit.name for unit in nbsal.Answer.load(tmp_path / "a").units] == [
        "user message 1",
        "document 1",
        "document 2",
    ]
    assert cli.main([*arguments, "--reply", "Ann.", "--documents", "no/such/file"]) == 2


def test_documents_are_utf_8_with_or_without_a_byte_order_mark(capsys, tmp_path):
    notes, question = tmp_path / "notes.txt", ["answer", "Where does Mara live?", "--reply", " Mara lives in Oslo."]
    printed = []
    for encoding in ("utf-8", "utf-8-sig"):
        notes.write_text("Mara lives in Oslo. Caf\u00e9.", encoding=encoding)
        assert cli.main([*question, "--documents", str(notes)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    notes.write_text("Caf\u00e9.", encoding="latin-1")
    with refuses("--documents"):
        cli._read_document(notes)
    assert cli.main([*question, "--documents", str(notes)]) == 2


def test_an_answer_that_cannot_be_saved_names_the_option(capsys):
    assert cli.main(["answer", "Where does Mara live?", "--reply", " Mara lives in Oslo.", "--json", "."]) == 2
    assert "--json='.'" in capsys.readouterr().err


def test_control_characters_of_texts_do_not_reach_the_terminal(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("Mara\x1b[2J lives in \u202eOslo.")
    assert cli.main(["answer", "Where does Mara live?", "--documents", str(tmp_path / "notes.txt")]) == 0
    (tmp_path / "rows.jsonl").write_text('{"text": "A joy."}\n{"te\\u001b[2Jxt": "A bore."}\n')
    assert cli.main(["corpus", str(tmp_path / "rows.jsonl"), str(tmp_path / "out"), "--method", "gradcam"]) == 0
    out = capsys.readouterr().out
    assert "Mara\u241b[2J lives" in out and "te\u241b[2Jxt" in out and not {"\x1b", "\u202e"} & set(out)


MISTAKES = [
    (["explain", "  "], "text"),
    (["answer", " "], "question"),
    (["explain", TEXT, "--model", "demo/none"], "demo/news"),
    (["explain", TEXT, "--method", "magic"], "decoded-gradcam"),
    (["explain", TEXT, "--layer", "9"], "0, 1, 2, 3, 4, 5, 6"),
    (["explain", TEXT, "--target", "neutral"], "negative, positive"),
    (["explain", TEXT, "--html", "no/such/folder/f.html"], "--html='no/such/folder/f.html'"),
    (["explain", TEXT, "--model", "no/such/model"], "model='no/such/model'"),
    (["explain", TEXT, "--lm", "no/such/model"], "lm='no/such/model'"),
]


@pytest.mark.parametrize(("arguments", "detail"), MISTAKES)
def test_wrong_arguments_print_an_error_and_exit_with_status_2(capsys, arguments, detail):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert detail in error and error.startswith("nbsal: ") and "Traceback" not in error


def test_a_reply_is_printed_without_its_end_token_and_within_its_length(capsys):
    arguments = ["answer", "Where does Mara live?", "--reply"]
    assert cli.main([*arguments, " Mara lives in Oslo.</s>"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Mara lives in Oslo."
    assert cli.main(["answer", "Where does Mara live?", "--max-new-tokens", "1", "--json", os.devnull]) == 0
    assert len(capsys.readouterr().out.splitlines()[0].split()) == 1
    assert cli.main(["answer", "Where does Mara live?", "--max-new-tokens", "0"]) == 2


def test_a_text_without_quotes_is_reported(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", "A", "joy"])
    assert caught.value.code == 2 and "quotes" in capsys.readouterr().err


def test_the_units_of_sources_are_listed(capsys):
    from nbsal.answers.reading import LEVELS

    assert ", ".join(LEVELS) == cli.UNITS


def test_one_text_of_a_model_of_pairs_is_reported(capsys):
    assert cli.main(["explain", TEXT, "--model", "demo/nli"]) == 0
    alone = capsys.readouterr().out
    assert cli.main(["explain", TEXT, "--pair", TEXT, "--model", "demo/nli"]) == 0
    assert "premise" in alone and "premise" not in capsys.readouterr().out


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_an_interrupt_prints_no_traceback(capsys, monkeypatch):
    monkeypatch.setattr(nbsal, "load", interrupt)
    assert cli.main(["explain", TEXT]) == 130
    assert capsys.readouterr() == ("", "")


def test_output_may_be_redirected(monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    assert cli.main(["explain", TEXT]) == 0 and "positive (" in output.getvalue()


TARGETS = [
    ("causal", "9", "{9}"),
    ("causal", "3,9", "{9} after {3}"),
    ("causal", "the", "the"),
    ("causal", ",", ","),
    ("token", "2,1", "LABEL_1 at {2}"),
]


@pytest.mark.parametrize(("head", "target", "name"), TARGETS)
def test_targets_are_labels_tokens_and_numbers(capsys, checkpoints, head, target, name):
    folder = zoo.save(checkpoints, "gpt2", head)
    arguments = ["explain", "The film is a joy.", "--model", str(folder), "--method", "gradxact", "--json"]
    assert cli.main([*arguments, "--target", target]) == 0
    content = json.loads(capsys.readouterr().out)
    tokens = [token["token"] for token in content["tokens"]]
    name = name.replace("{9}", zoo.tokenizer("bytes").convert_ids_to_tokens(9))
    for place in (2, 3):
        name = name.replace(f"{{{place}}}", f"{tokens[place].removeprefix('Ġ')} [{place}]")
    assert content["target"] == name


def test_characters_that_the_console_cannot_encode_are_escaped(monkeypatch):
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    assert cli.main(["explain", "A caf\u00e9 \U0001f600 film."]) == 0
    assert rb"caf\xe9" in console.buffer.getvalue()


def test_a_closed_pipe_prints_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run([sys.executable, "-m", "nbsal.cli", "methods"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (1, b"")


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


def test_random_arguments_end_with_a_result_or_an_error_message(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng, refused = random.Random(0), 0
    monkeypatch.setattr(nbsal, "load", cache(nbsal.load))
    for _ in range(80):
        command = rng.choice(list(OPTIONS))
        arguments = [rng.choice([TEXT, *STRANGE])] if command == "explain" else [rng.choice(STRANGE), "out"]
        for option in rng.sample(OPTIONS[command], rng.randrange(3)):
            arguments += [option, rng.choice(STRANGE)]
        try:
            status = cli.main([command, *arguments])
        except SystemExit as error:  # raised by argparse
            status = error.code
        assert status in (0, 2), arguments
        refused += status == 2
    assert 20 < refused < 80 and "Traceback" not in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"nbsal {nbsal.__version__}\n"


def test_methods_are_listed(capsys):
    assert cli.main(["methods"]) == 0
    out = capsys.readouterr().out
    assert "decoded-gradcam" in out and "Hou and Castanon 2023" in out
    assert all(name in out for name in catalogue.names())
    assert "samples x (units - 1)" in out and "scores: positive or negative" in out
    assert "deciding position: " in out and all(f"\n{part}: " in out for part in trace.NEEDS)


def test_methods_are_a_markdown_table(capsys):
    assert cli.main(["methods", "--markdown"]) == 0
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert header.count("|") == rule.count("|") == 7
    assert [row.split("`")[1] for row in rows] == catalogue.names() and all(row.count("|") == 7 for row in rows)


def test_doctor_with_everything_installed(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "SHA-256 as published" in out and "MISSING" not in out


def test_doctor_prints_how_to_install_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(base, "packaged", lambda name: None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    assert cli.main(["doctor"]) == 0
    assert "pip install 'nbsal[demo]'" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    assert cli.main(["doctor"]) == 1
    assert "MISSING" in capsys.readouterr().out


def test_doctor_without_torch_prints_what_is_installed(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main(["doctor"]) == 1
    assert "unknown" in capsys.readouterr().out


def test_doctor_refuses_damaged_base_weights(capsys, monkeypatch, tmp_path):
    damaged = tmp_path / "model.safetensors"
    damaged.write_bytes(b"damaged")
    monkeypatch.setattr(base, "packaged", lambda name: damaged if name == damaged.name else None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    assert cli.main(["doctor"]) == 1
    assert str(damaged) in capsys.readouterr().out


def test_notebooks_are_copied_without_overwriting_changes(tmp_path):
    copies = list(cli.copy_notebooks(tmp_path / "mine"))
    assert copies and all(copy.suffix == ".ipynb" and copy.with_suffix(".py").is_file() for copy in copies)
    assert copies[0].name == "01_quickstart.ipynb"
    copies[0].write_text("changed")
    list(cli.copy_notebooks(tmp_path / "mine"))
    assert copies[0].read_text() == "changed"


def test_notebooks_are_not_copied_through_links(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "01_quickstart.ipynb").symlink_to(tmp_path / "elsewhere")
    list(cli.copy_notebooks(tmp_path / "mine"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(find_spec("jupyterlab") is None, reason="JupyterLab is not installed")
def test_lab_opens_the_quickstart_and_prints_its_address(tmp_path):
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
            assert "JupyterLab" in fetch(address)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert (tmp_path / "notebooks" / "01_quickstart.ipynb").exists()


@pytest.fixture
def commands(monkeypatch):
    """Collect the commands that would be run instead of running them."""
    commands = []
    monkeypatch.setattr(subprocess, "call", lambda command: commands.append(command) or 7)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return commands


def test_lab_opens_a_browser_if_there_is_a_display_and_returns_its_status(commands, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: name)
    assert cli.main(["lab", str(tmp_path / "one")]) == 7
    monkeypatch.setenv("DISPLAY", ":0")
    assert cli.main(["lab", str(tmp_path / "one")]) == 7
    assert ["--no-browser" in command for command in commands] == [True, False]
    assert f"--ServerApp.root_dir={tmp_path / 'one'}" in commands[0] and "--ServerApp.ip=127.0.0.1" in commands[0]
    assert cli.NOTICE_DEATH in commands[0]
    tokens = {part for command in commands for part in command if part.startswith("--IdentityProvider.token=")}
    assert len(tokens) == 2, "every server has another token"


def test_lab_without_jupyterlab_prints_how_to_install_it(commands, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["lab", str(tmp_path / "one")]) == 2
    assert "pip install 'nbsal[lab]'" in capsys.readouterr().err and not commands and not (tmp_path / "one").exists()


def fetch(address: str, seconds: float = 60) -> str:
    """Fetch a page, retrying until the server has started."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as page:
                return page.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)
