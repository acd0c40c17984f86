"""The command `nbsal corpus`."""

import pandas
import pytest

import nbsal
from nbsal import cli, corpus


@pytest.fixture(autouse=True)
def small_by_default(monkeypatch):
    monkeypatch.setattr(nbsal.samples, "default_classifier", lambda: "demo/reviews-small")


def test_a_file_is_explained_and_failures_are_printed(capsys, tmp_path):
    source, out = tmp_path / "reviews.csv", str(tmp_path / "out")
    pandas.DataFrame({"review": ["A warm and funny film.", "", "A dull bore."]}).to_csv(source, index=False)
    arguments = ["corpus", str(source), out, "--text", "review", "--method", "gradcam", "--method", "attcat"]
    for _ in range(2):  # the second run has nothing to do
        assert cli.main([*arguments, "--target", "negative", "--shard-rows", "2"]) == 0
        output = capsys.readouterr().out
        assert "3 texts" in output and "1 could not be explained" in output and "text 1: " in output
    explained = corpus.open(out)
    assert explained.methods == ["gradcam", "attcat"] and [s.target for s in explained] == ["negative"] * 2


def test_a_run_that_explains_nothing_fails(capsys, tmp_path):
    source, out = tmp_path / "reviews.csv", str(tmp_path / "out")
    pandas.DataFrame({"text": ["A warm and funny film.", "A dull bore."]}).to_csv(source, index=False)
    arguments = ["corpus", str(source), out, "--method", "gradcam", "--target", "nope"]
    for _ in range(2):  # also when the failures were stored before
        assert cli.main(arguments) == 1
        printed = capsys.readouterr()
        first = corpus.open(out).failures()["error"][0]
        assert first in printed.err and "nope" in printed.err and "Traceback" not in printed.err
    pandas.DataFrame({"text": ["", " "]}).to_csv(source, index=False)
    assert cli.main(["corpus", str(source), str(tmp_path / "blank"), "--method", "gradcam"]) == 1
    assert "blank" in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_resume(capsys, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "explain", interrupt)
    assert cli.main(["corpus", "texts.csv", str(tmp_path)]) == 130
    error = capsys.readouterr().err
    assert "resume" in error and str(tmp_path) in error
