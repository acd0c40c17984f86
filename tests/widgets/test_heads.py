"""Heads: switches that re-run Mask-LRP, thresholds of a study, and where a head looks."""

import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.heads import HeadMask, Parse
from nbsal.widgets import Heads
from nbsal.widgets.head_grid import HeadGrid, rows_shown, toggle_heads
from tests.widgets.test_view import from_page

TEXT = "A warm and oddly funny film."
PARSES = [
    Parse.from_lists(["She", "sells", "red", "shells"], [1, -1, 3, 1], ["nsubj", "root", "amod", "obj"]),
    Parse.from_lists(["The", "old", "dog", "ran"], [2, 2, 3, -1], ["det", "amod", "nsubj", "root"]),
]


@pytest.fixture(scope="module")
def study(reviews):
    return nbsal.heads.study(reviews, PARSES, progress=False)


@pytest.fixture
def view(reviews):
    made = Heads(reviews, text=TEXT).wait()
    yield made
    made.close()


def explained(reviews, mask):
    return nbsal.Explainer(reviews, "mask-lrp", mask=mask)(TEXT).scores.tolist()


def test_the_models_own_mask_is_on(view, reviews):
    assert view.mask == reviews.mask
    assert view.result.scores.tolist() == explained(reviews, reviews.mask)
    assert np.array(view._heads["on"]).tolist() == reviews.mask.selected.astype(int).tolist()


def test_a_click_in_the_page_runs_mask_lrp_again(view, reviews):
    from_page(view, toggled=[[0, 2], [5, 11]])
    wanted = reviews.mask.selected.copy()
    wanted[0, 2], wanted[5, 11] = False, True
    assert view.mask.selected.tolist() == wanted.tolist()
    assert view.wait().result.scores.tolist() == explained(reviews, view.mask)
    assert view.result.scores.tolist() != explained(reviews, reviews.mask)


@pytest.mark.parametrize("kind", ["both", "syntactic", "positional", "none"])
def test_a_kind_switches_on_its_heads_alone(view, reviews, kind):
    view.kind = kind
    mask = reviews.mask
    parts = {"both": mask.selected, "syntactic": mask.syntactic, "positional": mask.positional}
    wanted = parts.get(kind, np.zeros(mask.shape, bool))
    assert view.mask.selected.tolist() == wanted.tolist()
    assert view.wait().result.scores.tolist() == explained(reviews, view.mask)


def test_thresholds_of_a_study_choose_heads(reviews, study):
    view = Heads(reviews, text=TEXT, study=study).wait()
    from_page(view, synt=0.5, pos=0.3)
    view.wait()
    assert view.mask == study.mask(synt=0.5, pos=0.3) != study.mask()
    assert view._heads["studied"] and "%" in view._heads["about"][0][0] + view._heads["about"][2][0]


def test_the_other_settings_of_the_method_stay(reviews):
    explain = nbsal.Explainer(reviews, "mask-lrp@published", mask=~reviews.mask, empty="block")
    view = Heads(explain, text=TEXT, kind="both")
    assert view.wait().result.scores.tolist() == explain(TEXT).scores.tolist()
    assert view.method == "mask-lrp@published"
    assert [entry[0] for entry in view._choices["methods"]] == ["mask-lrp", "mask-lrp@published", "mask-lrp@equations"]


def test_another_method_gives_its_model_alone(reviews):
    assert Heads(nbsal.Explainer(reviews, "gradcam"), text=TEXT).wait().result.method == "mask-lrp"


def test_a_model_whose_heads_nobody_studied_begins_with_none(load):
    view = Heads(load("bert"), text="The film is a joy.").wait()
    assert not view.mask.selected.any()
    view.toggled = [[1, 2]]
    assert view.wait().mask.selected.sum() == 1


def test_the_attention_of_a_head_is_that_of_the_trace(view, reviews):
    view.head = [2, 9]
    found = view.wait()._attention
    read = nbsal.trace.record(reviews, reviews.encode(TEXT), needs={"attention"}).attention[2][0, 9].numpy()
    shown = np.frombuffer(found["map"], np.uint8).reshape(read.shape) / 255 * found["top"]
    assert found["head"] == [2, 9] and np.abs(shown - read).max() <= 0.5 * found["top"] / 255 + 1e-6
    view.text = "Dull."
    assert view.wait()._attention["size"] == len(view.result.tokens)


def test_looking_does_not_explain_again(view):
    before = view.result
    view.head = [1, 1]
    assert view.wait().result is before


def test_a_mask_or_a_study_is_shown_without_a_model(reviews, study):
    assert Heads(reviews.mask).wait().to_frame()["on"].sum() == reviews.mask.selected.sum()
    view = Heads(study).wait()
    view.pos = 0.0
    assert view.wait().mask == study.mask(pos=0.0) and "block 5" in view.to_html()


@pytest.mark.parametrize("head", [[6, 0], [0, 12], [1], "0.1", [-1, 0]])
def test_heads_that_are_not_there_are_refused(view, head):
    with pytest.raises((UnknownName, InputError)):
        view.head = head
    with pytest.raises((UnknownName, InputError)):
        view.toggled = [head]


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(InputError, match="a HeadStudy or a HeadMask, not int"):
        Heads(3)


def test_switching_keeps_reasons_and_switching_twice_changes_nothing():
    mask = HeadMask([[1, 0, 0]], {"obj": [[1, 1, 0]]})
    once = toggle_heads(mask, [[0, 1], [0, 2]])
    assert once.selected.tolist() == [[True, False, True]] and once.relations["obj"].tolist() == [[True, False, False]]
    assert toggle_heads(once, [[0, 2]]).selected.tolist() == [[True, False, False]]
    assert toggle_heads(mask, [[0, 1], [0, 1]]) == mask
    assert rows_shown(mask, "positional").selected.tolist() == [[True, False, False]]


def test_the_grid_says_what_each_head_is(reviews):
    frame = HeadGrid(reviews.mask, rows_shown(reviews.mask, "syntactic")).to_frame()
    assert frame.loc[frame["kind"] == "positional", "on"].sum() == 0
    assert set(frame.loc[frame["on"], "looks_at"]) <= {"nsubj", "obj"}


def test_exports_hold_text_and_heads(view):
    assert "funny" in view.to_html() and "block 5" in view.to_html() and view.to_png()[:4] == b"\x89PNG"
    assert view.to_frame()["token"].tolist() == list(view.result.tokens)


def test_a_masked_saliency_is_saved_and_says_which_heads_were_on(view, tmp_path):
    view.result.save(tmp_path / "s.json")
    kept = nbsal.Saliency.load(tmp_path / "s.json").provenance
    assert kept["heads"] == np.argwhere(view.mask.selected).tolist()
    assert kept["parameters"]["mask"] == repr(view.mask) and "array" not in " ".join(view.result.notes())
