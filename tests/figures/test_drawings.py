"""Figures: every value is drawn, hostile tokens are harmless, and pyplot and its settings stay untouched."""

import math

import matplotlib
import matplotlib.figure
import numpy as np
import pytest
import torch
from matplotlib.text import Text

import nbsal
from nbsal.figures import decoding_saliency, flow, mask_lrp, relevance, style
from nbsal.render import lettering
from nbsal.support.errors import UnknownName
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "A dull bore of a film.", "A joy, and never dull.", "Bad."]
CAM = "decoded Grad-CAM"
HOSTILE = "A $x^{2$ <b>joy</b> \\frac{ \u202e film \x07 & 'dull' $$ {0} %s"


@pytest.fixture(autouse=True)
def pyplot_untouched():
    """No figure stays open in pyplot, and no setting changes."""
    from matplotlib import pyplot

    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    yield
    assert pyplot.get_fignums() == figures
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def game_results(masked):
    """Games of three layers and the random baseline."""
    explainers = {f"{CAM} l{layer}": nbsal.Explainer(masked, "decoded-gradcam", layer=layer) for layer in (1, 2, 3)}
    return nbsal.evaluation.games(explainers, TEXTS, [1, 0, 1, 0], fractions=(0, 0.5, 1), random=2, progress=False)


@pytest.fixture(scope="module")
def clouds(masked):
    """Class tokens of two explainers."""
    explainers = {name: nbsal.Explainer(masked, name) for name in ("decoded-gradcam", "simple")}
    return {name: nbsal.clouds.rank(explain.map(TEXTS, progress=False)) for name, explain in explainers.items()}


def render(figure):
    """Render the whole figure and return it; no text in it may be parsed as a formula."""
    assert type(figure) is matplotlib.figure.Figure
    assert style.png_bytes(figure).startswith(b"\x89PNG")
    assert not [text.get_text() for text in figure.findobj(Text) if "$" in text.get_text() and text.get_parse_math()]
    return figure


def lines(ax):
    """Return the values of the labelled lines of a panel."""
    return {line.get_label(): line.get_ydata().tolist() for line in ax.lines if not line.get_label().startswith("_")}


def values(results, measure, name):
    """Return the values of one explainer by one measure."""
    frame = results.frame
    rows = frame[(frame["explainer"] == name) & (frame[results.metric.measure] == measure)]
    return rows[results.metric.value].tolist()


def test_game_curves_draw_every_value(game_results):
    figure = render(decoding_saliency.game_curves(game_results))
    for ax, measure in zip(figure.axes, ("revealing", "hiding"), strict=True):
        assert lines(ax) == {name: values(game_results, measure, name) for name in game_results.explainers}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == game_results.explainers
    figure = decoding_saliency.game_curves(game_results, ["random"])
    assert [list(lines(ax)) for ax in figure.axes] == [["random"]] * 2
    with refuses("explainer", UnknownName) as caught:
        decoding_saliency.game_curves(game_results, ["gradcom"])
    assert caught.value.value == "gradcom" and set(caught.value.valid) == set(game_results.explainers)


def test_bands_are_confidence_intervals_or_deviations_between_random_runs(game_results, monkeypatch):
    frame = game_results.frame.query("game == 'hiding'").set_index("explainer")
    ax = decoding_saliency.game_curves(game_results).axes[1]
    edges = [band.get_paths()[0].vertices[:, 1] for band in ax.collections]
    assert len(edges) == 4
    ours, random = frame.loc["decoded Grad-CAM l3"], frame.loc["random"]
    assert {*ours["low"], *ours["high"]} <= set(edges[2])
    assert edges[3].max() == pytest.approx((random["accuracy"] + random["spread"]).max())
    monkeypatch.setattr(style, "MAX_BANDS", 3)
    crowded = decoding_saliency.game_curves(game_results).axes[1]
    assert len(crowded.collections) == 1  # of the random baseline only


