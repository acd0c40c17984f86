"""The figures: what is drawn is what was given, whatever tokens it is about, and nothing is left behind."""

import math

import matplotlib
import matplotlib.figure
import numpy as np
import pytest
from matplotlib.text import Text

import nbsal
from nbsal.figures import decoding_saliency, flow, mask_lrp, relevance, style, text_lines
from nbsal.render.html import ScoredSpan

TEXTS = ["A warm and funny film.", "A dull bore of a film.", "A joy, and never dull.", "Bad."]
HOSTILE = "A $x^{2$ <b>joy</b> \\frac{ \u202e film \x07 & 'dull' $$ {0} %s"


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No figure in pyplot, and no setting changed."""
    from matplotlib import pyplot

    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    yield
    assert pyplot.get_fignums() == figures
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def played(reviews):
    """Games of three layers and chance."""
    some = {f"decoded Grad-CAM l{at}": nbsal.Explainer(reviews, "decoded-gradcam", layer=at) for at in (3, 4, 5)}
    return nbsal.evaluation.games(some, TEXTS, [1, 0, 1, 0], fractions=(0, 0.5, 1), random=2, progress=False)


@pytest.fixture(scope="module")
def deleted(reviews):
    """Faithfulness of two methods."""
    some = {name: nbsal.Explainer(reviews, name) for name in ("mask-lrp", "gae")}
    return nbsal.evaluation.faithfulness(some, TEXTS, fractions=(0.2, 0.6), progress=False)


@pytest.fixture(scope="module")
def clouds(reviews):
    """Class tokens of two explainers."""
    some = {name: nbsal.Explainer(reviews, name) for name in ("decoded-gradcam", "simple")}
    return {name: nbsal.clouds.rank(explain.map(TEXTS, progress=False)) for name, explain in some.items()}


def drawn(figure):
    """The figure, once all of it was drawn; no text in it is taken for a formula."""
    assert type(figure) is matplotlib.figure.Figure
    assert style.png(figure).startswith(b"\x89PNG")
    assert not [t.get_text() for t in figure.findobj(Text) if "$" in t.get_text() and t.get_parse_math()]
    return figure


def lines(ax):
    """Values of the named lines of a panel."""
    return {one.get_label(): one.get_ydata().tolist() for one in ax.lines if not one.get_label().startswith("_")}


def expected(results, measure, name):
    frame = results.frame
    own = frame[(frame["explainer"] == name) & (frame[results.sheet.measure] == measure)]
    return own[results.sheet.value].tolist()


def test_game_curves_draw_every_value(played):
    figure = drawn(decoding_saliency.game_curves(played))
    for ax, measure in zip(figure.axes, ("revealing", "hiding"), strict=True):
        assert lines(ax) == {name: expected(played, measure, name) for name in played.explainers}
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("fraction", "accuracy")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == played.explainers


def test_game_curves_draw_those_asked_for(played):
    figure = decoding_saliency.game_curves(played, ["random"])
    assert [list(lines(ax)) for ax in figure.axes] == [["random"]] * 2
    with pytest.raises(nbsal.errors.UnknownName, match="gradcom"):
        decoding_saliency.game_curves(played, ["gradcom"])


def test_bands_are_intervals_where_few_and_deviations_where_random(played):
    frame = played.frame.query("game == 'hiding'").set_index("explainer")
    ax = decoding_saliency.game_curves(played).axes[1]
    edges = [band.get_paths()[0].vertices[:, 1] for band in ax.collections]
    assert len(edges) == 4
    ours, chance = frame.loc["decoded Grad-CAM l5"], frame.loc["random"]
    assert {*ours["low"], *ours["high"]} <= set(edges[2])
    assert edges[3].max() == pytest.approx((chance["accuracy"] + chance["spread"]).max())
    many = decoding_saliency.game_curves(played, [*played.explainers, "random"]).axes[1]
    assert len(many.collections) == 2  # chance alone


def test_layer_curves_part_even_from_odd(played):
    figure = drawn(decoding_saliency.layer_curves(played))
    named = [[name.removeprefix("decoded Grad-CAM ") for name in lines(ax)] for ax in figure.axes]
    assert named == [["l4", "random"], ["l3", "l5", "random"]] * 2
    assert figure.axes[3].get_title() == "odd layers, hiding ↓"
    with pytest.raises(nbsal.errors.InputError, match="decoded Simple l<layer>"):
        decoding_saliency.layer_curves(played, "decoded Simple")


def test_geometry_is_the_heads_own(reviews):
    path = decoding_saliency.decoded_path(reviews, "big dog")
    assert len(path) == 2 * (reviews.depth + 1)
    encoded = reviews.encode("big dog")
    hidden = nbsal.trace.record(reviews, encoded, needs={"hidden"}).hidden[3][0, 1:2]
    share = reviews.lm_head.probabilities(hidden, encoded_ids(encoded)).tolist()[0]
    row = path[(path["layer"] == 3) & (path["token"] == "big")].iloc[0]
    assert [row["big"] ** 2, row["dog"] ** 2] == pytest.approx(share, abs=1e-6)
    ax = drawn(decoding_saliency.toy_geometry(path)).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_zlabel()) == ("big", "dog", "all other tokens")
    assert len(ax.lines) == 4
    with pytest.raises(nbsal.errors.InputError, match="two tokens"):
        decoding_saliency.decoded_path(reviews, "dog")


def encoded_ids(encoded):
    import torch

    return torch.tensor([encoded[0].ids[i] for i in encoded[0].content])


def test_overlaps_draw_shares_and_counts(reviews, clouds):
    some = {name: nbsal.Explainer(reviews, name) for name in clouds}
    found = nbsal.evaluation.overlap(some, TEXTS, [2, 4], progress=False)
    ax = drawn(decoding_saliency.overlap_shares({"ours": found})).axes[0]
    assert lines(ax) == {name: expected(found, "overlap", name) for name in some}
    ax = drawn(decoding_saliency.overlap_counts({"ours": clouds}, [2, 4])).axes[0]
    assert lines(ax) == {name: [round(k * cloud.overlap(k)) for k in (2, 4)] for name, cloud in clouds.items()}
    assert ax.get_title() == "ours"


def test_word_clouds_have_a_row_an_explainer_and_a_column_a_class(clouds):
    figure = drawn(decoding_saliency.word_clouds(clouds, 5))
    assert [ax.get_title() for ax in figure.axes] == ["predicted negative", "predicted positive", "", ""]
    assert [ax.get_ylabel() for ax in figure.axes] == ["decoded-gradcam", "", "simple", ""]
    assert all(len(ax.images) == 1 for ax in figure.axes)


@pytest.mark.parametrize("classes", ["ab", "abcd"])
def test_letters_of_clouds_are_not_squeezed(classes):
    figure = drawn(decoding_saliency.word_clouds({"one": nbsal.clouds.Cloud({name: {"joy": 1.0} for name in classes})}))
    for ax in figure.axes:
        (high, wide), box = ax.images[0].get_array().shape[:2], ax.get_window_extent()
        assert box.width / box.height == pytest.approx(wide / high, rel=0.25)


def test_classes_that_nobody_predicts_have_no_words(clouds):
    one, other = clouds.values()
    blind = nbsal.clouds.Cloud({"negative": dict.fromkeys(other.weights["negative"], 0.0)})
    figure = drawn(decoding_saliency.word_clouds({"seeing": one, "blind": blind}))
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 0, 0]


def test_relation_distances_draw_every_share(reviews):
    parse = nbsal.heads.Parse.from_lists(["very", "good", "food"], [1, 2, -1], ["advmod", "amod", "root"])
    study = nbsal.heads.study(reviews, [parse], progress=False)
    figure = drawn(mask_lrp.relation_distances(study))
    bars = {
        ax.get_title(): [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in ax.patches]
        for ax in figure.axes
    }
    assert bars == {"nsubj (0)": [], "obj (0)": [], "amod (1)": [(1, 1)], "advmod (1)": [(1, 1)]}


def test_panels_that_are_left_over_are_not_seen():
    study = nbsal.heads.HeadStudy.empty((2, 3), ["nsubj", "obj", "amod"])
    assert [ax.get_visible() for ax in drawn(mask_lrp.relation_distances(study)).axes] == [True] * 3 + [False]
    masks = {name: nbsal.heads.HeadMask.from_array([[1, 0]]) for name in "abcde"}
    assert [ax.get_visible() for ax in drawn(mask_lrp.head_maps(masks)).axes] == [True] * 5 + [False] * 3


def test_deletion_curves_draw_every_value(deleted):
    figure = drawn(mask_lrp.deletion_curves(deleted, ["gae"]))
    for ax, measure in zip(figure.axes, ("aopc", "log-odds"), strict=True):
        assert lines(ax) == {"gae": expected(deleted, measure, "gae")}


def test_corruption_curves_draw_rates_and_levels(reviews):
    masks = [reviews.mask.corrupted(0.5, seed) for seed in range(2)]
    some = {
        "0 %": nbsal.Explainer(reviews, "mask-lrp"),
        "50 %": [nbsal.Explainer(reviews, "mask-lrp", mask=mask) for mask in masks],
        "gae": nbsal.Explainer(reviews, "gae"),
    }
    found = nbsal.evaluation.faithfulness(some, TEXTS[:2], progress=False)
    ax = drawn(mask_lrp.corruption_curves(found)).axes[0]
    means = found.mean().set_index(["explainer", "measure"])["mean"]
    curve, level = ax.lines
    assert curve.get_xdata().tolist() == [0, 50]
    assert curve.get_ydata().tolist() == [means["0 %", "aopc"], means["50 %", "aopc"]]
    assert set(level.get_ydata()) == {means["gae", "aopc"]} and level.get_label() == "gae"
    with pytest.raises(nbsal.errors.InputError, match="named after a share"):
        mask_lrp.corruption_curves(nbsal.evaluation.faithfulness({"gae": some["gae"]}, TEXTS[:1], progress=False))


def test_head_maps_show_every_head_by_its_role():
    mask = nbsal.heads.HeadMask([[1, 0, 0], [1, 0, 0]], {"nsubj": [[0, 1, 0], [1, 0, 0]]})
    figure = drawn(mask_lrp.head_maps({"$one$": mask}))
    ax = figure.axes[0]
    assert {(text.get_text(), *text.get_position()) for text in ax.texts} == {
        ("p", 0.5, 0.5),
        ("s", 1.5, 0.5),
        ("b", 0.5, 1.5),
    }
    assert ax.collections[0].get_array().tolist() == [[1, 0, 3], [2, 3, 3]]
    assert ax.get_title() == "$one$"


def test_flow_is_conserved_and_only_selected_heads_pass(reviews):
    text, block = "A warm and funny film.", 2
    found = flow.through_block(reviews, text, block)
    selected = reviews.mask.selected[block]
    assert np.all(found.leaving[~selected] == 0) and np.all(found.leaving[selected] != 0)
    assert found.leaving.sum() == pytest.approx(found.arriving.sum())
    assert found.below.sum() == pytest.approx(found.above.sum()) == pytest.approx(1)
    assert [kind != style.NEITHER for kind in found.kinds] == selected.tolist()
    everything = nbsal.heads.HeadMask.from_array(np.ones(reviews.mask.shape, int))
    assert flow.through_block(reviews, text, block, everything).below == pytest.approx(found.unmasked)
    figure = drawn(flow.relevance_flow(found))
    assert [bar.get_height() for bar in figure.axes[0].patches] == pytest.approx(found.above.tolist())
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == list(found.tokens)
    with pytest.raises(nbsal.errors.UnknownName, match="block 9"):
        flow.through_block(reviews, text, 9)
    with pytest.raises(nbsal.errors.InputError, match="One text flows"):
        flow.through_block(reviews, [text, text], block)
    heads = np.eye(*reviews.mask.shape)
    both = flow.through_block(reviews, text, 1, nbsal.heads.HeadMask(heads, {"obj": heads}))
    assert list(both.kinds[:3]) == [style.NEITHER, style.BOTH, style.NEITHER]


def test_differences_are_of_shares(reviews):
    ours, other = (nbsal.Explainer(reviews, name)(TEXTS[0]) for name in ("mask-lrp", "gae"))
    content = list(ours.row.content)
    assert np.abs(mask_lrp.shares(ours).scores[content]).sum() == pytest.approx(1)
    figure = drawn(mask_lrp.attribution_differences(ours, {"gae": other, "itself": ours}))
    titles = [text.get_text() for text in figure.axes[0].texts if text.get_weight() == "bold"]
    assert titles == ["mask-lrp: positive, its own scores", "mask-lrp less gae", "mask-lrp less itself"]
    words = [text.get_text() for text in figure.axes[0].texts if text.get_weight() != "bold"][:-1]
    assert words.count("funny") == 3
    with pytest.raises(nbsal.errors.InputError, match="one text"):
        mask_lrp.attribution_differences(ours, {"gae": nbsal.Explainer(reviews, "gae")(TEXTS[1])})


def test_maps_are_what_the_methods_score(reviews):
    found = relevance.maps(reviews, TEXTS[0])
    scores = nbsal.Explainer(reviews, "transformer-attribution")(TEXTS[0]).scores
    assert found.joined[0] == pytest.approx(scores)
    assert found.attention[0] == pytest.approx(nbsal.Explainer(reviews, "rollout")(TEXTS[0]).scores, abs=1e-5)
    assert found.totals == pytest.approx(1)
    figure = drawn(relevance.relevance_maps(found))
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(shown) == reviews.depth + 1
    assert np.array_equal(shown[2].images[0].get_array(), found.blocks[2])
    assert len(drawn(relevance.rollout_maps(found)).axes) == 2
    assert drawn(relevance.conservation(found)).axes[0].lines[0].get_ydata().tolist() == found.totals.tolist()


def test_maps_of_long_texts_name_no_token_and_spans_have_two(reviews):
    found = relevance.maps(reviews, "joy " * (relevance.MOST + 1))
    assert not drawn(relevance.rollout_maps(found)).axes[0].get_xticklabels()[-1].get_text().startswith("joy")
    with pytest.raises(nbsal.errors.InputError, match="two ends of a span"):
        relevance.maps(nbsal.load("demo/answers"), ("Who?", "A joy."))


def test_class_maps_share_one_scale(reviews):
    explain = nbsal.Explainer(reviews, "transformer-attribution")
    said = {name: explain(TEXTS[1], name) for name in reviews.labels}
    figure = drawn(relevance.class_maps(said))
    alphas = [patch.get_facecolor()[3] for patch in figure.axes[0].patches]
    assert max(alphas) == pytest.approx(0.72)
    assert figure.axes[0].texts[0].get_text().startswith("for negative")


def test_flowing_text_breaks_into_lines_that_fit():
    scored_spans = [ScoredSpan(word + " ", at / 9) for at, word in enumerate(["plain", "words"] * 30)] + [
        ScoredSpan("x" * 200, 1.0)
    ]
    pieces = list(text_lines.break_lines([scored_spans, [ScoredSpan("second")]], 200))
    ends = {}
    for piece in pieces:
        ends[piece.line] = max(ends.get(piece.line, 0), piece.left + piece.width)
    assert all(end <= 201 for line, end in ends.items() if line < max(ends) - 1 - 200 // text_lines.LONGEST)
    assert pieces[-1].text == "second" and pieces[-1].line == max(ends)
    assert not [piece for piece in pieces if piece.text.isspace() and piece.left == 0]
    assert math.isclose(
        text_lines.text_width("ab"), text_lines.text_width("a") + text_lines.text_width("b"), rel_tol=0.2
    )


@pytest.mark.filterwarnings("error")  # no font has a line break
def test_flowing_text_keeps_lines_and_spaces_where_they_are():
    pieces = list(text_lines.break_lines([[ScoredSpan(" \na joy\n\n", 1.0)]], 200))
    assert [(piece.text, piece.line) for piece in pieces if not piece.text.isspace()] == [("a", 1), ("joy", 1)]


def test_flowing_text_marks_what_speaks_against():
    passage = text_lines.ScoredText("t", [[ScoredSpan("for", 1.0), ScoredSpan(" "), ScoredSpan("against", -1.0)]], 1.0)
    ax = drawn(text_lines.draw([passage])).axes[0]
    assert len(ax.patches) == 2 and len(ax.lines) == 1
    assert ax.patches[0].get_facecolor()[0] > ax.patches[0].get_facecolor()[2]
    assert ax.patches[1].get_facecolor()[2] > ax.patches[1].get_facecolor()[0]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_tokens_are_drawn_as_they_are(reviews):
    found = nbsal.Explainer(reviews, "gradcam")(HOSTILE)
    figure = drawn(decoding_saliency.highlights({"$a_{": found, "<script>": found}))
    words = "".join(text.get_text() for text in figure.axes[0].texts)
    assert "$x^{2$" in words and "\u202e" not in words and "\x07" not in words and "<script>" in words
    drawn(relevance.relevance_maps(relevance.maps(reviews, HOSTILE)))
    drawn(flow.relevance_flow(flow.through_block(reviews, HOSTILE, 2)))
    path = decoding_saliency.decoded_path(reviews, "$ ^")
    assert drawn(decoding_saliency.toy_geometry(path)).axes[0].get_xlabel() == "$"
    cloud = nbsal.clouds.Cloud({"$a$": {"$x^{2$": 1.0, "<b>": 0.5}, "b": {"$x^{2$": 1.0}})
    drawn(decoding_saliency.word_clouds({"$m_{": cloud}))
    drawn(decoding_saliency.overlap_counts({"$d_{": {"$m_{": cloud}}, [1]))
    results = nbsal.evaluation.games({"$m_{": nbsal.Explainer(reviews, "gradcam")}, TEXTS[:2], random=0, progress=False)
    drawn(decoding_saliency.game_curves(results))


def test_a_users_style_does_not_reach_the_figures(played):
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": True}):
        figure = decoding_saliency.game_curves(played)
    assert figure.axes[0].xaxis.label.get_size() == style.NORMAL
    assert not figure.axes[0].title.get_usetex() and figure.axes[0].get_facecolor() == (1, 1, 1, 1)
