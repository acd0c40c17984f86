"""Results: summaries, paired tests, files, tables and plots."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from matplotlib import pyplot

from nbsal.evaluation import Results
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.permutation import holm
from nbsal.evaluation.results import MetricInfo, join_results
from nbsal.support.errors import UnknownName
from tests.cases import cases
from tests.raising import refuses

HOSTILE = ["$x_1$ <b>", "a\u202eb & c"]


BOUNDS = {"hiding": (0.0, 1.0)}


def results_of(values, names=("good", "bad"), metric=None, points=(0.0, 0.5, 1.0), bounds=None):
    """Results with the values [explainer][run, point, text] for a single measure."""
    order = text_order([f"text {i}" for i in range(np.shape(values[0])[-1])])
    metric = metric or MetricInfo("game", "fraction", "accuracy", "auc", {"hiding": "low"}, bounds or {})
    curves = {
        (name, "hiding"): Curve.from_values(points, np.array(runs), order)
        for name, runs in zip(names, values, strict=True)
    }
    return Results(metric, curves, ("4 texts",))


def random_values(shift=0.0, texts=4):
    return np.random.default_rng(0).random((1, 3, texts)) + shift


def test_areas_and_means():
    results = results_of([[[[0.0] * 4, [1.0] * 4, [1.0] * 4]]], names=["one"], points=(0.0, 0.2, 1.0))
    assert results.auc()["auc"].item() == pytest.approx(0.1 + 0.8)
    assert results.mean()["mean"].item() == pytest.approx(2 / 3)
    assert list(results.auc().columns) == ["explainer", "game", "auc", "low", "high"]


def test_a_margin_is_positive_if_the_first_is_better():
    results = results_of([random_values(), random_values(1.0)], names := ("less", "more"))
    better = results.paired(*names)  # in the Hiding game, less is better
    assert better["margin"].item() == pytest.approx(1.0)
    assert better["p"].item() == 2 / 2**4  # of four texts, the smallest that is possible
    assert results.paired("more", "less")["margin"].item() == pytest.approx(-1.0)
    assert results.best("hiding") == "less"
    with refuses("explainer", UnknownName) as caught:
        results.paired("less", "least")
    assert caught.value.valid == names
    with refuses("measure", UnknownName) as caught:
        results.best("hidding")
    assert caught.value.valid == ("hiding",)


def test_a_margin_of_equal_differences_has_an_interval_inside_its_bounds():
    values = [random_values() / 2, random_values() / 2 + 0.3]
    without = results_of(values, ("less", "more")).paired("less", "more")
    within = results_of(values, ("less", "more"), bounds=BOUNDS).paired("less", "more")
    assert without[["low", "high"]].isna().all(axis=None)  # nothing says how far other texts could differ
    assert -1 < within["low"].item() < 0.3 < within["high"].item() < 1


def test_paired_comparisons_are_counted_and_adjusted_for_their_number():
    generator = np.random.default_rng(0)
    texts = generator.random((1, 3, 30))
    shifted = {name: texts + shift + generator.normal(0, 0.1, texts.shape) for name, shift in SHIFTS.items()}
    results = results_of(list(shifted.values()), tuple(shifted))
    frame = results.paired("base")
    assert frame["second"].tolist() == ["same", "worse", "far"] and (frame["comparisons"] == 3).all()
    assert np.allclose(frame["p_holm"], holm(frame["p"])) and (frame["p_holm"] >= frame["p"]).all()
    assert frame.set_index("second")["p_holm"]["worse"] > frame.set_index("second")["p"]["worse"]
    part = results.paired("base", ["same", "far"], ["hiding"])
    assert (part["comparisons"] == 2).all() and part["p"].tolist() == frame["p"].iloc[[0, 2]].tolist()
    alone = results.paired("base", "same")
    assert alone["p_holm"].tolist() == alone["p"].tolist() and alone["comparisons"].item() == 1
    assert results.paired("base", measures=[]).empty
    assert "4 separate 95 % intervals" in results._repr_html_()


SHIFTS = {"base": 0.0, "same": 0.0, "worse": 0.06, "far": 1.0}


def test_joined_parts_equal_the_whole():
    runs = np.random.default_rng(3).random((5, 3, 4))
    whole = results_of([runs, random_values()], ("random", "one"))
    parts = [
        results_of([runs[:2]], ["random"]),
        results_of([random_values()], ["one"]),
        results_of([runs[2:]], ["random"]),
    ]
    joined = join_results(parts)
    pandas.testing.assert_frame_equal(joined.frame, whole.frame)
    pandas.testing.assert_frame_equal(joined.paired("random", "one"), whole.paired("random", "one"))


def test_saved_results_load_unchanged(tmp_path):
    results = results_of([random_values(), random_values(1.0)], bounds=BOUNDS)
    resampled = {key: replace(curve, resampled=4) for key, curve in results.curves.items()}
    for saved in (results, replace(results, curves=resampled)):
        saved.save(tmp_path / "results")
        loaded = Results.load(tmp_path / "results")
        assert loaded.frame.equals(saved.frame) and loaded.auc().equals(saved.auc())
        assert loaded.paired("good", "bad").equals(saved.paired("good", "bad"))
        assert (loaded.notes, loaded.metric) == (saved.notes, saved.metric)


@cases(
    "change",
    [
        lambda results: replace(results.metric, summary="median"),
        lambda results: replace(results.metric, bounds={"hiding": (1.0, 0.0)}),
        lambda results: replace(results.curves["good", "hiding"], points=(0.0, np.nan, 1.0)),
        lambda results: replace(results.curves["good", "hiding"], points=(0.0, 1.0)),
        lambda results: replace(results.curves["good", "hiding"], resampled=0),
        lambda results: ("not", 1),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, change):
    results = results_of([random_values(), random_values(1.0)])
    part = change(results)
    names = {MetricInfo: "metric", Curve: "curves", tuple: "notes"}
    value = results.curves | {("good", "hiding"): part} if isinstance(part, Curve) else part
    with refuses("path"):
        replace(results, **{names[type(part)]: value}).save(tmp_path / "results")


def test_tables_and_plots_escape_hostile_names():
    results = results_of([random_values(), random_values(1.0)], HOSTILE)
    page = results._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "\u202e" not in page
    figure = results.plot()
    figure.canvas.draw()
    labels = figure.legends[0].get_texts()
    assert [label.get_parse_math() for label in labels] == [False, False]
    assert "range" not in figure.legends[0].get_title().get_text()
    assert "\u202e" not in labels[1].get_text()
    assert len(figure.axes) == 1 and figure.axes[0].get_xlabel() == "fraction"
    pyplot.close(figure)
