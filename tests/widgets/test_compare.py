"""Compare sets two explanations side by side, on a scale that is said, with the agreement Python reads back."""

import dataclasses

import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.evaluation._agreement import kendall
from nbsal.widgets import Compare, wire
from nbsal.widgets.compare import ComparedPair
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(reviews):
    made = Compare(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT, other_method="simple").wait()
    yield made
    made.close()


def test_both_are_shown(view, reviews):
    first = nbsal.Explainer(reviews, "gradxact", layer=3)(TEXT)
    second = nbsal.Explainer(reviews, "simple", layer=3)(TEXT)
    assert (view._scores, view._result["scales"]) == wire.scores([first.scores, second.scores])
    assert view._other["caption"] == second.caption()
    assert view.agreement["rank"] == kendall(first.order, second.order)


def test_either_side_is_changed_alone(view):
    from_page(view, other_layer=1, other_target="negative")
    found = view.wait().result
    assert found.first.provenance["parameters"]["layer"] == 3 and found.first.target == "positive"
    assert found.second.provenance["parameters"]["layer"] == 1 and found.second.target == "negative"
    for name, value in {"other_layer": 9, "other_method": "grad"}.items():
        with pytest.raises(UnknownName):
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


def test_the_scale_is_ones_own_or_the_larger_one(view):
    first, second = view.result.first, view.result.second
    content = list(first.row.content)
    assert [np.abs(shares[content]).max() for shares in view.result.shares] == [1, 1]
    before = view._rev
    view.scale = "shared"
    top = max(first.largest, second.largest)
    assert view.result.shares[1].tolist() == (second.scores / top).tolist() and view._rev == before
    assert "the larger of both" in view.html()


def test_plain_results_are_compared(view, reviews):
    first, second = view.result.first, view.result.second
    plain = Compare(first, second).wait()
    assert plain.agreement == view.agreement and plain.other_method == "simple" and not plain._live
    with pytest.raises(InputError, match="two results"):
        Compare(first, nbsal.Explainer(reviews, "simple"), text=TEXT)


def test_what_was_not_read_alike_is_not_compared(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    with pytest.raises(InputError, match="same text"):
        ComparedPair(explain("A joy."), explain("A bore."))


def test_one_run_of_the_model_serves_both(view, forwards):
    for change, runs in [({"other_method": "attcat"}, 1), ({"method": "raw-attention", "other_layer": 1}, 1)]:
        from_page(view, **change)
        view.wait()
        assert len(forwards) == runs
        forwards.clear()
    sides = [view.result.first, view.result.second]
    alone = [nbsal.Explainer(view.subject, "raw-attention")(TEXT), nbsal.Explainer(view.subject, "attcat")(TEXT)]
    for one, other in zip(sides, alone, strict=True):
        assert one.method == other.method and np.abs(one.scores - other.scores).max() < 1e-6


def test_what_cannot_share_a_run_has_its_own(view, forwards):
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
    half[long.order[600:]] *= -1  # as ranked up to there, and the other way round from there
    found = ComparedPair(long, dataclasses.replace(long, scores=half)).agreement["rank"]
    assert found == kendall(long.order, dataclasses.replace(long, scores=half).order) < 0.999


def test_the_agreement_and_what_either_is_made_with_are_said(view):
    first, second = view.result.first, view.result.second
    common = len(set(first.order[:5]) & set(second.order[:5]))
    assert f"of the 5 first tokens of each, {common} are the same" in view._result["agreement"]
    view.other_layer = 1
    notes = view.wait()._result["notes"]
    assert any(note.startswith("first: ") and "layer=3" in note for note in notes)
    assert any(note.startswith("second: ") and "layer=1" in note for note in notes)
    alike = ComparedPair(first, first).notes()
    assert alike[2:] == first.notes()


def test_it_exports(view):
    assert view.to_png().startswith(b"\x89PNG")
    assert view.to_html().count("funny") >= 3
    assert view.to_frame()["difference"].equals(view.to_frame()["first"] - view.to_frame()["second"])
