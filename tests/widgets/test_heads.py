"""The Heads view: switched heads change Mask-LRP, a study has thresholds, and a head has an attention map."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.heads import HeadMask, Parse
from nbsal.passes import trace
from nbsal.render.headline import percent
from nbsal.widgets import Heads
from nbsal.widgets.content.head_grid import HeadGrid, heads_of_kind, toggle_heads
from nbsal.widgets.content.head_parts import AttentionPanel, HeadEffect, Without, effect_traits, mostly_attended
from tests.cases import cases
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page

PARSES = [
    Parse.from_lists(["She", "sells", "red", "shells"], [1, -1, 3, 1], ["nsubj", "root", "amod", "obj"]),
    Parse.from_lists(["The", "old", "dog", "ran"], [2, 2, 3, -1], ["det", "amod", "nsubj", "root"]),
]


@pytest.fixture(scope="module")
def study(reviews):
    return nbsal.heads.study(reviews, PARSES, progress=False)


@pytest.fixture
def view(reviews):
    heads = Heads(reviews, text=TEXT, kind="both").wait()
    yield heads
    heads.close()


def explained_scores(reviews, mask):
    return nbsal.Explainer(reviews, "mask-lrp", mask=mask)(TEXT).scores.tolist()


def test_heads_are_off_only_if_somebody_asked(reviews):
    every = Heads(reviews, text=TEXT).wait()
    assert (every.kind, every.effect.off) == ("all", 0) and "heads off" not in every.statement.text()
    mask = HeadMask.from_array(reviews.mask.positional)
    asked = Heads(nbsal.Explainer(reviews, "mask-lrp", mask=mask), text=TEXT).wait()
    assert asked.mask == mask and "heads off" in asked.statement.text()


def test_a_click_in_the_page_runs_mask_lrp_again(view, reviews):
    from_page(view, toggled=[[0, 2], [5, 11]])
    expected = reviews.mask.selected.copy()
    expected[0, 2], expected[5, 11] = False, True
    assert view.mask.selected.tolist() == expected.tolist()
    assert view.wait().result.scores.tolist() == explained_scores(reviews, view.mask)
    assert view.result.scores.tolist() != explained_scores(reviews, reviews.mask)


def test_thresholds_of_a_study_choose_heads(reviews, study):
    view = Heads(reviews, text=TEXT, study=study, kind="both").wait()
    from_page(view, synt=0.5, pos=0.3)
    view.wait()
    assert view.mask == study.mask(synt=0.5, pos=0.3) != study.mask()
    assert view._heads["studied"] and "%" in view._heads["about"][0][0] + view._heads["about"][2][0]


def zeroed_probabilities(subject, text, off):
    """The probabilities with the columns of some heads set to zero before the output projections."""
    size, handles = subject.width // subject.heads, []
    for heads, block in zip(off, subject.blocks, strict=True):

        def zero(module, args, heads=heads):
            hidden = args[0].clone()
            for head in np.flatnonzero(heads):
                hidden[..., head * size : (head + 1) * size] = 0
            return (hidden, *args[1:])

        handles.append(block.attention.output.dense.register_forward_pre_hook(zero))
    with torch.no_grad():
        probabilities = subject.logits(subject.inputs(subject.encode(text))).softmax(-1)[0]
    for handle in handles:
        handle.remove()
    return probabilities.tolist()


def test_the_effect_is_that_of_the_model_with_those_heads_zeroed(view, reviews):
    logits = reviews.logits(reviews.inputs(reviews.encode(TEXT)))
    view.kind, view.toggled, view.head = "all", [[0, 2], [5, 11]], [5, 11]
    effect = view.wait().effect
    off = ~view.mask.selected
    assert (effect.off, effect.total) == (2, 72)
    shares = [dict(effect.without.probabilities)[label] for label in reviews.labels]
    assert np.allclose(shares, zeroed_probabilities(reviews, TEXT, off), atol=1e-6)
    off[0, 2] = False
    shares = [dict(effect.alone.probabilities)[label] for label in reviews.labels]
    assert np.allclose(shares, zeroed_probabilities(reviews, TEXT, off), atol=1e-6)
    assert torch.equal(logits, reviews.logits(reviews.inputs(reviews.encode(TEXT)))), "the model is as before"


def test_the_map_of_a_long_text_is_left_out_of_static_pages(reviews):
    view = Heads(reviews, text="A warm and funny film. " * 10, head=[2, 1]).wait()
    page = view.render_html()
    assert len(view.attention.names) > 40 and "Block 2, head 1" in page
    assert page.count("<td") < 3 * len(view.attention.names)  # those of the grid of heads
    view.close()


def test_the_effect_of_switches_is_shown_with_the_scores(view):
    """A headline without it, for a moment, would not be true."""
    effects = []
    view.observe(lambda change: effects.append(view._effect.get("off")), "_rev")
    view.kind = "none"
    view.wait()
    assert effects and set(effects) == {72}


def test_the_page_has_words_for_every_choice_of_heads():
    mask = HeadMask([[1, 0, 0, 0]], {"obj": [[1, 1, 0, 0]]})
    every = heads_of_kind(mask, "all")
    grid = HeadGrid(mask, every)
    assert grid.kind_labels()["both"] == "Syntax and position" and grid.kind_labels()["only"].endswith("position")
    assert HeadGrid(HeadMask([[0, 0]]), every).kind_labels()["both"] == "The mask"
    toggled = [[], [[0, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 1], [0, 2]]]
    labels = [HeadGrid(mask, every, heads).toggled_label() for heads in toggled]
    assert labels == ["All", "All but 1", "All but 2", "1 of 4"]
    some = HeadGrid(mask, every, [[0, 0]])
    counts = [some.count(masked, measured) for masked in (True, False) for measured in (True, False)]
    assert counts[0] == some.caption() and len(set(counts)) == 3 and counts[2] == counts[3]
    assert grid.count(False, False) == grid.caption(), "all are on"


def test_the_classes_are_compared_while_a_head_is_off():
    shares = [("a", 0.8), ("b", 0.2)]
    effect = HeadEffect(1, 8, Without("b", [("b", 0.6), ("a", 0.4)]), Without("a", [("a", 0.7)]), (0, 1))
    traits = effect_traits(effect, "a", shares)
    assert traits["changes"] == [("a", 0.8, 0.4, "80.0", percent(0.4)), ("b", 0.2, 0.6, "20.0", percent(0.6))]
    assert traits["head"] == (0, 1) and traits["alone"].endswith(f"a 80.0 \u2192 {percent(0.7)}")
    assert effect_traits(effect, "c", shares)["alone"] == "" and effect_traits(None, "a", shares) == {}
    whole = HeadEffect(0, 8, Without("a", shares))
    assert [first for *_, first, _ in whole.changes(shares)] == ["", ""] and HeadEffect(0, 8).changes(shares) == []


def test_a_selection_in_the_page_is_answered_with_what_it_attends_to(view):
    view.head = [2, 1]
    attention = view.wait().attention
    row = attention.names.index("funny")
    best = attention.names[int(attention.words[row].argmax())]
    from_page(view, selection=attention.tokens[row])
    said = view._attended
    assert said["selection"] == attention.tokens[row]
    assert f"funny attends most to {best}, {percent(attention.words[row].max(), 0)}" in said["heading"]
    from_page(view, selection=[*attention.tokens[row], *attention.tokens[row + 1]])
    assert "2 words attend most to " in view._attended["heading"]
    from_page(view, selection=[])
    assert view._attended["heading"] == view._attention["heading"] and "here" in view._attention["heading"]


def test_a_text_without_a_map_says_why(reviews):
    view = Heads(reviews, text=TEXT, check=False).wait()
    assert view._attention["percentages"][30] == percent(0.3, 0) and len(view._attention["percentages"]) == 101
    assert view._heads["thresholds"] == [] and [len(names) for names in view._heads["names"]] == [6, 12]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbsal.widgets.heads.MAX_TOKENS", 3)
        patch.setattr("nbsal.widgets.content.head_parts.MAX_TOKENS", 3)
        view.text = "A warm and funny film."
        assert list(view.wait()._attention) == ["why"]


def test_attention_maps_are_freed_block_by_block(reviews, monkeypatch):
    """The maps of all blocks are held as bytes only."""
    records, record = [], trace.record_now
    monkeypatch.setattr(trace, "record_now", lambda *arguments: records.append(record(*arguments)) or records[-1])
    part = AttentionPanel(reviews)
    saliency = nbsal.Explainer(reviews, "gradcam")(TEXT)
    attention = part.compute(saliency, {"text": TEXT, "head": [2, 9]}, None)
    maps = [mapped for mapped in records if mapped.subject is reviews]
    assert len(maps) == 2 and not maps[-1].attention and attention.shares.dtype == np.uint8
    assert part.compute(saliency, {"text": TEXT, "head": [3, 1]}, None).head == (3, 1) and len(records) == 2


def test_spans_have_an_effect(load):
    view = Heads(load("bert", "span"), text=("Who ran?", "The old dog ran home."), kind="none").wait()
    assert view.effect.without.prediction and "heads off" in view.statement.text()


def test_what_a_head_attends_to_is_told_in_words():
    names, size = list("abcd"), 4
    assert mostly_attended(names, np.eye(size)) == "mostly itself"
    assert mostly_attended(names, np.eye(size, k=-1) * 0.9) == "mostly the word before"
    assert mostly_attended(names, np.full((size, size), 0.25)) == "spread over many words"
    some = np.array([[0.2, 0.4, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2], [0.7, 0.1, 0.1, 0.1]])
    assert mostly_attended(names, some) == "often b"


def test_the_attention_of_a_head_is_that_of_the_trace(view, reviews):
    view.head = [2, 9]
    sent = view.wait()._attention
    attention = nbsal.trace.record(reviews, reviews.encode(TEXT), needs={"attention"}).attention[2][0, 9].numpy()
    decoded = np.frombuffer(sent["map"], np.uint8).reshape(attention.shape) / 255 * sent["top"]
    assert sent["head"] == [2, 9] and np.abs(decoded - attention).max() <= 0.5 * sent["top"] / 255 + 1e-6
    view.text = "Dull."
    assert view.wait()._attention["size"] == len(view.result.tokens)


def test_a_mask_or_a_study_is_shown_without_a_model(reviews, study):
    assert Heads(reviews.mask).wait().to_frame()["on"].sum() == reviews.mask.selected.sum()
    view = Heads(study).wait()
    view.pos = 0.0
    assert view.wait().mask == study.mask(pos=0.0) and "block 5" in view.to_html()


@cases("head", [[6, 0], [0, 12], [-1, 0], [1], ["0", 1]])
def test_unknown_heads_are_refused(view, head):
    with refuses("head") as caught:
        view.head = head
    assert caught.value.value == head
    with refuses("toggled"):
        view.toggled = [head]


def test_toggling_keeps_reasons_and_toggling_twice_changes_nothing():
    mask = HeadMask([[1, 0, 0]], {"obj": [[1, 1, 0]]})
    once = toggle_heads(mask, [[0, 1], [0, 2]])
    assert once.selected.tolist() == [[True, False, True]] and once.relations["obj"].tolist() == [[True, False, False]]
    assert toggle_heads(once, [[0, 2]]).selected.tolist() == [[True, False, False]]
    assert toggle_heads(mask, [[0, 1], [0, 1]]) == mask
    assert heads_of_kind(mask, "positional").selected.tolist() == [[True, False, False]]


def test_exports_hold_text_and_heads(view):
    assert "funny" in view.to_html() and "block 5" in view.to_html() and view.to_png()[:4] == b"\x89PNG"
    assert view.to_frame()["token"].tolist() == list(view.result.tokens)
