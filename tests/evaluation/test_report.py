"""The report: it prints results, saves finished groups and resumes."""

import json

import pytest

from nbsal.evaluation import report

ROWS = [{"sentence": text, "label": label} for text, label in [("a joy", 1), ("a dull bore", 0), ("warm and funny", 1)]]


@pytest.fixture
def run_report(tmp_path, monkeypatch, capsys):
    """run_report(*arguments) -> the printed output."""
    (tmp_path / "sst2").mkdir()
    for split in ("train", "validation"):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        (tmp_path / "sst2" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.setenv("NBSAL_DATA", str(tmp_path))
    monkeypatch.setattr(report, "RANDOM", 5)
    monkeypatch.setattr(report, "SHORTEST", 3)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["report", *arguments, "--folder", str(tmp_path / "results")])
        report.main()
        return capsys.readouterr().out

    return run


def test_finished_groups_are_saved_and_not_evaluated_again(run_report, monkeypatch, capsys, tmp_path):
    arguments = ("games", "--layer-texts", "1", "--baselines", "gradcam")
    with pytest.raises(SystemExit) as stopped:
        run_report(*arguments, "--minutes", "0")
    assert "--minutes" in str(stopped.value) and not list(tmp_path.glob("results/*/*.npz"))
    capsys.readouterr()
    output = run_report(*arguments)
    for name in ("decoded Grad-CAM l6", "decoded Simple l0", "Grad-CAM l0", "random", "margins", "CPU", "3 texts"):
        assert name in output
    monkeypatch.setattr(report, "games", None)  # saved groups are not played again
    assert run_report(*arguments) == output
    with pytest.raises(SystemExit) as stopped:
        run_report("games", "--layer-texts", "1", "--baselines", "gradcam", "simple", "--minutes", "0")
    assert "simple" in str(stopped.value) and "gradcam" not in str(stopped.value)


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("faithfulness", ["random mask", "mask-lrp@published", "mask-lrp@equations", "aopc", "log-odds", "gae"]),
        ("corruption", ["0 %", "20 %", "100 %", "aopc"]),
        ("overlap", ["decoded Grad-CAM l5", "random", "100"]),
    ],
)
def test_other_reports(run_report, name, contents):
    printed = run_report(name, "--baselines", "mask-lrp", "gae")
    assert all(part in printed for part in contents)
