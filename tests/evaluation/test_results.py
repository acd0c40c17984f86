"""Intervals and results: coverage by simulation, the same draws for all, files, tables and pictures."""

import json

import numpy as np
import pandas
import pytest
from matplotlib import pyplot

from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import Results
from nbsal.evaluation.bootstrap import Bootstrap, difference, interval
from nbsal.evaluation.results import Curve, MetricInfo, join_results

HOSTILE = ["$x_1$ <b>", "a\u202eb & c"]


def made(values, names=("good", "bad"), sheet=None, points=(0.0, 0.5, 1.0)):
    """Results of random runs: values [explainer][run, point, text] for the one measure."""
    again = Bootstrap([f"text {i}" for i in range(np.shape(values[0])[-1])])
    sheet = sheet or MetricInfo("game", "fraction", "accuracy", "auc", {"hiding": "low"})
    curves = {(name, "hiding"): Curve.of(points, np.array(one), again) for name, one in zip(names, values, strict=True)}
    return Results(sheet, curves, ("4 texts",))


def some(shift=0.0, texts=4):
    return np.random.default_rng(0).random((1, 3, texts)) + shift


@pytest.mark.parametrize(("draw", "truth"), [("exponential", 1.0), ("random", 0.5)])
def test_intervals_hold_the_truth_as_often_as_they_say(draw, truth):
    generator, hits = np.random.default_rng(0), 0
    for _ in range(400):
        again = Bootstrap(range(80), count=300, seed=int(generator.integers(2**31)))
        low, high = interval(again.draws([getattr(generator, draw)(size=80)])[:, 0])
        hits += low <= truth <= high
    assert 0.91 <= hits / 400 <= 0.98


def test_paired_tests_err_as_often_as_they_say_and_see_what_differs():
    generator, wrong, seen = np.random.default_rng(1), 0, 0
    for _ in range(300):
        again = Bootstrap(range(60), count=300, seed=int(generator.integers(2**31)))
        texts = generator.normal(size=60) * 10  # hard and easy texts, the same for both
        one, other = texts + generator.normal(size=60), texts + generator.normal(size=60)
        for gain in (0.0, 1.0):
            draws = again.draws([one + gain, other])
            found = difference((one + gain).mean(), other.mean(), draws[:, 0], draws[:, 1])
            wrong += gain == 0 and found.p < 0.05
            seen += gain == 1 and found.low > 0
    assert 0.01 <= wrong / 300 <= 0.1
    assert seen / 300 > 0.95  # unpaired, the texts' own spread would hide it


def test_draws_do_not_depend_on_the_order_of_texts():
    texts, values = ["b", "a", "c"], np.array([[1.0, 0.1, 7.0]])
    one, other = Bootstrap(texts), Bootstrap(texts[::-1])
    assert np.array_equal(one.draws(values), other.draws(values[:, ::-1]))
    assert one.mean(values) == other.mean(values[:, ::-1])


def test_areas_and_means():
    found = made([[[[0.0] * 4, [1.0] * 4, [1.0] * 4]]], names=["one"], points=(0.0, 0.2, 1.0))
    assert found.auc()["auc"].item() == pytest.approx(0.1 + 0.8)
    assert found.mean()["mean"].item() == pytest.approx(2 / 3)
    assert list(found.auc().columns) == ["explainer", "game", "auc", "low", "high"]


def test_a_margin_is_above_0_where_the_first_is_better():
    found = made([some(), some(1.0)], texts := ("less", "more"))
    better = found.paired(*texts)  # of the Hiding game less is better
    assert better["margin"].item() == pytest.approx(1.0) == pytest.approx(better["low"].item())
    assert better["p"].item() < 0.01
    assert found.paired("more", "less")["margin"].item() == pytest.approx(-1.0)
    assert found.best("hiding") == "less"
    with pytest.raises(UnknownName, match="less, more"):
        found.paired("less", "least")


def test_runs_by_chance_have_a_spread():
    runs = np.stack([some()[0], some(0.5)[0], some(1.0)[0]])
    found = made([runs, some()], ("random", "one"))
    assert found.spread()["explainer"].tolist() == ["random"]
    assert found.spread()["sd"].item() == pytest.approx(0.5)
    assert found.spread()["mean"].item() == pytest.approx(found.auc()["auc"][0])
    frame = found.frame.set_index("explainer")["spread"]
    assert np.allclose(frame["random"], 0.5) and frame["one"].isna().all()


def test_parts_join_to_the_whole():
    runs = np.random.default_rng(3).random((5, 3, 4))
    whole = made([runs, some()], ("random", "one"))
    parts = join_results([made([runs[:2]], ["random"]), made([some()], ["one"]), made([runs[2:]], ["random"])])
    pandas.testing.assert_frame_equal(parts.frame, whole.frame)
    pandas.testing.assert_frame_equal(parts.paired("random", "one"), whole.paired("random", "one"))


def test_what_is_saved_comes_back(tmp_path):
    found = made([some(), some(1.0)])
    found.save(tmp_path / "found")
    again = Results.load(tmp_path / "found")
    assert again.frame.equals(found.frame) and again.auc().equals(found.auc())
    assert (again.notes, again.metric) == (found.notes, found.metric)
    np.savez(tmp_path / "newer.npz", head=json.dumps({"nbsal": 99}))
    with pytest.raises(InputError, match=r"newer\.npz was written in format 99; this nbsal reads format"):
        Results.load(tmp_path / "newer.npz")
    (tmp_path / "broken").write_bytes((tmp_path / "found").read_bytes()[:200])
    (tmp_path / "other").write_text("{}")
    np.savez(tmp_path / "bare.npz", x=1)
    for name in ("broken", "other", "bare.npz"):
        with pytest.raises(InputError, match="is no saved Results, or is damaged"):
            Results.load(tmp_path / name)


def test_the_best_is_bold_and_its_best_competitor_italic():
    found = made([some(), some(1.0), some(0.5)], ("ours", "worst", "second"))
    styles = found.table()._compute().ctx
    marked = {found.explainers[row]: dict(style) for (row, _), style in styles.items() if style}
    assert marked == {"ours": {"font-weight": "bold"}, "second": {"font-style": "italic"}}
    styles = found.table(ours=["ours", "second"])._compute().ctx
    marked = {found.explainers[row]: dict(style) for (row, _), style in styles.items() if style}
    assert marked == {"ours": {"font-weight": "bold"}, "worst": {"font-style": "italic"}}


def test_tables_and_pictures_take_hostile_names():
    found = made([some(), some(1.0)], HOSTILE)
    page = found._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "\u202e" not in page
    figure = found.plot()
    figure.canvas.draw()
    labels = figure.legends[0].get_texts()
    assert [label.get_parse_math() for label in labels] == [False, False]
    assert figure.legends[0].get_title().get_text() == "95 % intervals"
    assert "\u202e" not in labels[1].get_text()
    assert len(figure.axes) == 1 and figure.axes[0].get_xlabel() == "fraction"
    pyplot.close(figure)


def test_bands_of_runs_by_chance_are_drawn_around_them():
    runs = np.stack([some()[0], some(1.0)[0]])
    figure = made([runs], ["random"]).plot(["random"])
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert np.isclose(heights.min(), runs.mean(-1).min()) and np.isclose(heights.max(), runs.mean(-1).max())
    assert figure.legends[0].get_title().get_text() == "95 % intervals, or the range of orders by chance"
    pyplot.close(figure)
