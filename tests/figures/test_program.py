"""The program: it makes what is missing, says what everything rests on, goes on where it stopped, and reports."""

import json
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

import nbsal
from nbsal.errors import InputError
from nbsal.figures import __main__ as program
from nbsal.figures import build, decoding_exhibits, mask_lrp_exhibits
from nbsal.figures.build import Build, NamedModel, parse_models
from nbsal.figures.exhibits import Exhibit, Product, example
from nbsal.figures.pages import Page
from tests import zoo
from tests.figures.test_tables import Tags, made

SENTENCES = [("a warm and funny joy of a film , never dull", 1), ("a dull bore , slow and without a joy", 0)] * 3


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Samples only, and few of them."""
    monkeypatch.delenv("NBSAL_DATA", raising=False)
    few = {name: build.BenchmarkTask(b.shown, b.demo, b.sample, 4, 4) for name, b in build.BENCHMARK_TASKS.items()}
    monkeypatch.setattr(build, "BENCHMARK_TASKS", few)
    monkeypatch.setattr(nbsal.evaluation.report, "RANDOM", 5)
    for module in (mask_lrp_exhibits, program):
        monkeypatch.setattr(module, "BENCHMARK_TASKS", few)


@pytest.fixture
def tables(tmp_path):
    """A folder with two benchmark tables."""
    joy, bore = SENTENCES[0][0], SENTENCES[1][0]
    pairs = [(joy, joy, 1), (bore, bore, 1), (joy, bore, 0)]
    rows = {
        "sst2": [{"sentence": text, "label": label} for text, label in SENTENCES],
        "qqp": [{"question1": one, "question2": other, "label": same} for one, other, same in pairs],
    }
    for name, table in rows.items():
        path = tmp_path / "data" / name / "validation.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
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
    wanted = ("figure-1", "figure-4", "figure-9", "figure-12", "table-9", "examples", "supplement")
    assert ask(tmp_path, "--paper", "decoding", "--only", *wanted) == 0
    printed = capsys.readouterr().out
    assert "[1/7] Figure 1" in printed and "is there" not in printed
    out = tmp_path / "out" / "decoding"
    page = (out / "index.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert tags.seen["section"] == 7 and not tags.seen["script"]
    assert not [link for link in tags.outside if not link.startswith("data:")]
    assert "Shown on the shipped samples" in page and "samples/reviews for SST-2" in page and "4 of 160 texts" in page
    assert (out / "figure-1.png").exists() and (out / "supplement-a.html").exists() and (out / "table-9.csv").exists()
    assert ask(tmp_path, "--paper", "decoding", "--only", *wanted) == 0
    assert capsys.readouterr().out.count("is there") == 7
    assert (out / "index.html").read_text(encoding="utf-8") == page


def test_games_are_of_every_layer_and_baseline(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "BASELINES", {"sst2": ("simple@allennlp",)})
    wanted = ("figure-2", "figure-5", "figure-7", "table-1", "table-2")
    arguments = ("--paper", "decoding", "--data", str(tables), "--only", *wanted)
    monkeypatch.setenv("NBSAL_DATA", "")  # --data sets it for good
    assert ask(tmp_path, *arguments) == 0
    page = (tmp_path / "out" / "decoding" / "index.html").read_text(encoding="utf-8")
    assert "Embedded default on real data. embedded demo/reviews on SST-2 (validation), 4 of 6 texts" in page
    csv = (tmp_path / "out" / "decoding" / "table-1.csv").read_text(encoding="utf-8")
    for name in ("decoded Grad-CAM l3", "decoded Grad-CAM l6", "Grad-CAM l5", "simple@allennlp", "random"):
        assert f"SST-2,{name}," in csv
    assert "decoded Simple" not in csv
    csv = (tmp_path / "out" / "decoding" / "table-2.csv").read_text(encoding="utf-8").splitlines()
    names = {row.split(",")[1] for row in csv if row.startswith("SST-2,")}
    assert names == {"simple@allennlp", *(f"decoded Simple l{at}" for at in (3, 4, 5))}


def test_mask_lrp_on_samples(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae", "rollout"))
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFIED", ("sst2", "qqp"))
    monkeypatch.setattr(mask_lrp_exhibits, "POINTING", ("rollout", "gae"))
    wanted = ("figure-2", "figure-3", "figure-6", "table-1", "table-2", "table-5", "table-6")
    assert ask(tmp_path, "--paper", "mask-lrp", "--only", *wanted) == 0
    out = tmp_path / "out" / "mask-lrp"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Not shown without --model, or without tables: QQP." in page
    assert build.WEAK["squad"] not in page and "csarron/bert-base-uncased-squad-v1" in page
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
        return Product([("<caption>", Figure()), ("", made_table()), ("", Page("p", "<p>x</p>"))], "rests on <nothing>")

    exhibits = [
        Exhibit("Figure 1", "a <title>", "", fail, "nothing"),
        Exhibit("Table 1", "t", "says so", works, "more"),
    ]
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 2
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (
        "Not made: There is &lt;no&gt; such thing." in page and "&lt;caption&gt;" in page and "<title>A paper" in page
    )
    assert "rests on &lt;nothing&gt; The paper: says so. For more." in page
    exhibits[0] = Exhibit("Figure 1", "a <title>", "", works, "nothing")
    capsys.readouterr()
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 0  # what failed is tried again
    assert capsys.readouterr().out.count("is there") == 1
    other = Build(tmp_path, models={"sst2": NamedModel("my/model")})
    assert program.run(other, "A paper", exhibits, exhibits) == 0  # other settings, other figures
    assert "is there" not in capsys.readouterr().out


def made_table():
    from nbsal.figures import mask_lrp

    return mask_lrp.faithfulness_table({"one": made()})


def test_models_know_their_table_or_are_told():
    assert parse_models(["sst2=my/model"], ["my/lm"]) == {"sst2": NamedModel("my/model", "my/lm")}
    found = parse_models(["anas-awadalla/gpt2-span-head-finetuned-squad", "ag_news=b"], ["one", "two"])
    assert {table: (one.model[:4], one.lm) for table, one in found.items()} == {
        "squad": ("anas", "one"), "squad_v2": ("anas", "one"), "ag_news": ("b", "two"),
    }  # fmt: skip
    with pytest.raises(InputError, match="write --model TABLE=roberta-base"):
        parse_models(["roberta-base"], [])
    with pytest.raises(InputError, match="once for each of the 3"):
        parse_models(["sst2=a", "imdb=b", "mnli=c"], ["d", "e"])


def test_a_wrong_model_is_a_sentence(tmp_path, capsys):
    assert ask(tmp_path, "--paper", "decoding", "--model", "roberta-base") == 2
    assert "write --model TABLE=roberta-base" in capsys.readouterr().err


def test_own_models_take_the_place_of_the_embedded_ones(tmp_path, tables, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    model, lm = zoo.save(checkpoints, "bert", "sequence"), zoo.save(checkpoints, "bert", zoo.lm_head("bert"), seed=1)
    own = Build(tmp_path, models={"sst2": NamedModel(str(model), str(lm))})
    subject = own.subject("sst2")
    assert subject.name == str(model) and subject.mask.shape == (subject.depth, subject.heads)
    assert own.subject("sst2") is subject
    assert "Gold parses of the sentences shipped with nbsal, " in mask_lrp_exhibits.distances(own).footing
    rows = own.rows("sst2")
    assert own.footing("sst2", rows.said) == f"{model} on SST-2 (validation), 4 of 6 texts"
    assert Build(tmp_path, full=True).rows("sst2").said == "SST-2 (validation), 6 of 6 texts"


@pytest.fixture
def given(tmp_path, tables, checkpoints, monkeypatch):
    """An edition of tiny models on both tables."""
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    named = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", num_labels=2)))
    return Build(tmp_path / "given", models=dict.fromkeys(("sst2", "qqp"), named))


def test_masks_are_corrupted_taken_apart_and_drawn(given, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFIED", ("sst2", "qqp", "imdb"))
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae",))
    assert given.rows("qqp").said == "QQP (validation), 2 of 2 texts"  # those that ask the same
    curve, level = mask_lrp_exhibits.corruption(given).parts[0][1].axes[0].lines
    assert curve.get_xdata().tolist() == [0, 20, 40, 60, 80, 100] and level.get_label() == "gae"
    heads = mask_lrp_exhibits.head_figure(given)
    assert given.subject("sst2").name in heads.parts[0][0]
    assert heads.footing.endswith("those of --model on the sentences shipped with nbsal.")
    frame = mask_lrp_exhibits.parts(given).parts[0][1].data
    assert list(frame.index) == [
        f"mask-lrp{part}" for part in ("", " without positional heads", " without syntactic heads")
    ]
    assert set(frame.columns.get_level_values(0)) == {"SST-2", "QQP"}
    note, table = mask_lrp_exhibits.decomposition(given).parts[0]
    assert (
        list(table.data.index) == ["alti", "mask-lrp"] and note == "Not shown without --model, or without tables: IMDB."
    )


def test_the_treebank_is_read_where_it_is_and_nothing_kept_of_other_parses(given, tables):
    assert "shipped with nbsal" in mask_lrp_exhibits.distances(given).footing
    (tables / "ud_ewt").mkdir()
    rows = [("good", 2, "amod"), ("food", 0, "root")]
    lines = [f"{at}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_\n" for at, (word, head, name) in enumerate(rows, 1)]
    (tables / "ud_ewt" / "dev.conllu").write_text("# text = good food\n" + "".join(lines) + "\n")
    again = Build(given.out, models=given.models)
    assert again.study("sst2").cases["amod"] == 1
    assert "Gold parses of the English Web Treebank's" in mask_lrp_exhibits.distances(again).footing


def test_tables_that_are_not_at_hand_are_left_out_of_the_list(given, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    here = mask_lrp_exhibits.datasets(given).parts[0][1].data["here"]
    assert (here["sst2"], here["qqp"]) == ("6", "3") and here["imdb"] != here["sst2"]


def test_a_damaged_table_is_not_called_absent(given, tables):
    (tables / "sst2" / "validation.jsonl").write_text("{", encoding="utf-8")
    for shown in (lambda: given.has("sst2"), lambda: mask_lrp_exhibits.datasets(given)):
        with pytest.raises(InputError, match=r"validation\.jsonl is no sst2 as JSON lines, or is damaged"):
            shown()


def evaluating(asked, clock=None):
    """An evaluation that notes what it was asked, and takes its time."""

    def evaluate(explainers):
        asked.extend(explainers)
        if clock:
            clock[0] += 90
        return made()

    return evaluate


def test_groups_that_time_did_not_suffice_for_are_made_later(tmp_path, monkeypatch):
    clock, asked, groups = [0.0], [], {"a": {"one": None}, "b": {"two": None}}
    watch = SimpleNamespace(monotonic=lambda: clock[0], process_time=lambda: clock[0])
    monkeypatch.setattr(nbsal.evaluation.report, "time", watch)
    with pytest.raises(build.OutOfTime):
        Build(tmp_path, minutes=1).results("games", "sst2", 4, groups, evaluating(asked, clock))
    assert asked == ["one"]
    Build(tmp_path).results("games", "sst2", 4, groups, evaluating(asked))
    assert asked == ["one", "two"]


def test_what_was_found_on_samples_is_not_taken_for_the_tables(tmp_path, tables, monkeypatch):
    asked, groups = [], {"a": {"one": None}}
    Build(tmp_path).results("games", "sst2", 4, groups, evaluating(asked))
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    for _ in range(2):
        Build(tmp_path).results("games", "sst2", 4, groups, evaluating(asked))
    assert asked == ["one", "one"]


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
        Build(tmp_path).subject("qqp")


def test_examples_are_rightly_predicted(tmp_path):
    some = Build(tmp_path)
    for label, name in enumerate(("negative", "positive")):
        text = example(some, "sst2", label)
        assert nbsal.Explainer(some.subject("sst2"), "gradcam")(text).prediction == name


def test_no_example_is_better_than_a_wrong_one(tmp_path, tables, monkeypatch):
    path = tables / "sst2" / "validation.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"label": 0' in line))
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    assert example(Build(tmp_path), "sst2", 0) == SENTENCES[1][0]
    with pytest.raises(InputError, match=r"No text among SST-2 .* is rightly taken for positive"):
        example(Build(tmp_path), "sst2", 1)
