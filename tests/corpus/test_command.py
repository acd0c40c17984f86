"""`nbsal corpus`, run as a user runs it."""

import re
import sys

import pandas
import pytest

from nbsal import cli, corpus


def test_a_file_becomes_a_folder_and_what_failed_is_said(capsys, tmp_path):
    source, out = tmp_path / "reviews.csv", str(tmp_path / "out")
    pandas.DataFrame({"review": ["A warm and funny film.", "", "A dull bore."]}).to_csv(source, index=False)
    arguments = ["corpus", str(source), out, "--text", "review", "--method", "gradcam", "--method", "attcat"]
    for _ in range(2):  # a second time there is nothing left to do
        assert cli.main([*arguments, "--target", "negative", "--shard-rows", "2"]) == 0
        said = capsys.readouterr().out
        assert "3 texts" in said and "1 could not be explained" in said and "row 1: Text 1 is empty" in said
    opened = corpus.open(out)
    assert opened.methods == ["gradcam", "attcat"] and [s.target for s in opened] == ["negative"] * 2


def test_pairs_are_two_columns_and_nothing_is_said_of_what_did_not_fail(capsys, tmp_path):
    source, out = tmp_path / "pairs.jsonl", str(tmp_path / "out")
    source.write_text('{"premise": "A man sleeps.", "hypothesis": "A man is awake."}\n')
    arguments = [
        "--text",
        "premise",
        "--pair",
        "hypothesis",
        "--model",
        "demo/nli",
        "--method",
        "gradxact",
        "--layer",
        "2",
    ]
    assert cli.main(["corpus", str(source), out, *arguments]) == 0
    said = capsys.readouterr().out
    assert "1 texts" in said and "0 could not be explained" in said and "first of them" not in said
    (found,) = corpus.open(out)
    assert found.text == ("A man sleeps.", "A man is awake.") and found.provenance["parameters"]["layer"] == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "There is no"),
        (["--scheduler", "nowhere"], "--scheduler is an address such as tcp://.*'nowhere': missing port"),
        (["--scheduler", "foo://nowhere:1"], "unknown address scheme"),
    ],
)
def test_mistakes_are_a_sentence(capsys, tmp_path, arguments, sentence):
    assert cli.main(["corpus", str(tmp_path / "none.csv"), str(tmp_path / "out"), *arguments]) == 2
    assert re.search(sentence, capsys.readouterr().err)


def test_a_cluster_needs_an_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["corpus", str(tmp_path / "none.csv"), str(tmp_path / "out"), "--scheduler", "127.0.0.1:1"]) == 2
    assert "pip install 'nbsal[scale]'" in capsys.readouterr().err


def test_a_run_that_is_interrupted_says_how_it_goes_on(capsys, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "explain", interrupted)
    assert cli.main(["corpus", "texts.csv", str(tmp_path)]) == 130
    assert f"kept in {tmp_path}: the same command goes on" in capsys.readouterr().err
