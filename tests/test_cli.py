"""Test the command line."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
import torch

import nbsal
from nbsal import cli, doctor
from nbsal.methods import catalogue
from nbsal.passes import trace
from nbsal.samples import base
from tests import zoo
from tests.cases import cases
from tests.raising import refuses

TEXT = "A warm and funny film."
QUESTION = "Where does Mara live?"


@pytest.fixture(autouse=True)
def small_by_default(monkeypatch):
    monkeypatch.setattr(nbsal.samples, "default_classifier", lambda: "demo/reviews-small")


def run(capsys, *arguments, status=0):
    """Run a command that exits with this status; return what it prints."""
    assert cli.main(list(map(str, arguments))) == status
    return capsys.readouterr().out


def test_explain_prints_the_prediction_and_the_words(capsys, monkeypatch):
    out = run(capsys, "explain", TEXT)
    assert "not checked" in out and re.search(r"Strongest words.*\n(warm|funny)", out)
    assert "checked by hiding" in run(capsys, "explain", TEXT, "--check")
    pair = run(capsys, "explain", "A man sleeps.", "--pair", "A man is awake.", "--model", "demo/nli")
    assert (
        re.match(r"(leaning )?(entailment|neutral|contradiction), ", pair)
        and "A man sleeps." in pair
        and "awake" in pair
    )
    assert "premise" in run(capsys, "explain", TEXT, "--model", "demo/nli") and "premise" not in pair
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    assert cli.main(["explain", "A caf\u00e9 \U0001f600 film."]) == 0
    assert rb"caf\xe9" in console.buffer.getvalue(), "characters that the console cannot encode"


@pytest.mark.full
def test_commands_import_only_what_they_need():
    slow = ("torch", "transformers", "numpy", "pandas", "matplotlib")
    others = ("pyarrow", "captum", "ipywidgets", "anywidget", "nbsal.widgets", "nbsal.corpus", "nbsal.evaluation")
    loaded = "print([name for name in {} if name in sys.modules], file=sys.stderr)"
    program = ["import sys", "from nbsal import cli", "cli._parser()", loaded.format(slow)]
    program += [f"cli.main(['explain', {TEXT!r}])", loaded.format((*slow[3:], *others))]
    result = subprocess.run([sys.executable, "-c", "; ".join(program)], capture_output=True, text=True)
    assert result.stderr.split() == ["[]", "[]"]


def test_a_plan_is_printed_instead_of_an_explanation(capsys):
    assert run(capsys, "explain", TEXT, "--method", "simple", "--plan").endswith("at layers [0])\n")


def test_a_model_without_an_lm_head_is_explained_by_what_can_run(capsys, tmp_path):
    (tmp_path / "rows.csv").write_text("text\nA joy.\n")
    model = ["--model", zoo.save(tmp_path, "bert", "sequence"), "--plan"]
    assert cli.main(list(map(str, ["explain", TEXT, *model]))) == 0
    printed = capsys.readouterr()
    assert "attn-lrp" in printed.out and not printed.err
    assert "1 text" in run(capsys, "audit", tmp_path / "rows.csv", *model)
    run(capsys, "corpus", tmp_path / "rows.csv", tmp_path / "out", *model[:2])


def test_explain_as_json_and_as_html(capsys, tmp_path):
    page = tmp_path / "page.html"
    options = ["--method", "gradxact", "--layer", "3", "--target", "negative", "--json", "--html", page]
    content = json.loads(run(capsys, "explain", TEXT, *options))
    assert (content["prediction"], content["target"]) == ("positive", "negative")
    assert [token["token"] for token in content["tokens"]][:3] == ["[CLS]", "a", "warm"]
    assert content["provenance"]["parameters"]["layer"] == 3
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>") and "funny" in page.read_text()


def test_answer_writes_a_reply_with_its_sources(capsys, tmp_path):
    from tests.answers import writers

    subject = writers.load(dtype=torch.float32)
    subject.model.save_pretrained(tmp_path / "writer")
    subject.tokenizer.save_pretrained(tmp_path / "writer")
    (tmp_path / "notes.txt").write_text("Ann wrote the book.\nIt was warm.\n\nBen read it.")
    arguments = ["answer", "Who wrote the book?", "--model", tmp_path / "writer", "--unit", "document"]
    arguments += ["--html", tmp_path / "why.html", "--save", tmp_path / "a", "--reply", "Ann.", "--documents"]
    out = run(capsys, *arguments, tmp_path / "notes.txt").splitlines()
    assert out[0] == "Ann." and len(out) == 6 and any("document 2: Ben read it." in line for line in out)
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")
    names = [unit.name for unit in nbsal.Answer.load(tmp_path / "a").units]
    assert names == ["user message 1", "document 1", "document 2"]
    run(capsys, *arguments, "no/such/file", status=2)


def test_documents_are_utf_8_with_or_without_a_byte_order_mark(capsys, tmp_path):
    notes = tmp_path / "notes.txt"
    arguments = ["answer", QUESTION, "--reply", " Mara lives in Oslo.", "--documents", notes]
    printed = []
    for encoding in ("utf-8", "utf-8-sig"):
        notes.write_text("Mara lives in Oslo. Caf\u00e9.", encoding=encoding)
        printed.append(run(capsys, *arguments))
    assert printed[0] == printed[1]
    notes.write_text("Caf\u00e9.", encoding="latin-1")
    with refuses("--documents"):
        cli._read_document(notes)
    run(capsys, *arguments, status=2)


def test_control_characters_of_texts_do_not_reach_the_terminal(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("Mara\x1b[2J lives in \u202eOslo.")
    out = run(capsys, "answer", QUESTION, "--documents", tmp_path / "notes.txt")
    (tmp_path / "rows.jsonl").write_text('{"text": "A joy."}\n{"te\\u001b[2Jxt": "A bore."}\n')
    out += run(capsys, "corpus", tmp_path / "rows.jsonl", tmp_path / "out", "--method", "gradcam")
    assert "Mara\u241b[2J lives" in out and "te\u241b[2Jxt" in out and not {"\x1b", "\u202e"} & set(out)


MISTAKES = [
    (["explain", "  "], "text"),
    (["answer", " "], "question"),
    (["answer", QUESTION, "--max-new-tokens", "0"], "max_new_tokens"),
    (["answer", QUESTION, "--reply", " Mara lives in Oslo.", "--save", "."], "--save='.'"),
    (["explain", TEXT, "--model", "demo/none"], "demo/news"),
    (["explain", TEXT, "--method", "magic"], "`nbsal methods`"),
    (["explain", TEXT, "--layer", "9"], "0, 1, 2, 3"),
    (["explain", TEXT, "--target", "neutral"], "negative, positive"),
    (["explain", TEXT, "--html", "no/such/folder/f.html"], "--html='no/such/folder/f.html'"),
    (["explain", TEXT, "--model", "no/such/model"], "model='no/such/model'"),
    (["explain", TEXT, "--lm", "no/such/model"], "lm='no/such/model'"),
    (["methods", "magic"], "`nbsal methods`"),
    (["corpus", "foo://x", "out"], "foo"),
    (["corpus", "none.csv", "out"], "none.csv"),
    (["corpus", "none.csv", "out", "--method", "gradcam", "--method", "gradcam"], "--method"),
    (["corpus", "none.csv", "out", "--scheduler", "nowhere"], "'nowhere'"),
    (["corpus", "none.csv", "out", "--scheduler", "foo://nowhere:1"], "foo"),
]


@cases("arguments, detail", MISTAKES)
def test_wrong_arguments_print_an_error_and_exit_with_status_2(capsys, arguments, detail):
    assert cli.main(arguments) == 2
    out, error = capsys.readouterr()
    last = error.rpartition("\r")[2]  # on a slow machine there was a progress bar, which is gone
    assert detail in last and last.startswith("nbsal: ") and "Traceback" not in error and not out


@cases("option", ["--text", "--label", "--group"])
def test_an_audit_of_a_column_that_is_missing_says_which_there_are_and_which_option_names_one(capsys, tmp_path, option):
    (tmp_path / "rows.csv").write_text("sentence,stars\nA joy.,5\n")
    (tmp_path / "rows.jsonl").write_text('{"sentence": "A joy.", "stars": 5}\n')
    for name in ("rows.csv", "rows.jsonl"):
        assert cli.main(["audit", str(tmp_path / name), "--text", "sentence", option, "none"]) == 2
        error = capsys.readouterr().err
        assert all(part in error for part in ("'none'", "sentence, stars", f"{option} NAME")) and "Row" not in error


def test_a_reply_is_printed_without_its_end_token_and_within_its_length(capsys, tmp_path):
    out = run(capsys, "answer", QUESTION, "--reply", " Mara lives in Oslo.</s>")
    assert out.splitlines()[0] == "Mara lives in Oslo." and " depends on your question: " in out.splitlines()[1]
    (tmp_path / "notes").write_text("Mara lives in Oslo.\n\nBoris is in Rouen.\n\nThe keys are here.\n\nIt rains.")
    notes = ["answer", QUESTION, "--reply", " Mara lives in Oslo.", "--documents", tmp_path / "notes", "--unit"]
    sources = run(capsys, *notes, "document").splitlines()[3:]
    assert ["document" in line for line in sources] == [True, True, True, False]
    words = run(capsys, *notes, "document", "--rows", "word").splitlines()[3:]
    assert [line.split()[0] for line in words] == ["Mara", "lives", "in", "Oslo", "."]
    out = run(capsys, "answer", QUESTION, "--max-new-tokens", "1", "--save", os.devnull)
    assert len(out.splitlines()[0].split()) == 1


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_ends_other_than_a_result(capsys, monkeypatch):
    from nbsal.explain.prompt.reading import LEVELS

    assert ", ".join(LEVELS) == cli.UNITS
    assert run(capsys) == cli._parser().format_help()
    for arguments, status in ((["explain", "A", "joy"], 2), (["--version"], 0)):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == status
    out, error = capsys.readouterr()
    assert out == f"nbsal {nbsal.__version__}\n" and "quotes" in error
    monkeypatch.setattr(nbsal, "load", interrupt)
    assert cli.main(["explain", TEXT]) == 130
    assert capsys.readouterr() == ("", "")


TARGETS = [
    ("causal", "9", "{9}"),
    ("causal", "3,9", "{9} after {3}"),
    ("causal", "the", "the"),
    ("causal", ",", ","),
    ("token", "2,1", "LABEL_1 at {2}"),
]


@cases("head, target, name", TARGETS)
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


def test_a_closed_pipe_prints_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run([sys.executable, "-m", "nbsal.cli", "methods"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (1, b"")


def test_methods_are_listed_by_family_or_described(capsys):
    start, *families, _ = [part.splitlines() for part in run(capsys, "methods").split("\n\n")]
    assert {"attn-lrp", "integrated", "occlusion", "decoded-gradcam", "gae", "ifr"} == {
        line.split()[0] for line in start[1:]
    }
    table = catalogue.table()
    assert sorted(line.split()[0] for family in families for line in family[1:]) == sorted(table.index)
    assert all(table.family[line.split()[0]] == family[0] for family in families[:-1] for line in family[1:])
    full, single = run(capsys, "methods", "--full"), run(capsys, "methods", "gradcam")
    assert all(f"\n{name} " in f"\n{full}" for name in catalogue.names())
    assert all(f"\n{part}: " in out for out in (full, single) for part in trace.NEEDS)
    assert single.startswith("gradcam ") and table.cost["gradcam"] in single and "\ngradxact" not in single
    header, rule, *rows = run(capsys, "methods", "--markdown").splitlines()
    assert header.count("|") == rule.count("|") == 7
    assert [row.split("`")[1] for row in rows] == catalogue.names() and all(row.count("|") == 7 for row in rows)


def test_doctor(capsys, monkeypatch):
    assert "MISSING" not in run(capsys, "doctor")
    monkeypatch.setattr(base, "packaged", lambda name, package="": None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    assert "nbsal[demo]" in run(capsys, "doctor")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        run(capsys, "doctor", status=1)
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    assert "MISSING" in run(capsys, "doctor", status=1)


def test_notebooks_are_copied_without_overwriting_changes_and_not_through_links(tmp_path):
    folder = tmp_path / "mine"
    copies = list(cli.copy_notebooks(folder))
    assert all(copy.suffix == ".ipynb" and copy.with_suffix(".py").is_file() for copy in copies)
    assert copies[0].name == "01_quickstart.ipynb"
    copies[0].write_text("changed")
    copies[1].unlink()
    copies[1].symlink_to(tmp_path / "elsewhere")
    list(cli.copy_notebooks(folder))
    assert copies[0].read_text() == "changed" and not (tmp_path / "elsewhere").exists()


@pytest.fixture
def commands(monkeypatch):
    """Collect the commands that would be run, with their environments, instead of running them."""
    commands = []

    def execve(program, command, environment):
        commands.append((command, environment))
        raise SystemExit(7)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(subprocess, "call", lambda command, env: commands.append((command, env)) or 7)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return commands


def test_lab_opens_a_browser_if_there_is_a_display(commands, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: name)
    for display in ("", ":0"):
        monkeypatch.setenv("DISPLAY", display)
        with pytest.raises(SystemExit):
            cli.main(["lab", str(tmp_path / "one")])
    monkeypatch.setattr(sys, "platform", "win32")
    assert cli.main(["lab", str(tmp_path / "one")]) == 7
    assert ["--no-browser" in command for command, _ in commands] == [True, False, False]
    command, environment = commands[0]
    assert f"--ServerApp.root_dir={tmp_path / 'one'}" in command and "--ServerApp.ip=127.0.0.1" in command
    assert cli.NOTICE_DEATH in command and environment.items() >= {("HOME", os.environ["HOME"])}
    assert len({environment["JUPYTER_TOKEN"] for _, environment in commands}) == 3, "every server has another token"


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be replaced there")
def test_signals_to_lab_reach_jupyterlab_and_no_other_user_can_read_its_token(tmp_path):
    stand_in = tmp_path / "jupyterlab"
    stand_in.mkdir()
    (stand_in / "__init__.py").touch()
    report = "import json, os, sys; print(json.dumps([os.getpid(), sys.argv, os.environ['JUPYTER_TOKEN']]))"
    (stand_in / "__main__.py").write_text(report)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "nbsal.cli", "lab", str(tmp_path / "notebooks")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    *_, address, reported = process.communicate()[0].splitlines()
    pid, arguments, token = json.loads(reported)
    assert pid == process.pid and address.endswith(f"?token={token}") and token not in " ".join(arguments)


def test_lab_without_jupyterlab_prints_how_to_install_it(commands, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["lab", str(tmp_path / "one")]) == 2
    assert "pip install 'nbsal[lab]'" in capsys.readouterr().err and not commands and not (tmp_path / "one").exists()
