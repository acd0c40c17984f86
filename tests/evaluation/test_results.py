"""Bootstrap intervals and results: simulated coverage, shared draws, files, tables and plots."""

import json

import numpy as np
import pandas
import pytest
from matplotlib import pyplot

from nbsal.errors import UnknownName
from nbsal.evaluation import Results
from nbsal.evaluation.bootstrap import Bootstrap, difference, interval
from nbsal.evaluation.results import Curve, MetricInfo, join_results
from tests.raising import refuses

HOSTILE = ["$x_1$ <b>", "a\u202eb & c"]


def results_of(values, names=("good", "bad"), metric=None, points=(0.0, 0.5, 1.0)):
    """Results with the values [explainer][run, point, text] for a single measure."""
    bootstrap = Bootstrap([f"text {i}" for i in range(np.shape(values[0])[-1])])
    metric = metric or MetricInfo("game", "fraction", "accuracy", "auc", {"hiding": "low"})
    curves = {
        (name, "hiding"): Curve.from_values(points, np.array(runs), bootstrap)
        for name, runs in zip(names, values, strict=True)
    }
    return Results(metric, curves, ("4 texts",))


def random_values(shift=0.0, texts=4):
    return np.random.default_rng(0).random((1, 3, texts)) + shift


@pytest.mark.parametrize(("draw", "truth"), [("exponential", 1.0), ("random", 0.5)])
def test_intervals_cover_the_true_mean_as_often_as_stated(draw, truth):
    generator, hits = np.random.default_rng(0), 0
    for _ in range(400):
        bootstrap = Bootstrap(range(80), count=300, seed=int(generator.integers(2**31)))
        low, high = interval(bootstrap.draws([getattr(generator, draw)(size=80)])[:, 0])
        hits += low <= truth <= high
    assert 0.91 <= hits / 400 <= 0.98


def test_paired_tests_have_the_stated_error_rate_and_detect_differences():
    generator, false_positives, detected = np.random.default_rng(1), 0, 0
    for _ in range(300):
        bootstrap = Bootstrap(range(60), count=300, seed=int(generator.integers(2**31)))
        texts = generator.normal(size=60) * 10  # hard and easy texts, the same for both explainers
        first, second = texts + generator.normal(size=60), texts + generator.normal(size=60)
        for gain in (0.0, 1.0):
            draws = bootstrap.draws([first + gain, second])
            margin = difference((first + gain).mean(), second.mean(), draws[:, 0], draws[:, 1])
            false_positives += gain == 0 and margin.p < 0.05
            detected += gain == 1 and margin.low > 0
    assert 0.01 <= false_positives / 300 <= 0.1
    assert detected / 300 > 0.95  # an unpaired test would miss it because the texts differ more


def test_draws_do_not_depend_on_the_order_of_texts():
    texts, values = ["b", "a", "c"], np.array([[1.0, 0.1, 7.0]])
    forward, backward = Bootstrap(texts), Bootstrap(texts[::-1])
    assert np.array_equal(forward.draws(values), backward.draws(values[:, ::-1]))
    assert forward.mean(values) == backward.mean(values[:, ::-1])


def test_areas_and_means():
    results = results_of([[[[0.0] * 4, [1.0] * 4, [1.0] * 4]]], names=["one"], points=(0.0, 0.2, 1.0))
    assert results.auc()["auc"].item() == pytest.approx(0.1 + 0.8)
    assert results.mean()["mean"].item() == pytest.approx(2 / 3)
    assert list(results.auc().columns) == ["explainer", "game", "auc", "low", "high"]


def test_a_margin_is_positive_if_the_first_is_better():
    results = results_of([random_values(), random_values(1.0)], names := ("less", "more"))
    better = results.paired(*names)  # in the Hiding game, less is better
    assert better["margin"].item() == pytest.approx(1.0) == pytest.approx(better["low"].item())
    assert better["p"].item() < 0.01
    assert results.paired("more", "less")["margin"].item() == pytest.approx(-1.0)
    assert results.best("hiding") == "less"
    with refuses("explainer", UnknownName) as caught:
        results.paired("less", "least")
    assert caught.value.valid == names


def test_several_runs_have_a_spread():
    runs = np.stack([random_values()[0], random_values(0.5)[0], random_values(1.0)[0]])
    results = results_of([runs, random_values()], ("random", "one"))
    assert results.spread()["explainer"].tolist() == ["random"]
    assert results.spread()["sd"].item() == pytest.approx(0.5)
    assert results.spread()["mean"].item() == pytest.approx(results.auc()["auc"][0])
    frame = results.frame.set_index("explainer")["spread"]
    assert np.allclose(frame["random"], 0.5) and frame["one"].isna().all()


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
    results = results_of([random_values(), random_values(1.0)])
    results.save(tmp_path / "results")
    loaded = Results.load(tmp_path / "results")
    assert loaded.frame.equals(results.frame) and loaded.auc().equals(results.auc())
    assert (loaded.notes, loaded.metric) == (results.notes, results.metric)


@pytest.mark.parametrize("name", ["newer.npz", "broken", "other", "bare.npz"])
def test_files_of_other_formats_and_damaged_ones_are_refused(tmp_path, name):
    results_of([random_values()], ["one"]).save(tmp_path / "results")
    np.savez(tmp_path / "newer.npz", head=json.dumps({"nbsal": 99}))
    (tmp_path / "broken").write_bytes((tmp_path / "results").read_bytes()[:200])
    (tmp_path / "other").write_text("{}")
    np.savez(tmp_path / "bare.npz", x=1)
    with refuses("path") as caught:
        Results.load(tmp_path / name)
    assert caught.value.value == tmp_path / name
    assert (caught.value.__cause__ is None) == (name == "newer.npz")


def test_the_best_is_bold_and_its_best_competitor_italic():
    values = [random_values(), random_values(1.0), random_values(0.5)]
    results = results_of(values, ("ours", "worst", "second"))
    for ours, rival in ((), "second"), (["ours", "second"], "worst"):
        styles = results.table(ours=ours)._compute().ctx
        marked = {results.explainers[row]: dict(style) for (row, _), style in styles.items() if style}
        assert marked == {"ours": {"font-weight": "bold"}, rival: {"font-style": "italic"}}


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


def test_the_band_of_several_runs_is_their_range():
    runs = np.stack([random_values()[0], random_values(1.0)[0]])
    figure = results_of([runs], ["random"]).plot(["random"])
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert np.isclose(heights.min(), runs.mean(-1).min()) and np.isclose(heights.max(), runs.mean(-1).max())
    assert "range" in figure.legends[0].get_title().get_text()
    pyplot.close(figure)
