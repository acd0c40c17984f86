"""The program: it draws what is missing, describes models and texts, resumes, and reports errors."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

import nbsal
from nbsal.figures import __main__ as program
from nbsal.figures import build, decoding_exhibits, mask_lrp, mask_lrp_exhibits
from nbsal.figures.arguments import NamedModel, parse_models
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.build import Build
from nbsal.figures.exhibits import Exhibit, Product, example
from nbsal.figures.pages import Page
from nbsal.support.errors import InputError, UnknownName
from tests import zoo
from tests.figures.test_tables import Tags, results
from tests.raising import refuses

SENTENCES = [("a warm and funny joy of a film , never dull", 1), ("a dull bore , slow and without a joy", 0)] * 3


@pytest.fixture(autouse=True)
def no_tables(monkeypatch):
    """Use few texts of the bundled samples only."""
    monkeypatch.setenv("NBSAL_DATA", "")  # the program sets it for the whole process
    monkeypatch.setitem(sys.modules, "datasets", None)
    tasks = {name: replace(task, texts=4, sample_texts=4) for name, task in BENCHMARK_TASKS.items()}
    monkeypatch.setattr(nbsal.evaluation.groups, "RANDOM", 5)
    for module in (build, mask_lrp_exhibits, program):
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


@pytest.fixture
def save(checkpoints):
    """Save a tiny classifier, and return its folder."""
    return lambda **settings: str(zoo.save(checkpoints, "bert", "sequence", **{"num_labels": 2} | settings))


@pytest.fixture
def user_build(tmp_path, tables, save, monkeypatch):
    """Create a build with a tiny model on both tables."""
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    return Build(tmp_path / "user_build", models={table: [NamedModel(save())] for table in ("sst2", "qqp")})


def run_program(tmp_path, *arguments):
    return program.main(["--out", str(tmp_path / "out"), *arguments])


def read(path):
    return path.read_text(encoding="utf-8")


def test_figures_and_tables_on_samples(tmp_path, capsys, monkeypatch):
    cheap = {"sst2": ("simple@allennlp",), "ag_news": ("gradxact@thermostat",)}
    monkeypatch.setattr(decoding_exhibits, "CLOUD_METHODS", cheap)
    selected = ("figure-1", "figure-4", "figure-9", "figure-12", "table-9", "examples", "supplement")
    assert run_program(tmp_path, "--paper", "decoding", "--only", *selected) == 0
    assert "skipped" not in capsys.readouterr().out
    out = tmp_path / "out" / "decoding"
    page = read(out / "index.html")
    tags = Tags(page)
    assert tags.counts["section"] == 7 and not tags.counts["script"]
    assert not [link for link in tags.links if not link.startswith("data:")]
    assert "samples/reviews for SST-2" in page and "4 of 160 texts" in page
    assert (out / "figure-1.png").exists() and (out / "supplement-a.html").exists() and (out / "table-9.csv").exists()
    assert run_program(tmp_path, "--paper", "decoding", "--only", *selected) == 0
    assert capsys.readouterr().out.count("skipped") == 7 and read(out / "index.html") == page


def test_games_cover_every_layer_and_baseline(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "BASELINES", {"sst2": ("simple@allennlp",)})
    selected = ("figure-2", "figure-5", "figure-7", "table-1", "table-2")
    assert run_program(tmp_path, "--paper", "decoding", "--data", str(tables), "--only", *selected) == 0
    out = tmp_path / "out" / "decoding"
    page = read(out / "index.html")
    assert "demo/reviews on SST-2 (validation), 4 of 6 texts" in page and f"nbsal {nbsal.__version__}, torch " in page
    csv = read(out / "table-1.csv")
    for name in ("decoded Grad-CAM l3", "decoded Grad-CAM l6", "Grad-CAM l5", "simple@allennlp", "random"):
        assert f"SST-2,{name}," in csv
    assert "decoded Simple" not in csv
    names = {row.split(",")[1] for row in read(out / "table-2.csv").splitlines() if row.startswith("SST-2,")}
    assert names == {"simple@allennlp", *(f"decoded Simple l{layer}" for layer in (3, 4, 5))}


def test_mask_lrp_on_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae", "rollout"))
    monkeypatch.setattr(mask_lrp_exhibits, "ANSWER_METHODS", ("rollout", "gae"))
    selected = ("figure-2", "figure-6", "table-2", "table-5", "table-6")
    assert run_program(tmp_path, "--paper", "mask-lrp", "--only", *selected) == 0
    out = tmp_path / "out" / "mask-lrp"
    page = read(out / "index.html")
    assert BENCHMARK_TASKS["squad"].remark not in page and "csarron/bert-base-uncased-squad-v1" in page
    assert (out / "figure-2.png").exists() and (out / "figure-6.png").exists() and (out / "table-2-b.csv").exists()


@pytest.mark.full
def test_random_masks_are_evaluated_with_the_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae", "rollout"))
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFICATION_TABLES", ("sst2", "qqp"))
    assert run_program(tmp_path, "--paper", "mask-lrp", "--only", "figure-3", "table-1") == 0
    rows = read(tmp_path / "out" / "mask-lrp" / "table-1.csv").splitlines()
    assert [row.split(",")[0] for row in rows[2:]] == ["gae", "rollout", "mask-lrp", "random", "random mask"]


@pytest.mark.full
def test_the_number_of_texts_can_be_chosen_by_table(tmp_path, tables, monkeypatch):
    monkeypatch.setattr(decoding_exhibits, "CLOUD_METHODS", {"sst2": ("simple",)})
    arguments = ("--paper", "decoding", "--data", str(tables), "--only", "table-9", "--texts")
    for count in (5, 2):  # another number draws again
        assert run_program(tmp_path, *arguments, f"sst2={count}") == 0
        assert f"SST-2 (validation), {count} of 6 texts" in read(tmp_path / "out/decoding/index.html")
    assert run_program(tmp_path, *arguments, "sst2=none") == 2


@pytest.mark.full
def test_the_chosen_number_of_texts_limits_the_corrupted_masks(tmp_path, tables, monkeypatch):
    counts = []

    def count(self, evaluation, rows, *_):
        counts.append(len(rows.texts))
        raise build.OutOfTime

    monkeypatch.setattr(Build, "results", count)
    monkeypatch.setattr(build, "SHORTEST", 2)
    monkeypatch.setattr(mask_lrp_exhibits, "MAX_CORRUPTION_TEXTS", 4)
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    for texts in ({}, {"sst2": 2}, {"sst2": 5}):
        with pytest.raises(build.OutOfTime):
            mask_lrp_exhibits.corruption_figure(Build(tmp_path, texts=texts))
    assert counts == [4, 2, 4]


def test_a_run_out_of_time_can_be_resumed(tmp_path):
    arguments = ("--paper", "decoding", "--only", "figure-10")
    assert run_program(tmp_path, *arguments, "--minutes", "0") == 1
    assert run_program(tmp_path, *arguments) == 0


def test_errors_appear_in_the_index_and_are_tried_again(tmp_path, capsys):
    def fail(build):
        raise InputError("There is <no> such thing.")

    def succeed(build):
        table = mask_lrp.faithfulness_table({"one": results()})
        return Product([("<caption>", Figure()), ("", table), ("", Page("p", "<p>x</p>"))], "a <source> note")

    exhibits = [Exhibit("Figure 1", "a <title>", "", fail, ""), Exhibit("Table 1", "t", "says so", succeed, "more")]
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 2
    page = read(tmp_path / "index.html")
    for part in ("There is &lt;no&gt; such thing.", "&lt;caption&gt;", "a &lt;source&gt; note", "says so", "more"):
        assert part in page
    exhibits[0] = Exhibit("Figure 1", "a <title>", "", succeed, "")
    capsys.readouterr()
    assert program.run(Build(tmp_path), "A paper", exhibits, exhibits) == 0  # the failed exhibit is tried again
    assert capsys.readouterr().out.count("skipped") == 1
    other = Build(tmp_path, models={"sst2": [NamedModel("my/model")]})
    assert program.run(other, "A paper", exhibits, exhibits) == 0  # other settings draw all exhibits again
    assert "skipped" not in capsys.readouterr().out


def test_models_are_matched_to_their_tables(tmp_path, monkeypatch):
    assert parse_models(["sst2=my/model"], ["my/lm"]) == {"sst2": [NamedModel("my/model", "my/lm")]}
    gpt = "anas-awadalla/gpt2-span-head-finetuned-squad"
    first, second = NamedModel(gpt, "first"), NamedModel("b", "second")
    models = parse_models([gpt, "ag_news=b"], ["first", "second"])
    assert models == {"squad": [first], "squad_v2": [first], "ag_news": [second]}
    for table in ("a", "snli"):  # snli is a table that no figure has
        with refuses("--model", UnknownName) as caught:
            parse_models([f"{table}=b"], [])
        assert caught.value.value == table and "sst2" in caught.value.valid
    with refuses("--lm"):
        parse_models(["sst2=a", "imdb=b", "mnli=c"], ["d", "e"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "bert").mkdir(parents=True)
    for name in ("models/bert", "owner/model"):
        assert parse_models([f"sst2={name}"], [])["sst2"][0].model == name
    for wrong in ("roberta-base", "sst2=models/berrt"):  # a mistyped folder beside others is none of the Hub
        with refuses("--model"):
            parse_models([wrong], [])


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


def test_user_models_replace_the_embedded_ones(tmp_path, tables, save, checkpoints, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    model, lm = save(), str(zoo.save(checkpoints, "bert", zoo.lm_head("bert"), seed=1))
    user_build = Build(tmp_path, models={"sst2": [NamedModel(model, lm)]})
    subject = user_build.subject("sst2")
    assert subject.name == model and subject.mask.shape == (subject.depth, subject.heads)
    assert user_build.subject("sst2") is subject
    rows = user_build.rows("sst2")
    assert user_build.describe_source("sst2", rows.description) == f"{model} on SST-2 (validation), 4 of 6 texts"
    assert Build(tmp_path, full=True).rows("sst2").description == "SST-2 (validation), 6 of 6 texts"


@pytest.mark.full
def test_gold_labels_follow_the_order_of_the_models_classes(tmp_path, tables, save, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    names = {"id2label": {0: "Positive", 1: "Negative"}, "label2id": {"Positive": 0, "Negative": 1}}
    own = Build(tmp_path).rows("sst2").labels
    assert Build(tmp_path, models={"sst2": [NamedModel(save())]}).rows("sst2").labels == own
    for model in (NamedModel(save(**names)), NamedModel(save(), None, ("positive", "negative"))):
        assert Build(tmp_path, models={"sst2": [model]}).rows("sst2").labels == [1 - label for label in own]


def test_a_model_that_is_right_no_more_often_than_chance_is_refused(tmp_path, tables, save, monkeypatch):
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    monkeypatch.setattr(build, "FEWEST_CHECKED", 4)
    demo, folder = nbsal.load("demo/reviews"), str(tmp_path / "swapped")
    demo.model.save_pretrained(folder)
    demo.tokenizer.save_pretrained(folder)
    assert Build(tmp_path, models={"sst2": [NamedModel(folder)]}).subject("sst2").labels
    swapped, three = NamedModel(folder, None, ("positive", "negative")), NamedModel(save(num_labels=3))
    for argument, model in (("--labels", swapped), ("--model", three)):
        with refuses(argument):
            Build(tmp_path, models={"sst2": [model]}).subject("sst2")


def test_several_models_of_a_table_are_shown_beside_each_other(user_build, save):
    both = Build(user_build.out, models={"sst2": [*user_build.models["sst2"], NamedModel(save(seed=3))]})
    names = {named.model for named in both.models["sst2"]}
    frame = mask_lrp_exhibits.mask_part_table(both).parts[0][1].data
    assert set(frame.columns.get_level_values(0)) == {f"SST-2, {name}" for name in names}
    table = mask_lrp_exhibits.checkpoint_table(both).parts[0][1].data
    assert set(table.query("model == 'here' and `data set` == 'sst2'")["used here"]) == names


def test_mask_exhibits_of_a_user_model(user_build, monkeypatch):
    monkeypatch.setattr(mask_lrp_exhibits, "CLASSIFICATION_TABLES", ("sst2", "qqp", "imdb"))
    monkeypatch.setattr(mask_lrp_exhibits, "BASELINES", ("gae",))
    assert user_build.rows("qqp").description == "QQP (validation), 2 of 2 texts"  # duplicates only
    curve, *levels = mask_lrp_exhibits.corruption_figure(user_build).parts[0][1].axes[0].lines
    assert curve.get_xdata().tolist() == list(range(0, 101, 10))
    assert [level.get_label() for level in levels] == ["mask-lrp", "transformer-attribution"]
    assert list(levels[1].get_ydata()) == pytest.approx([curve.get_ydata()[-1]] * 2)  # exactly, up to rounding
    assert user_build.subject("sst2").name in mask_lrp_exhibits.head_figure(user_build).parts[0][0]
    frame = mask_lrp_exhibits.mask_part_table(user_build).parts[0][1].data
    assert len(frame) == 3 and set(frame.columns.get_level_values(0)) == {"SST-2", "QQP"}
    note, table = mask_lrp_exhibits.alti_table(user_build).parts[0]
    assert list(table.data.index) == ["alti", "mask-lrp"] and "IMDB" in note


def test_the_treebank_replaces_the_bundled_parses(user_build, tables):
    assert "bundled with nbsal" in mask_lrp_exhibits.distance_figure(user_build).source_note
    (tables / "ud_ewt").mkdir()
    rows = "1\tgood\t_\t_\t_\t_\t2\tamod\t_\t_\n2\tfood\t_\t_\t_\t_\t0\troot\t_\t_\n"
    (tables / "ud_ewt" / "dev.conllu").write_text(f"# text = good food\n{rows}\n")
    second_build = Build(user_build.out, models=user_build.models)
    assert second_build.study("sst2").cases["amod"] == 1
    assert "English Web Treebank" in mask_lrp_exhibits.distance_figure(second_build).source_note


def test_missing_tables_are_not_counted_and_damaged_ones_are_refused(user_build, tables):
    available = mask_lrp_exhibits.dataset_table(user_build).parts[0][1].data["available"]
    assert (available["sst2"], available["qqp"], available["imdb"]) == ("6", "3", "none")
    with refuses("--model") as caught:
        Build(user_build.out).subject("qqp")  # no model is embedded for it
    assert caught.value.value == "qqp"
    (tables / "sst2" / "validation.jsonl").write_text("{", encoding="utf-8")
    with refuses("path"):
        user_build.can_show("sst2")
    with refuses("path"):
        mask_lrp_exhibits.dataset_table(user_build)


def test_groups_are_evaluated_once_for_the_same_texts(tmp_path, tables, monkeypatch):
    """Also if time ran out between them; results on samples are not reused for benchmark tables."""
    clock, evaluated, groups = [0.0], [], {"a": {"first": None}, "b": {"second": None}}
    rows = build.TableTexts("sst2", ["a", "b", "c", "d"], None, None, "four texts")
    fake_time = SimpleNamespace(monotonic=lambda: clock[0], process_time=lambda: clock[0])
    monkeypatch.setattr(nbsal.evaluation.groups, "time", fake_time)

    def evaluate(explainers, **options):
        evaluated.extend(explainers)
        clock[0] += 90
        return results()

    with pytest.raises(build.OutOfTime):
        Build(tmp_path, minutes=1).results("games", rows, groups, evaluate)
    assert evaluated == ["first"]
    for _ in range(2):
        Build(tmp_path).results("games", rows, groups, evaluate)
    assert evaluated == ["first", "second"]
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    for _ in range(2):
        Build(tmp_path).results("games", rows, groups, evaluate)
    assert evaluated == ["first", "second"] * 2


def test_examples_are_correctly_classified(tmp_path, tables, monkeypatch):
    sample_build = Build(tmp_path)
    for label, name in enumerate(("negative", "positive")):
        text = example(sample_build, "sst2", label)
        assert nbsal.Explainer(sample_build.subject("sst2"), "gradcam")(text).prediction == name
    path = tables / "sst2" / "validation.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"label": 0' in line))
    monkeypatch.setenv("NBSAL_DATA", str(tables))
    assert example(Build(tmp_path), "sst2", 0) == SENTENCES[1][0]
    with refuses("label"):
        example(Build(tmp_path), "sst2", 1)
