"""The program: it makes what is missing, says what everything rests on, goes on where it stopped, and reports."""

import json

import pytest
from matplotlib.figure import Figure

import nbsal
from nbsal.errors import InputError
from nbsal.figures import __main__ as program
from nbsal.figures import decoding_exhibits, edition, mask_lrp_exhibits
from nbsal.figures.edition import Edition, Named, chosen
from nbsal.figures.exhibits import Exhibit, Made, example
from nbsal.figures.pages import Page
from tests import zoo
from tests.figures.test_tables import Tags, made

SENTENCES = [("a warm and funny joy of a film , never dull", 1), ("a dull bore , slow and without a joy", 0)] * 3


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Samples only, and few of them."""
    monkeypatch.delenv("NBSAL_DATA", raising=False)
    few = {name: edition.Bench(b.shown, b.demo, b.sample, 4, 4) for name, b in edition.BENCHES.items()}
    monkeypatch.setattr(edition, "BENCHES", few)
    monkeypatch.setattr(nbsal.evaluation.report, "RANDOM", 5)
    for module in (mask_lrp_exhibits, program):
        monkeypatch.setattr(module, "BENCHES", few)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A folder with a benchmark table."""
    folder = tmp_path / "data" / "sst2"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps({"sentence": text, "label": label}) + "\n" for text, label in SENTENCES)
    (folder / "validation.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path / "data"


def ask(tmp_path, *arguments):
    return program.main(["--out", str(tmp_path / "out"), *arguments])


def test_all_numbers_of_both_papers_are_there():
    ours = [one.number for one in decoding_exhibits.EXHIBITS]
    numbers = [f"Figure {i}" for i in range(1, 13)] + [f"Table {i}" for i in range(1, 10)]
    assert ours == [*numbers, "Examples", "Supplement"]
    theirs = [one.number for one in mask_lrp_exhibits.EXHIBITS]
    assert theirs == [f"Figure {i}" for i in range(1, 14)] + [f"Table {i}" for i in range(1, 7)]


def test_figures_and_tables_on_samples(tmp_path, capsys, monkeypatch):
    cheap = {"sst2": ("simple@allennlp",), "ag_news": ("gradxact@thermostat",)}
    monkeypatch.setattr(decoding_exhibits, "CLOUDED", cheap)
    wanted = ("figure-1", "figure-4", "figure-9", "table-9", "examples", "supplement")
    assert ask(tmp_path, "--paper", "decoding", "--only", *wanted) == 0
    printed = capsys.readouterr().out
    assert "[1/6] Figure 1" in printed and "is there" not in printed
    out = tmp_path / "out" / "decoding"
    page = (out / "index.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert tags.seen["section"] == 6 and not tags.seen["script"]
    assert not [link for link in tags.outside if not link.startswith("data:")]
    assert "Shown on the shipped samples" in page and "samples/reviews for SST-2" in page and "4 of 160 texts" in page
    assert (out / "figure-1.png").exists() and (out / "supplement-a.html").exists() and (out / "table-9.csv").exists()
    assert ask(tmp_path, "--paper", "decoding", "--only", *wanted) == 0
    assert capsys.readouterr().out.count("is there") == 6
    assert (out / "index.html").read_text(encoding="utf-8") == page


def test_games_are_of_every_layer_and_baseline(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "BASELINES", {"sst2": ("simple@allennlp",)})
    arguments = ("--paper", "decoding", "--data", str(tables), "--only", "figure-2", "figure-5", "figure-7", "table-1")
    monkeypatch.setenv("NBSAL_DATA", "")  # --data sets it for good
    assert ask(tmp_path, *arguments) == 0
    page = (tmp_path / "out" / "decoding" / "index.html").read_text(encoding="utf-8")
    assert "Embedded default on real data. embedded demo/reviews on SST-2 (validation), 4 of 6 texts" in page
    csv = (tmp_path / "out" / "decoding" / "table-1.csv").read_text(encoding="utf-8")
    for name in ("decoded Grad-CAM l3", "decoded Grad-CAM l6", "Grad-CAM l5", "simple@allennlp", "random"):
        assert f"SST-2,{name}," in csv
    assert "decoded Simple" not in csv


def test_mask_lrp_on_samples(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae", "rollout"))
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFIED", ("sst2", "qqp"))
    monkeypatch.setattr(mask_lrp_exhibits, "POINTING", ("rollout", "gae"))
    wanted = ("figure-2", "figure-3", "figure-6", "table-1", "table-2", "table-5", "table-6")
    assert ask(tmp_path, "--paper", "mask-lrp", "--only", *wanted) == 0
    out = tmp_path / "out" / "mask-lrp"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Not shown without --model, or without tables: QQP." in page
    assert "trained on 600 questions" not in page and "csarron/bert-base-uncased-squad-v1" in page
    rows = (out / "table-1.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows[2:]] == ["gae", "rollout", "mask-lrp", "random", "random mask"]
    assert (out / "table-2-b.csv").exists()


def test_time_that_is_up_is_gone_on_with(tmp_path, capsys):
    arguments = ("--paper", "decoding", "--only", "figure-10")
    assert ask(tmp_path, *arguments, "--minutes", "0") == 1
    assert "Run the same command again" in capsys.readouterr().out
    assert ask(tmp_path, *arguments) == 0


def test_what_cannot_be_made_is_said_in_the_index(tmp_path, capsys):
    def fail(edition):
        raise InputError("There is <no> such thing.")

    def works(edition):
        return Made([("<caption>", Figure()), ("", made_table()), ("", Page("p", "<p>x</p>"))], "rests on <nothing>")

    exhibits = [
        Exhibit("Figure 1", "a <title>", "", fail, "nothing"),
        Exhibit("Table 1", "t", "says so", works, "more"),
    ]
    assert program.run(Edition(tmp_path), "A paper", exhibits, exhibits) == 2
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (
        "Not made: There is &lt;no&gt; such thing." in page and "&lt;caption&gt;" in page and "<title>A paper" in page
    )
    assert "rests on &lt;nothing&gt; The paper: says so. For more." in page
    exhibits[0] = Exhibit("Figure 1", "a <title>", "", works, "nothing")
    capsys.readouterr()
    assert program.run(Edition(tmp_path), "A paper", exhibits, exhibits) == 0  # what failed is tried again
    assert capsys.readouterr().out.count("is there") == 1
    other = Edition(tmp_path, models={"sst2": Named("my/model")})
    assert program.run(other, "A paper", exhibits, exhibits) == 0  # other settings, other figures
    assert "is there" not in capsys.readouterr().out


def made_table():
    from nbsal.figures import mask_lrp

    return mask_lrp.faithfulness_table({"one": made()})


def test_models_know_their_table_or_are_told():
    assert chosen(["sst2=my/model"], ["my/lm"]) == {"sst2": Named("my/model", "my/lm")}
    found = chosen(["anas-awadalla/gpt2-span-head-finetuned-squad", "ag_news=b"], ["one", "two"])
    assert {table: (one.model[:4], one.lm) for table, one in found.items()} == {
        "squad": ("anas", "one"), "squad_v2": ("anas", "one"), "ag_news": ("b", "two"),
    }  # fmt: skip
    with pytest.raises(InputError, match="write --model TABLE=roberta-base"):
        chosen(["roberta-base"], [])
    with pytest.raises(InputError, match="once for each of the 3"):
        chosen(["sst2=a", "imdb=b", "mnli=c"], ["d", "e"])


def test_a_wrong_model_is_a_sentence(tmp_path, capsys):
    assert ask(tmp_path, "--paper", "decoding", "--model", "roberta-base") == 2
    assert "write --model TABLE=roberta-base" in capsys.readouterr().err


def test_own_models_take_the_place_of_the_embedded_ones(tmp_path, tables, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    model, lm = zoo.save(checkpoints, "bert", "sequence"), zoo.save(checkpoints, "bert", zoo.lm_head("bert"), seed=1)
    own = Edition(tmp_path, models={"sst2": Named(str(model), str(lm))})
    subject = own.subject("sst2")
    assert subject.name == str(model) and subject.mask.shape == (subject.depth, subject.heads)
    assert own.subject("sst2") is subject
    found = mask_lrp_exhibits.distances(own)
    assert "shipped parses" not in found.footing
    rows = own.rows("sst2")
    assert own.footing("sst2", rows.said) == f"{model} on SST-2 (validation), 4 of 6 texts"
    assert Edition(tmp_path, full=True).rows("sst2").said == "SST-2 (validation), 6 of 6 texts"


def test_a_checkpoint_that_is_not_safetensors_says_how_to_convert_it(tmp_path, checkpoints, capsys, monkeypatch):
    import shutil

    import torch

    folder = tmp_path / "pickled"
    shutil.copytree(zoo.save(checkpoints, "bert", "sequence"), folder)
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    assert ask(tmp_path, "--paper", "mask-lrp", "--model", f"sst2={folder}", "--only", "figure-6") == 2
    assert "model.save_pretrained(folder)" in capsys.readouterr().out


def test_a_table_without_a_model_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="--model qqp=ID"):
        Edition(tmp_path).subject("qqp")


def test_examples_are_rightly_predicted(tmp_path):
    some = Edition(tmp_path)
    for label, name in enumerate(("negative", "positive")):
        text = example(some, "sst2", label)
        assert nbsal.Explainer(some.subject("sst2"), "gradcam")(text).prediction == name
