"""The README: its outputs, numbers and comparison are what programs print, and it stays short."""

import re
import shlex

import pytest

from nbsal import cli
from nbsal.methods import catalogue
from tests import zoo
from tests.bench.features import page as peers
from tests.bench.features.registry import FEATURES
from tests.docs import examples
from tests.docs.repository import ROOT

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 140


def test_the_shell_example_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ((command, output),) = [pair for pair in examples.with_outputs(README, "bash") if pair[1]]
    assert cli.main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.split()[: len(output.split())] == output.split()  # some spaces are narrow ones
    assert (tmp_path / "why.html").stat().st_size


def test_the_comparison_has_the_answers_of_the_probes():
    (table,) = re.findall(r"^\| \| nbsal .*?\n\n", TEXT, re.DOTALL | re.MULTILINE)
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line)
    results, labels = peers.load(), {text: key for part in FEATURES.values() for key, text in part.items()}
    assert len(rows) > 5
    for label, *cells in rows:
        answers = [results[tool]["answers"].get(labels[label], {"answer": peers.NOTHING}) for tool in header[1:]]
        assert cells == [answer["answer"] for answer in answers], label


@pytest.mark.parametrize(
    ("count", "pattern"),
    [
        (
            len([name for name in catalogue.names() if "@" not in name and name != "random"]),
            r"`nbsal methods` lists (\d+)",
        ),
        (len(zoo.ENCODERS | zoo.OTHER_ENCODERS | zoo.DECODERS | zoo.OTHER_DECODERS), r"\((\d+) architectures"),
    ],
    ids=["methods", "architectures"],
)
def test_it_counts_as_the_programs_do(count, pattern):
    assert re.findall(pattern, TEXT) == [str(count)]