def test_lines_of_a_figure_have_different_colours_and_equal_curves_are_one_line(game_results):
    names = [f"{CAM} l{layer}" for layer in range(7)]
    looks = style.line_looks([*names, "Grad-CAM l0", "gradxact", "integrated", "shapley", "random"])
    assert len({line.colour for line in looks.values()}) == 12
    assert style.line_looks([names[5], names[2]])[names[5]].colour == looks[names[5]].colour  # by its number
    ax = decoding_saliency.game_curves(game_results).axes[1]
    assert ax.get_xlabel() == "share of tokens hidden" and ax.get_ylabel() == "accuracy"
    curves = {"one": np.array([[0, 1], [2, 3]]), "two": np.array([[0, 1], [3, 3]]), "same": np.array([[0, 1], [2, 3]])}
    _, axes = style.panels(1, 1, 2, 2)
    assert style.draw_lines(axes[0][0], curves, style.line_looks(list(curves))) == ["one", "two"]
    assert list(lines(axes[0][0])) == ["one = same", "two"]


def test_layer_curves_separate_even_and_odd_layers(game_results):
    figure = render(decoding_saliency.layer_curves(game_results))
    names = [[name.removeprefix(f"{CAM} ") for name in lines(ax)] for ax in figure.axes]
    assert names == [["l2", "random"], ["l1", "l3", "random"]] * 2
    with refuses("method"):
        decoding_saliency.layer_curves(game_results, "decoded Simple")


def test_geometry_shows_the_probabilities_of_the_lm_head(masked):
    path = decoding_saliency.decoded_path(masked, "big dog")
    assert len(path) == 2 * (masked.depth + 1)
    encoded = masked.encode("big dog")
    content = torch.tensor([encoded[0].ids[i] for i in encoded[0].content])
    hidden = nbsal.trace.record(masked, encoded, needs={"hidden"}).hidden[3][0, 1:2]
    share = masked.lm_head.probabilities(hidden, content).tolist()[0]
    row = path[(path["layer"] == 3) & (path["token"] == "big")].iloc[0]
    assert [row["big"] ** 2, row["dog"] ** 2] == pytest.approx(share, rel=1e-5, abs=1e-6)
    ax = render(decoding_saliency.toy_geometry(path)).axes[0]
    assert [text.get_text() for text in ax.texts[-3:]] == ["big", "dog", "all other tokens"] and len(ax.lines) == 4
    assert ax.get_xlim() == ax.get_ylim() == ax.get_zlim() == (0, 1), "an eighth of the sphere"
    with refuses("text"):
        decoding_saliency.decoded_path(masked, "dog")


def test_own_tokens_and_the_best_layer_are_those_of_the_model(masked, game_results):
    path = decoding_saliency.decoded_path(masked, "big dog").set_index(["token", "layer"])
    own = [
        (path.loc[("big", layer), "big"] ** 2 + path.loc[("dog", layer), "dog"] ** 2) / 2
        for layer in range(masked.depth + 1)
    ]
    assert decoding_saliency.own_token_shares(masked, ["big dog"]).tolist() == pytest.approx(own, abs=1e-5)
    areas = game_results.auc().set_index(["explainer", "game"])["auc"]
    gaps = {k: areas[f"{CAM} l{k}", "revealing"] - areas[f"{CAM} l{k}", "hiding"] for k in (1, 2, 3)}
    assert gaps[decoding_saliency.best_layer(game_results)] == max(gaps.values())


def test_overlap_figures_draw_shares_and_counts(masked, clouds):
    explainers = {name: nbsal.Explainer(masked, name) for name in clouds}
    results = nbsal.evaluation.overlap(explainers, TEXTS, [2, 4], progress=False)
    ax = render(decoding_saliency.overlap_shares({"ours": results})).axes[0]
    assert lines(ax) == {name: values(results, "overlap", name) for name in explainers}
    ax = render(decoding_saliency.overlap_counts({"ours": clouds}, [2, 4])).axes[0]
    assert lines(ax) == {name: [round(k * cloud.overlap(k)) for k in (2, 4)] for name, cloud in clouds.items()}


