"""The Compare view: two explanations of one text on a stated scale, and the agreement of their rankings."""

import dataclasses

import numpy as np
import pytest

import nbsal
from nbsal.errors import UnknownName
from nbsal.evaluation._agreement import kendall
from nbsal.widgets import Compare, wire
from nbsal.widgets.compare import ComparedPair
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(reviews):
    compare = Compare(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT, other_method="simple").wait()
    yield compare
    compare.close()


def test_both_are_shown(view, reviews):
    first = nbsal.Explainer(reviews, "gradxact", layer=3)(TEXT)
    second = nbsal.Explainer(reviews, "simple", layer=3)(TEXT)
    assert view._scores == wire.scores([first.scores, second.scores])
    assert view._other["caption"] == second.caption()
    assert view.agreement["rank"] == kendall(first.order, second.order)


def test_either_side_is_changed_alone(view):
    from_page(view, other_layer=1, other_target="negative")
    pair = view.wait().result
    assert pair.first.provenance["parameters"]["layer"] == 3 and pair.first.target == "positive"
    assert pair.second.provenance["parameters"]["layer"] == 1 and pair.second.target == "negative"
    for name, value in {"other_layer": 9, "other_method": "grad"}.items():
        with refuses(name, UnknownName):
            setattr(view, name, value)


def test_one_method_agrees_with_itself(reviews):
    view = Compare(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT).wait()
    assert view.agreement == {"rank": 1.0, "overlap": 1.0}
    assert np.abs(view.result.difference).max() == 0


def test_two_models_are_compared(reviews):
    explainers = (
        nbsal.Explainer(reviews, "gradcam", layer=2),
        nbsal.Explainer(nbsal.load("demo/news"), "gradcam", layer=2),
    )
    view = Compare(*explainers, text=TEXT).wait()
    assert view._other["prediction"] in nbsal.load("demo/news").labels
    assert view._other_choices["labels"] != view._choices["labels"]


def test_the_scale_is_own_or_shared(view):
    first, second = view.result.first, view.result.second
    content = list(first.row.content)
    assert [np.abs(shares[content]).max() for shares in view.result.shares] == [1, 1]
    before = view._rev
    view.scale = "shared"
    largest = max(first.largest, second.largest)
    assert view.result.shares[1].tolist() == (second.scores / largest).tolist()
    assert view._rev == before, "nothing is computed again"


def test_finished_results_are_compared(view, reviews):
    first, second = view.result.first, view.result.second
    plain = Compare(first, second).wait()
    assert plain.agreement == view.agreement and plain.other_method == "simple" and not plain._live
    for sources in [(first, view.explainer), (view.explainer, second)]:
        with refuses("other"):
            Compare(*sources, text=TEXT)


def test_explanations_of_different_tokens_are_refused(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    with refuses("other"):
        ComparedPair(explain("A joy."), explain("A bore."))


def test_both_share_one_forward_pass(view, forwards):
    for change, runs in [({"other_method": "attcat"}, 1), ({"method": "raw-attention", "other_layer": 1}, 1)]:
        from_page(view, **change)
        view.wait()
        assert len(forwards) == runs
        forwards.clear()
    sides = [view.result.first, view.result.second]
    alone = [nbsal.Explainer(view.subject, "raw-attention")(TEXT), nbsal.Explainer(view.subject, "attcat")(TEXT)]
    for one, other in zip(sides, alone, strict=True):
        assert one.method == other.method and np.abs(one.scores - other.scores).max() < 1e-6


def test_other_targets_and_models_need_two_forward_passes(view, forwards):
    view.other_target = "negative"
    assert view.wait().result.second.target == "negative" and len(forwards) == 2
    forwards.clear()
    pair = nbsal.Explainer(view.subject, "gradxact"), nbsal.Explainer(nbsal.load("demo/news"), "gradxact")
    Compare(*pair, text=TEXT).wait().close()
    assert len(forwards) == 2


def test_all_windows_of_a_long_text_are_compared(reviews):
    text = TEXT * 60
    first, second = (nbsal.Explainer(reviews, name, layer=3, long="window") for name in ("gradxact", "simple"))
    view = Compare(first, text=text, other_method="simple").wait()
    assert view.result.second.scores.tolist() == second(text).scores.tolist()
    assert not view.result.first.row.dropped


def test_the_rankings_of_all_tokens_are_compared(view):
    long = nbsal.Explainer(view.subject, "gradxact", layer=3, long="window")(TEXT * 300)
    half = long.scores.copy()
    half[long.order[600:]] *= -1  # the same ranking up to there, the opposite one from there
    tau = ComparedPair(long, dataclasses.replace(long, scores=half)).agreement["rank"]
    assert tau == kendall(long.order, dataclasses.replace(long, scores=half).order) < 0.999


def test_the_agreement_and_the_settings_of_both_are_reported(view):
    first, second = view.result.first, view.result.second
    common = len(set(first.order[:5]) & set(second.order[:5]))
    assert f"{common} of the top 5 tokens" in view._result["agreement"]
    view.other_layer = 1
    notes = view.wait()._result["notes"]
    assert any(note.startswith("first: ") and "layer=3" in note for note in notes)
    assert any(note.startswith("second: ") and "layer=1" in note for note in notes)
    assert ComparedPair(first, first).provenance_notes() == first.notes(), "what holds for both is stated once"


def test_it_exports(view):
    assert view.to_png().startswith(b"\x89PNG")
    assert view.to_html().count("funny") >= 3
    assert view.to_frame()["difference"].equals(view.to_frame()["first"] - view.to_frame()["second"])
