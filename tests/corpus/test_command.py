"""`nbsal corpus`, run as a user runs it."""

import pandas

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


def test_mistakes_are_a_sentence(capsys, tmp_path):
    assert cli.main(["corpus", str(tmp_path / "none.csv"), str(tmp_path / "out")]) == 2
    assert "There is no" in capsys.readouterr().err
