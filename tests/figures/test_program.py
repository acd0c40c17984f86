"""The program: it draws what is missing, describes models and texts, resumes, and reports errors."""

import json
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.figures import __main__ as program
from nbsal.figures import build, decoding_exhibits, mask_lrp_exhibits
from nbsal.figures.arguments import NamedModel, parse_models
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS, BenchmarkTask
from nbsal.figures.build import Build
from nbsal.figures.exhibits import Exhibit, Product, example
from nbsal.figures.pages import Page
from tests import zoo
from tests.figures.test_tables import Tags, results
from tests.raising import refuses

SENTENCES = [("a warm and funny joy of a film , never dull", 1), ("a dull bore , slow and without a joy", 0)] * 3


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Use few texts of the bundled samples only."""
    monkeypatch.delenv("NBSAL_DATA", raising=False)
    tasks = {name: BenchmarkTask(task.title, task.demo, task.sample, 4, 4) for name, task in BENCHMARK_TASKS.items()}
    monkeypatch.setattr(build, "BENCHMARK_TASKS", tasks)
    monkeypatch.setattr(nbsal.evaluation.report, "RANDOM", 5)
    for module in (mask_lrp_exhibits, program):
        monkeypatch.setattr(module, "BENCHMARK_TASKS", tasks)


@pytest.fixture
def tables(tmp_path):
    """Create a folder with two benchmark tables."""
    joy, bore = SENTENCES[0][0], SENTENCES[1][0]
    pairs = [(joy, joy, 1), (bore, bore, 1), (joy, bore, 0)]
    rows = {
        "sst2": [{"sentence": text, "label": label} for text, label in SENTENCES],
        "qqp": [{"question1": first, "question2": second, "label": same} for first, second, same in pairs],
    }
    for name, table in rows.items():
        path = tmp_path / "data" / name / "validation.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    return tmp_path / "data"


def run_program(tmp_path, *arguments):
    return program.main(["--out", str(tmp_path / "out"), *arguments])


def test_every_figure_and_table_of_both_papers_is_listed():
    decoding = [exhibit.number for exhibit in decoding_exhibits.EXHIBITS]
    numbers = [f"Figure {i}" for i in range(1, 13)] + [f"Table {i}" for i in range(1, 10)]
    assert decoding == [*numbers, "Examples", "Supplement"]
    mask_lrp = [exhibit.number for exhibit in mask_lrp_exhibits.EXHIBITS]
    assert mask_lrp == [f"Figure {i}" for i in range(1, 14)] + [f"Table {i}" for i in range(1, 7)]


def test_figures_and_tables_on_samples(tmp_path, capsys, monkeypatch):
    cheap = {"sst2": ("simple@allennlp",), "ag_news": ("gradxact@thermostat",)}
    monkeypatch.setattr(decoding_exhibits, "CLOUD_METHODS", cheap)
    selected = ("figure-1", "figure-4", "figure-9", "figure-12", "table-9", "examples", "supplement")
    assert run_program(tmp_path, "--paper", "decoding", "--only", *selected) == 0
    printed = capsys.readouterr().out
    assert "[1/7] Figure 1" in printed and "skipped" not in printed
    out = tmp_path / "out" / "decoding"
    page = (out / "index.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert tags.counts["section"] == 7 and not tags.counts["script"]
    assert not [link for link in tags.links if not link.startswith("data:")]
    assert (
        "Computed on the bundled samples" in page and "samples/reviews for SST-2" in page and "4 of 160 texts" in page
    )
    assert (out / "figure-1.png").exists() and (out / "supplement-a.html").exists() and (out / "table-9.csv").exists()
    assert run_program(tmp_path, "--paper", "decoding", "--only", *selected) == 0
    assert capsys.readouterr().out.count("skipped") == 7
    assert (out / "index.html").read_text(encoding="utf-8") == page


def test_games_cover_every_layer_and_baseline(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "BASELINES", {"sst2": ("simple@allennlp",)})
    selected = ("figure-2", "figure-5", "figure-7", "table-1", "table-2")
    arguments = ("--paper", "decoding", "--data", str(tables), "--only", *selected)
    monkeypatch.setenv("NBSAL_DATA", "")  # --data sets it for the whole process
    assert run_program(tmp_path, *arguments) == 0
    page = (tmp_path / "out" / "decoding" / "index.html").read_text(encoding="utf-8")
    assert "Embedded model on benchmark data: demo/reviews on SST-2 (validation), 4 of 6 texts" in page
    assert "benchmark tables, SST-2 (6 texts), QQP (3 texts)" in page and "random samples (seed 0)" in page
    assert f"nbsal {nbsal.__version__}, torch " in page
    csv = (tmp_path / "out" / "decoding" / "table-1.csv").read_text(encoding="utf-8")
    for name in ("decoded Grad-CAM l3", "decoded Grad-CAM l6", "Grad-CAM l5", "simple@allennlp", "random"):
        assert f"SST-2,{name}," in csv
    assert "decoded Simple" not in csv
    csv = (tmp_path / "out" / "decoding" / "table-2.csv").read_text(encoding="utf-8").splitlines()
    names = {row.split(",")[1] for row in csv if row.startswith("SST-2,")}
    assert names == {"simple@allennlp", *(f"decoded Simple l{layer}" for layer in (3, 4, 5))}


def test_mask_lrp_on_samples(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae", "rollout"))
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFICATION_TABLES", ("sst2", "qqp"))
    monkeypatch.setattr(mask_lrp_exhibits, "ANSWER_METHODS", ("rollout", "gae"))
    selected = ("figure-2", "figure-3", "figure-6", "table-1", "table-2", "table-5", "table-6")
    assert run_program(tmp_path, "--paper", "mask-lrp", "--only", *selected) == 0
    out = tmp_path / "out" / "mask-lrp"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Without a model (--model) or a benchmark table: QQP." in page
    assert build.WEAK_MODELS["squad"] not in page and "csarron/bert-base-uncased-squad-v1" in page
    rows = (out / "table-1.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows[2:]] == ["gae", "rollout", "mask-lrp", "random", "random mask"]
    assert (out / "table-2-b.csv").exists()


def test_the_number_of_texts_can_be_chosen_by_table(tmp_path, tables, capsys, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "CLOUD_METHODS", {"sst2": ("simple",)})
    monkeypatch.setenv("NBSAL_DATA", "")
    arguments = ("--paper", "decoding", "--data", str(tables), "--only", "table-9")
    assert run_program(tmp_path, *arguments, "--texts", "sst2=5") == 0
    assert "SST-2 (validation), 5 of 6 texts" in (tmp_path / "out/decoding/index.html").read_text(encoding="utf-8")
    assert run_program(tmp_path, *arguments, "--texts", "sst2=2") == 0  # draws again
    assert "SST-2 (validation), 2 of 6 texts" in (tmp_path / "out/decoding/index.html").read_text(encoding="utf-8")
    assert run_program(tmp_path, *arguments, "--texts", "sst2=none") == 2
    assert "sst2=100" in capsys.readouterr().err


def test_the_chosen_number_of_texts_limits_the_corrupted_masks(tmp_path, tables, monkeypatch):
    counts = []

    def count(self, evaluation, table, texts, *_):
        counts.append(texts)
        raise build.OutOfTime

    monkeypatch.setattr(Build, "results", count)
    monkeypatch.setattr(build, "SHORTEST", 2)
    monkeypatch.setattr(mask_lrp_exhibits, "MAX_CORRUPTION_TEXTS", 4)
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    for texts in ({}, {"sst2": 2}, {"sst2": 5}):
        with pytest.raises(build.OutOfTime):
            mask_lrp_exhibits.corruption_figure(Build(tmp_path, texts=texts))
    assert counts == [4, 2, 4]


def test_a_run_out_of_time_can_be_resumed(tmp_path, capsys):
    arguments = ("--paper", "decoding", "--only", "figure-10")
    assert run_program(tmp_path, *arguments, "--minutes", "0") == 1
    assert "Run the same command again" in capsys.readouterr().out
    assert run_program(tmp_path, *arguments) == 0


def test_errors_appear_in_the_index_and_are_tried_again(tmp_path, capsys):
    def fail(build):
        raise InputError("There is <no> such thing.")

    def succeed(build):
        parts = [("<caption>", Figure()), ("", example_table()), ("", Page("p", "<p>x</p>"))]
        return Product(parts, "a <source> note")

    exhibits = [
        Exhibit("Figure 1", "a <title>", "", fail, ""),
        Exhibit("Table 1", "t", "says so", succeed, "more"),
    ]
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 2
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Failed: There is &lt;no&gt; such thing." in page and "&lt;caption&gt;" in page and "<title>A paper" in page
    assert "a &lt;source&gt; note In the paper: says so. To reproduce the paper: more." in page
    exhibits[0] = Exhibit("Figure 1", "a <title>", "", succeed, "")
    capsys.readouterr()
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 0  # the failed exhibit is tried again
    assert capsys.readouterr().out.count("skipped") == 1
    other = Build(tmp_path, models={"sst2": [NamedModel("my/model")]})
    assert program.run(other, "A paper", exhibits, exhibits) == 0  # other settings draw all exhibits again
    assert "skipped" not in capsys.readouterr().out


def example_table():
    from nbsal.figures import mask_lrp

    return mask_lrp.faithfulness_table({"one": results()})


def test_models_are_matched_to_their_tables():
    assert parse_models(["sst2=my/model"], ["my/lm"]) == {"sst2": [NamedModel("my/model", "my/lm")]}
    models = parse_models(["anas-awadalla/gpt2-span-head-finetuned-squad", "ag_news=b"], ["first", "second"])
    assert {table: (named.model[:4], named.lm) for table, (named,) in models.items()} == {
        "squad": ("anas", "first"), "squad_v2": ("anas", "first"), "ag_news": ("b", "second"),
    }  # fmt: skip
    with refuses("--model"):
        parse_models(["roberta-base"], [])
    for table in ("a", "snli"):  # snli is a table that no figure has
        with refuses("--model", UnknownName) as caught:
            parse_models([f"{table}=b"], [])
        assert caught.value.value == table and "sst2" in caught.value.valid
    with refuses("--lm"):
        parse_models(["sst2=a", "imdb=b", "mnli=c"], ["d", "e"])


def test_an_unknown_model_is_reported(tmp_path, capsys):
    assert run_program(tmp_path, "--paper", "decoding", "--model", "roberta-base") == 2
    assert "--model TABLE=roberta-base" in capsys.readouterr().err


def test_user_models_replace_the_embedded_ones(tmp_path, tables, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    model, lm = (
        zoo.save(checkpoints, "bert", "sequence", num_labels=2),
        zoo.save(checkpoints, "bert", zoo.lm_head("bert"), seed=1),
    )
    user_build = Build(tmp_path, models={"sst2": [NamedModel(str(model), str(lm))]})
    subject = user_build.subject("sst2")
    assert subject.name == str(model) and subject.mask.shape == (subject.depth, subject.heads)
    assert user_build.subject("sst2") is subject
    assert (
        "Gold parses of the sentences bundled with nbsal, " in mask_lrp_exhibits.distance_figure(user_build).source_note
    )
    rows = user_build.rows("sst2")
    assert user_build.describe_source("sst2", rows.description) == f"{model} on SST-2 (validation), 4 of 6 texts"
    assert Build(tmp_path, full=True).rows("sst2").description == "SST-2 (validation), 6 of 6 texts"


@pytest.fixture
def user_build(tmp_path, tables, checkpoints, monkeypatch):
    """Create a build with a tiny model on both tables."""
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    named = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", num_labels=2)))
    return Build(tmp_path / "user_build", models={table: [named] for table in ("sst2", "qqp")})


def test_wrong_arguments_are_refused_before_any_work(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(program, "run", lambda *_: pytest.fail("work has begun"))
    (tmp_path / "file").write_text("")
    wrong = [
        ("--only", "figure-99"), ("--data", str(tmp_path / "nowhere")), ("--data", str(tmp_path)),
        ("--out", str(tmp_path / "file")), ("--minutes", "-1"), ("--model", "sst2=./mistyped"),
        ("--model", f"sst2={tables}/mistyped"), ("--model", "sst2=a/b", "--lm", "/nowhere/lm"),
        ("--model", "sst2=a/b", "--labels", "sst2=negative"), ("--labels", "sst2=positive,negative"),
    ]  # fmt: skip
    for arguments in wrong:
        assert run_program(tmp_path, "--paper", "mask-lrp", *arguments) == 2, arguments


def test_gold_labels_follow_the_order_of_the_models_classes(tmp_path, tables, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    names = {"id2label": {0: "Positive", 1: "Negative"}, "label2id": {"Positive": 0, "Negative": 1}}
    named = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", num_labels=2, **names)))
    plain = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", num_labels=2)))
    ordered = NamedModel(plain.model, None, ("positive", "negative"))
    own = Build(tmp_path).rows("sst2").labels
    assert Build(tmp_path, models={"sst2": [plain]}).rows("sst2").labels == own
    for model in (named, ordered):
        assert Build(tmp_path, models={"sst2": [model]}).rows("sst2").labels == [1 - label for label in own]


def test_a_model_that_is_right_no_more_often_than_chance_is_refused(tmp_path, tables, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    monkeypatch.setattr(build, "FEWEST_CHECKED", 4)
    demo = nbsal.load("demo/reviews")
    folder = tmp_path / "swapped"
    demo.model.save_pretrained(folder)
    demo.tokenizer.save_pretrained(folder)
    right, wrong = (NamedModel(str(folder), None, order) for order in (None, ("positive", "negative")))
    assert Build(tmp_path, models={"sst2": [right]}).subject("sst2").labels
    with refuses("--labels"):
        Build(tmp_path, models={"sst2": [wrong]}).subject("sst2")
    with refuses("--model"):
        three = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", num_labels=3)))
        Build(tmp_path, models={"sst2": [three]}).subject("sst2")


def test_several_models_of_a_table_are_shown_beside_each_other(user_build, checkpoints):
    other = NamedModel(str(zoo.save(checkpoints, "bert", "sequence", seed=3, num_labels=2)))
    both = Build(user_build.out, models={"sst2": [*user_build.models["sst2"], other]})
    frame = mask_lrp_exhibits.mask_part_table(both).parts[0][1].data
    headings = set(frame.columns.get_level_values(0))
    assert headings == {f"SST-2, {named.model}" for named in both.models["sst2"]}
    table = mask_lrp_exhibits.checkpoint_table(both).parts[0][1].data
    assert sorted(table.loc[("sst2", "another"), "used here"]) == sorted(named.model for named in both.models["sst2"])


def test_mask_exhibits_of_a_user_model(user_build, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFICATION_TABLES", ("sst2", "qqp", "imdb"))
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae",))
    assert user_build.rows("qqp").description == "QQP (validation), 2 of 2 texts"  # duplicates only
    curve, *levels = mask_lrp_exhibits.corruption_figure(user_build).parts[0][1].axes[0].lines
    assert curve.get_xdata().tolist() == list(range(0, 101, 10))
    assert [level.get_label() for level in levels] == ["mask-lrp", "transformer-attribution"]
    assert list(levels[1].get_ydata()) == pytest.approx([curve.get_ydata()[-1]] * 2)  # exactly, up to rounding
    heads = mask_lrp_exhibits.head_figure(user_build)
    assert user_build.subject("sst2").name in heads.parts[0][0]
    assert heads.source_note.endswith("The masks of --model come from the sentences bundled with nbsal.")
    frame = mask_lrp_exhibits.mask_part_table(user_build).parts[0][1].data
    assert list(frame.index) == [
        f"mask-lrp{part}" for part in ("", " without positional heads", " without syntactic heads")
    ]
    assert set(frame.columns.get_level_values(0)) == {"SST-2", "QQP"}
    note, table = mask_lrp_exhibits.alti_table(user_build).parts[0]
    assert (
        list(table.data.index) == ["alti", "mask-lrp"]
        and note == "Without a model (--model) or a benchmark table: IMDB."
    )


def test_the_treebank_replaces_the_bundled_parses(user_build, tables):
    assert "bundled with nbsal" in mask_lrp_exhibits.distance_figure(user_build).source_note
    (tables / "ud_ewt").mkdir()
    rows = [("good", 2, "amod"), ("food", 0, "root")]
    lines = [
        f"{number}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_\n" for number, (word, head, name) in enumerate(rows, 1)
    ]
    (tables / "ud_ewt" / "dev.conllu").write_text("# text = good food\n" + "".join(lines) + "\n")
    second_build = Build(user_build.out, models=user_build.models)
    assert second_build.study("sst2").cases["amod"] == 1
    assert "Gold parses of the English Web Treebank" in mask_lrp_exhibits.distance_figure(second_build).source_note


def test_missing_tables_are_not_counted(user_build, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    available = mask_lrp_exhibits.dataset_table(user_build).parts[0][1].data["available"]
    assert (available["sst2"], available["qqp"], available["imdb"]) == ("6", "3", "none")


def test_a_damaged_table_is_not_taken_for_a_missing_one(user_build, tables):
    (tables / "sst2" / "validation.jsonl").write_text("{", encoding="utf-8")
    with refuses("path"):
        user_build.can_show("sst2")
    with refuses("path"):
        mask_lrp_exhibits.dataset_table(user_build)


def evaluation_of(evaluated, clock=None):
    """Return an evaluation that records the names of its explainers and advances the clock by 90 seconds."""

    def evaluate(explainers):
        evaluated.extend(explainers)
        if clock:
            clock[0] += 90
        return results()

    return evaluate


def test_groups_missed_for_lack_of_time_are_evaluated_later(tmp_path, monkeypatch):
    clock, evaluated, groups = [0.0], [], {"a": {"first": None}, "b": {"second": None}}
    fake_time = SimpleNamespace(monotonic=lambda: clock[0], process_time=lambda: clock[0])
    monkeypatch.setattr(nbsal.evaluation.report, "time", fake_time)
    with pytest.raises(build.OutOfTime):
        Build(tmp_path, minutes=1).results("games", "sst2", 4, groups, evaluation_of(evaluated, clock))
    assert evaluated == ["first"]
    Build(tmp_path).results("games", "sst2", 4, groups, evaluation_of(evaluated))
    assert evaluated == ["first", "second"]


def test_results_on_samples_are_not_reused_for_benchmark_tables(tmp_path, tables, monkeypatch):
    evaluated, groups = [], {"a": {"first": None}}
    Build(tmp_path).results("games", "sst2", 4, groups, evaluation_of(evaluated))
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    for _ in range(2):
        Build(tmp_path).results("games", "sst2", 4, groups, evaluation_of(evaluated))
    assert evaluated == ["first", "first"]


def test_a_pickled_checkpoint_is_refused_with_a_way_to_convert_it(tmp_path, checkpoints, capsys, monkeypatch):
    import shutil

    import torch

    folder = tmp_path / "pickled"
    shutil.copytree(zoo.save(checkpoints, "bert", "sequence"), folder)
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    assert run_program(tmp_path, "--paper", "mask-lrp", "--model", f"sst2={folder}", "--only", "figure-6") == 2
    assert "model.save_pretrained(folder)" in capsys.readouterr().out


def test_a_table_without_a_model_is_refused(tmp_path):
    with refuses("--model") as caught:
        Build(tmp_path).subject("qqp")
    assert caught.value.value == "qqp"


def test_examples_are_correctly_classified(tmp_path):
    sample_build = Build(tmp_path)
    for label, name in enumerate(("negative", "positive")):
        text = example(sample_build, "sst2", label)
        assert nbsal.Explainer(sample_build.subject("sst2"), "gradcam")(text).prediction == name


def test_a_class_without_a_correctly_classified_text_has_no_example(tmp_path, tables, monkeypatch):
    path = tables / "sst2" / "validation.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"label": 0' in line))
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    assert example(Build(tmp_path), "sst2", 0) == SENTENCES[1][0]
    with refuses("label"):
        example(Build(tmp_path), "sst2", 1)


def test_a_mistyped_folder_beside_others_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "bert").mkdir(parents=True)
    assert parse_models(["sst2=models/bert"], [])["sst2"][0].model == "models/bert"
    assert parse_models(["sst2=owner/model"], [])["sst2"][0].model == "owner/model"
    with refuses("--model"):
        parse_models(["sst2=models/berrt"], [])
