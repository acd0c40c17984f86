"""The report: it prints, keeps what it has done, and goes on from there."""

import json

import pytest

from nbsal.evaluation import report
from tests.figures.test_tables import NAMES, results

ROWS = [{"sentence": text, "label": label} for text, label in [("a joy", 1), ("a dull bore", 0), ("warm and funny", 1)]]


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """ask(arguments) -> what the program prints."""
    (tmp_path / "sst2").mkdir()
    for split in ("train", "validation"):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        (tmp_path / "sst2" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.setenv("NBSAL_DATA", str(tmp_path))
    monkeypatch.setattr(report, "RANDOM", 5)
    monkeypatch.setattr(report, "SHORTEST", 3)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["report", *arguments, "--keep", str(tmp_path / "kept")])
        report.main()
        return capsys.readouterr().out

    return run


def test_games_are_kept_and_gone_on_with(ask, monkeypatch, capsys):
    arguments = ("games", "--choosing", "1", "--baselines", "gradcam")
    with pytest.raises(SystemExit, match="Time is up"):
        ask(*arguments, "--minutes", "0")
    capsys.readouterr()
    whole = ask(*arguments)
    for name in ("decoded Grad-CAM l6", "decoded Simple l0", "Grad-CAM l0", "random", "margins", "of CPU", "3 texts"):
        assert name in whole
    monkeypatch.setattr(report, "games", None)  # what is kept is not played again
    assert ask(*arguments) == whole
    with pytest.raises(SystemExit, match=r"Not yet there: simple\. Run the same"):
        ask("games", "--choosing", "1", "--baselines", "gradcam", "simple", "--minutes", "0")


def test_margins_are_of_what_is_there(capsys):
    for ours, names in (("ours", ["other", "<b>third</b>"]), ("absent", [])):
        report.print_margins(results(), ours)
        printed = capsys.readouterr().out
        assert [name for name in NAMES if name in printed.partition("\n")[2]] == names


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("faithfulness", ["random mask", "mask-lrp@published", "mask-lrp@equations", "aopc", "log-odds", "gae"]),
        ("corruption", ["0 %", "20 %", "100 %", "aopc"]),
        ("overlap", ["decoded Grad-CAM l5", "random", "100"]),
    ],
)
def test_other_reports(ask, what, said):
    printed = ask(what, "--baselines", "mask-lrp", "gae")
    assert all(one in printed for one in said)