def test_word_clouds_have_one_row_per_explainer_and_one_column_per_class(clouds):
    figure = render(decoding_saliency.word_clouds(clouds, 5))
    assert [ax.get_ylabel() for ax in figure.axes] == ["decoded-gradcam", "", "simple", ""]
    assert [len(ax.images) for ax in figure.axes] == [1] * 4
    classes = ["positive", "neutral", "negative"]
    figure = decoding_saliency.word_clouds(clouds, 5, classes)
    assert [ax.get_title().split()[-1] for ax in figure.axes[:3]] == classes
    assert [len(ax.images) for ax in figure.axes] == [1, 0, 1] * 2
    zero = nbsal.clouds.Cloud({"negative": dict.fromkeys(clouds["simple"].weights["negative"], 0.0)})
    figure = render(decoding_saliency.word_clouds({"weighted": clouds["simple"], "zero": zero}))
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 0, 0]


@pytest.mark.parametrize("classes", ["ab", "abcd"])
def test_word_clouds_keep_their_aspect_ratio(classes):
    cloud = nbsal.clouds.Cloud({name: {"joy": 1.0} for name in classes})
    figure = render(decoding_saliency.word_clouds({"gradcam": cloud}))
    for ax in figure.axes:
        (height, width), box = ax.images[0].get_array().shape[:2], ax.get_window_extent()
        assert box.width / box.height == pytest.approx(width / height, rel=0.25)


def test_relation_distances_draw_every_share(masked):
    parse = nbsal.heads.Parse.from_lists(["very", "good", "food"], [1, 2, -1], ["advmod", "amod", "root"])
    study = nbsal.heads.study(masked, [parse], progress=False)
    figure = render(mask_lrp.relation_distances(study))
    bars = [[(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in ax.patches] for ax in figure.axes]
    assert bars == [[], [], [(1, 1)], [(1, 1)]]


def test_unused_panels_are_hidden():
    study = nbsal.heads.HeadStudy.empty((2, 3), ["nsubj", "obj", "amod"])
    assert [ax.get_visible() for ax in render(mask_lrp.relation_distances(study)).axes] == [True] * 3 + [False]
    masks = {name: nbsal.heads.HeadMask.from_array([[1, 0]]) for name in "abcde"}
    assert [ax.get_visible() for ax in render(mask_lrp.head_maps(masks)).axes] == [True] * 5 + [False] * 3


def test_deletion_and_corruption_curves_draw_every_value(masked):
    masks = [masked.mask.corrupted(0.5, seed) for seed in range(2)]
    explainers = {
        "0 %": nbsal.Explainer(masked, "mask-lrp"),
        "50 %": [nbsal.Explainer(masked, "mask-lrp", mask=mask) for mask in masks],
        "gae": nbsal.Explainer(masked, "gae"),
    }
    results = nbsal.evaluation.faithfulness(explainers, TEXTS[:2], fractions=(0.2, 0.6), progress=False)
    figure = render(mask_lrp.deletion_curves(results, ["gae"]))
    for ax, measure in zip(figure.axes, ("aopc", "log-odds"), strict=True):
        assert lines(ax) == {"gae": values(results, measure, "gae")}
    ax = render(mask_lrp.corruption_curves(results)).axes[0]
    means = results.mean().set_index(["explainer", "measure"])["mean"]
    curve, level = ax.lines
    assert curve.get_xdata().tolist() == [0, 50]
    assert curve.get_ydata().tolist() == [means["0 %", "aopc"], means["50 %", "aopc"]]
    assert set(level.get_ydata()) == {means["gae", "aopc"]} and level.get_label() == "gae"
    with refuses("results"):
        mask_lrp.corruption_curves(nbsal.evaluation.faithfulness({"gae": explainers["gae"]}, TEXTS[:1], progress=False))


def test_head_maps_show_the_role_of_every_head():
    mask = nbsal.heads.HeadMask([[1, 0, 0], [1, 0, 0]], {"nsubj": [[0, 1, 0], [1, 0, 0]]})
    ax = render(mask_lrp.head_maps({"$one$": mask})).axes[0]
    drawn = {(text.get_text(), *text.get_position()) for text in ax.texts}
    assert drawn == {("p", 0.5, 0.5), ("s", 1.5, 0.5), ("b", 0.5, 1.5)}
    assert ax.collections[0].get_array().tolist() == [[1, 0, 3], [2, 3, 3]]


def test_flow_is_conserved_and_passes_only_selected_heads(masked):
    text, block = "A warm and funny film.", 2
    result = flow.through_block(masked, text, block)
    selected = masked.mask.selected[block]
    assert np.all(result.heads_after_mask[~selected] == 0) and np.all(result.heads_after_mask[selected] != 0)
    assert result.heads_after_mask.sum() == pytest.approx(result.heads_before_mask.sum())
    assert result.input.sum() == pytest.approx(result.output.sum()) == pytest.approx(1)
    assert [role != style.NEITHER for role in result.roles] == selected.tolist()
    all_heads = nbsal.heads.HeadMask.from_array(np.ones(masked.mask.shape, int))
    assert flow.through_block(masked, text, block, all_heads).input == pytest.approx(result.input_without_mask)
    figure = render(flow.relevance_flow(result))
    tallest = max(bar.get_height() for bar in figure.axes[1].patches)
    assert tallest == max(result.heads_before_mask.max(), result.heads_after_mask.max()) < result.residual
    assert [bar.get_height() for bar in figure.axes[0].patches] == pytest.approx(result.output.tolist())
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == list(result.tokens)
    with refuses("block", UnknownName):
        flow.through_block(masked, text, 9)
    with refuses("text"):
        flow.through_block(masked, [text, text], block)
    heads = np.eye(*masked.mask.shape)
    both = flow.through_block(masked, text, 1, nbsal.heads.HeadMask(heads, {"obj": heads}))
    assert list(both.roles[:3]) == [style.NEITHER, style.BOTH, style.NEITHER]


def test_differences_are_between_normalised_scores(masked):
    ours, other = (nbsal.Explainer(masked, name)(TEXTS[0]) for name in ("mask-lrp", "gae"))
    content = list(ours.row.content)
    assert np.abs(mask_lrp.score_shares(ours).scores[content]).sum() == pytest.approx(1)
    figure = render(mask_lrp.attribution_differences(ours, {"gae": other, "itself": ours}))
    words = [text.get_text() for text in figure.axes[0].texts]
    assert (
        words.count("funny") == 2 and "difference" in words
    )  # the text once more for `gae`; for itself words say that nothing differs
    with refuses("others"):
        mask_lrp.attribution_differences(ours, {"gae": nbsal.Explainer(masked, "gae")(TEXTS[1])})
    two = [nbsal.Explainer(masked, name).map(TEXTS[:2], progress=False) for name in ("mask-lrp", "gae")]
    both = mask_lrp.attribution_differences(list(two[0]), {"gae": list(two[1])}, ["Figure 7", "Figure 8"])
    assert [text.get_text() for text in both.axes[0].texts].count("Figure") == 2
    with refuses("titles"):
        mask_lrp.attribution_differences(list(two[0]), {"gae": list(two[1])}, ["Figure 7"])


def test_highlights_of_several_texts_name_the_prediction_once_each(masked):
    explained = {
        name: list(nbsal.Explainer(masked, name).map(TEXTS[:2], progress=False)) for name in ("gae", "gradxact")
    }
    words = [text.get_text() for text in render(decoding_saliency.highlights(explained)).axes[0].texts]
    assert words.count("predicted") == 2 and words.count("funny") == words.count("dull") == words.count("gradxact") == 2


def test_maps_agree_with_the_scores_of_their_methods(masked):
    maps = relevance.maps(masked, TEXTS[0])
    scores = nbsal.Explainer(masked, "transformer-attribution")(TEXTS[0]).scores
    assert maps.rollout[0] == pytest.approx(scores)
    assert maps.attention_rollout[0] == pytest.approx(nbsal.Explainer(masked, "rollout")(TEXTS[0]).scores, abs=1e-5)
    assert maps.layer_sums == pytest.approx(1)
    visible = [ax for ax in render(relevance.relevance_maps(maps)).axes if ax.get_visible()]
    assert len(visible) == masked.depth + 1
    assert np.array_equal(visible[2].images[0].get_array(), maps.blocks[2])
    assert len(render(relevance.rollout_maps(maps)).axes) == 2
    assert render(relevance.conservation(maps)).axes[0].lines[0].get_ydata().tolist() == maps.layer_sums.tolist()
    long = relevance.maps(masked, "joy " * (relevance.MAX_TOKEN_LABELS + 1))  # without labels of tokens
    assert not render(relevance.rollout_maps(long)).axes[0].get_xticklabels()[-1].get_text().startswith("joy")
    with refuses("subject"):
        relevance.maps(nbsal.load("demo/answers"), ("Who?", "A joy."))


def test_class_maps_share_one_colour_scale(masked):
    explain = nbsal.Explainer(masked, "transformer-attribution")
    saliencies = {name: explain(TEXTS[1], name) for name in masked.labels}
    figure = render(relevance.class_maps(saliencies))
    alphas = [colour[3] for boxes in figure.axes[0].collections for colour in boxes.get_facecolor()]
    assert max(alphas) == pytest.approx(0.72)


@pytest.mark.filterwarnings("error")  # no font has a line break
def test_text_breaks_into_lines_that_fit():
    runs = [lettering.Run(word, 13) for word in ["plain ", "words "] * 30 + ["x" * 200]]
    pieces = list(lettering.break_lines([runs, [lettering.Run("second", 13)]], 260))
    ends = {}
    for piece in pieces:
        ends[piece.line] = max(ends.get(piece.line, 0), piece.left + piece.run.width)
    assert all(end <= 261 for line, end in ends.items() if line < max(ends) - 1 - 200 // lettering.LONGEST)
    assert pieces[-1].run.text == "second" and pieces[-1].line == max(ends)
    assert not [piece for piece in pieces if piece.run.text.isspace() and piece.left == 0]
    widths = [lettering.Run(text, 13).width for text in ("ab", "a", "b")]
    assert math.isclose(widths[0], widths[1] + widths[2], rel_tol=0.2)
    pieces = list(lettering.break_lines([[lettering.Run(" \na joy\n\n", 13)]], 200))
    words = [(piece.run.text, piece.line) for piece in pieces if not piece.run.text.isspace()]
    assert words == [("a", 1), ("joy", 1)]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_tokens_are_drawn_verbatim(masked):
    saliency = nbsal.Explainer(masked, "gradcam")(HOSTILE)
    figure = render(decoding_saliency.highlights({"$a_{": saliency, "<script>": saliency}))
    words = "".join(text.get_text() for text in figure.axes[0].texts)
    assert "$x^{2$" in words and "\u202e" not in words and "\x07" not in words and "<script>" in words
    render(relevance.relevance_maps(relevance.maps(masked, HOSTILE)))
    render(flow.relevance_flow(flow.through_block(masked, HOSTILE, 2)))
    path = decoding_saliency.decoded_path(masked, "$ ^")
    assert render(decoding_saliency.toy_geometry(path)).axes[0].texts[-3].get_text() == "$"
    cloud = nbsal.clouds.Cloud({"$a$": {"$x^{2$": 1.0, "<b>": 0.5}, "b": {"$x^{2$": 1.0}})
    render(decoding_saliency.word_clouds({"$m_{": cloud}))
    render(decoding_saliency.overlap_counts({"$d_{": {"$m_{": cloud}}, [1]))
    results = nbsal.evaluation.games({"$m_{": nbsal.Explainer(masked, "gradcam")}, TEXTS[:2], random=0, progress=False)
    render(decoding_saliency.game_curves(results))


def test_user_settings_do_not_affect_the_figures(game_results):
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": True}):
        figure = decoding_saliency.game_curves(game_results)
    assert figure.axes[0].xaxis.label.get_size() == style.NORMAL
    assert not figure.axes[0].title.get_usetex() and figure.axes[0].get_facecolor() == (1, 1, 1, 1)
