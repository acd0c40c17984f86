"""The Heads view: switched heads change Mask-LRP, a study has thresholds, and a head has an attention map."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.heads import HeadMask, Parse
from nbsal.render import html
from nbsal.render.headline import percent, plain
from nbsal.widgets import Heads
from nbsal.widgets.head_grid import HeadGrid, heads_of_kind, toggle_heads
from nbsal.widgets.head_parts import ZEROED, AttentionPart, HeadEffect, mostly_attended
from tests.browser.bench import drawn_texts
from tests.raising import refuses
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
    heads = Heads(reviews, text=TEXT).wait()
    yield heads
    heads.close()


@pytest.fixture
def grids_displayed(view):
    """The grid in the page each time that something is displayed."""
    grids = []
    view.observe(lambda change: grids.append(view._heads), "_rev")
    return grids


def explained_scores(reviews, mask):
    return nbsal.Explainer(reviews, "mask-lrp", mask=mask)(TEXT).scores.tolist()


def test_the_models_own_mask_is_on(view, reviews):
    assert view.mask == reviews.mask
    assert view.result.scores.tolist() == explained_scores(reviews, reviews.mask)
    assert np.array(view._heads["on"]).tolist() == reviews.mask.selected.astype(int).tolist()


def test_a_click_in_the_page_runs_mask_lrp_again(view, reviews):
    from_page(view, toggled=[[0, 2], [5, 11]])
    expected = reviews.mask.selected.copy()
    expected[0, 2], expected[5, 11] = False, True
    assert view.mask.selected.tolist() == expected.tolist()
    assert view.wait().result.scores.tolist() == explained_scores(reviews, view.mask)
    assert view.result.scores.tolist() != explained_scores(reviews, reviews.mask)


@pytest.mark.parametrize("kind", ["both", "syntactic", "positional", "none", "all"])
def test_a_kind_switches_on_its_heads_alone(view, reviews, kind):
    view.kind = kind
    mask = reviews.mask
    parts = {"both": mask.selected, "syntactic": mask.syntactic, "positional": mask.positional}
    parts["all"] = np.ones(mask.shape, bool)
    expected = parts.get(kind, np.zeros(mask.shape, bool))
    assert view.mask.selected.tolist() == expected.tolist()
    assert view.wait().result.scores.tolist() == explained_scores(reviews, view.mask)


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
    names = [entry["name"] for entry in view.handle_methods(view._choices["methods"])]
    assert names == ["mask-lrp", "mask-lrp@published", "mask-lrp@equations"]


def test_an_explainer_of_another_method_only_passes_its_model(reviews):
    assert Heads(nbsal.Explainer(reviews, "gradcam"), text=TEXT).wait().result.method == "mask-lrp"


def test_a_model_without_a_mask_begins_with_all_heads(load):
    view = Heads(load("bert"), text="The film is a joy.").wait()
    assert view.kind == "all" and view.mask.selected.all() and view.effect.off == 0
    assert not view._heads["named"] and "nbsal.heads.study(subject, parses)" in view.to_html()
    view.toggled = [[1, 2]]
    assert (~view.wait().mask.selected).sum() == view.effect.off == 1


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
    shares = [share for _, share in effect.without.probabilities]
    assert np.allclose(shares, zeroed_probabilities(reviews, TEXT, off), atol=1e-6)
    off[0, 2] = False
    shares = [share for _, share in effect.alone.probabilities]
    assert np.allclose(shares, zeroed_probabilities(reviews, TEXT, off), atol=1e-6)
    assert torch.equal(logits, reviews.logits(reviews.inputs(reviews.encode(TEXT)))), "the model is as before"
    assert effect.alone_words(view.result).startswith("With this head alone off: positive 9")
    assert HeadEffect(0, 72).alone_words(view.result) == ""


def test_the_map_of_a_long_text_is_left_out_of_static_pages(reviews):
    view = Heads(reviews, text="A warm and funny film. " * 10, head=[2, 1]).wait()
    page = view.render_html()
    assert len(view.attention.names) > 40 and "Block 2, head 1" in page
    assert page.count("<td") < 3 * len(view.attention.names)  # those of the grid of heads
    view.close()


def test_a_picture_says_what_was_not_read(reviews, monkeypatch):
    texts = drawn_texts(monkeypatch)
    view = Heads(reviews, text="A warm and funny film. " * 120).wait()
    (note,) = [note for note in view.result.notes() if "not read" in note]
    view.to_png()
    assert any(note in " ".join(text.get_text().split()) for text in texts)


def test_the_headline_compares_before_and_after(view):
    view.kind, view.toggled = "all", [[0, 2], [2, 1], [3, 9], [5, 4], [5, 5], [5, 11]]
    sentence = plain(view.wait().sentence())
    after = dict(view.effect.without.probabilities)["positive"]
    assert f" → {percent(after)} with 6 of 72 heads off — among the words, because of" in sentence
    assert html.escape(sentence.split(" — ")[1][:20]) in view.to_html() and ZEROED in view.to_html()
    assert view._result["notes"][-1] == ZEROED
    view.toggled = []
    assert "off" not in plain(view.wait().sentence()) and ZEROED not in view._result["notes"]


def test_the_effect_of_switches_is_shown_with_the_scores(view, grids_displayed):
    """A headline without it, for a moment, would not be true."""
    effects = []
    view.observe(lambda change: effects.append(view._effect.get("off")), "_rev")
    view.kind = "none"
    view.wait()
    assert effects and set(effects) == {72}


def test_the_model_runs_without_heads_only_if_some_are_off(reviews, monkeypatch):
    """With every head on, the decision is the one that the scores come with."""
    off, decide = [], trace.decide_without_heads
    monkeypatch.setattr(
        trace, "decide_without_heads", lambda *arguments: off.append(int(arguments[3].sum())) or decide(*arguments)
    )
    view = Heads(reviews, text=TEXT, kind="all", head=[2, 9]).wait()
    assert off == [1], "the chosen head alone"
    assert view.effect.without.prediction == view.result.prediction
    assert [share for _, share in view.effect.without.probabilities] == pytest.approx(view.result.probabilities)
    view.toggled = [[0, 0]]
    assert view.wait().effect.off == 1 and off == [1, 1]


def test_attention_maps_are_freed_block_by_block(reviews, monkeypatch):
    """The maps of all blocks are held as bytes only."""
    records, record = [], trace.record
    monkeypatch.setattr(
        trace, "record", lambda *arguments, **settings: records.append(record(*arguments, **settings)) or records[-1]
    )
    part = AttentionPart(reviews)
    saliency = nbsal.Explainer(reviews, "gradcam")(TEXT)
    attention = part.compute(saliency, {"text": TEXT, "head": [2, 9]}, None)
    maps = [mapped for mapped in records if mapped.subject is reviews]
    assert len(maps) == 2 and not maps[-1].attention and attention.shares.dtype == np.uint8
    assert part.compute(saliency, {"text": TEXT, "head": [3, 1]}, None).head == (3, 1) and len(records) == 2


@pytest.mark.parametrize("name", ["demo/answers", "demo/news"])
def test_other_tasks_have_an_effect(name):
    subject = nbsal.load(name)
    text = ("Who ran?", "The old dog ran home.") if name == "demo/answers" else "The old dog ran home."
    view = Heads(subject, text=text, kind="none").wait()
    assert view.effect.without.prediction and "heads off" in plain(view.sentence())
    view.close()  # frees the model


def test_the_first_named_head_is_chosen(view, reviews):
    assert view.head == np.argwhere(reviews.mask.syntactic)[0].tolist()


def test_attention_is_told_by_words(view, reviews):
    view.head = [2, 9]
    attention = view.wait().attention
    assert attention.names == ["[CLS]", "A", "warm", "and", "oddly", "funny", "film", ".", "[SEP]"]
    assert np.allclose(attention.words.sum(1), 1, atol=0.02)
    block = f"Block 2, head 9: {view.grid.habits()[2][9]}; here {attention.here}"
    assert html.escape(block) in view.to_html()


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


def test_choosing_a_head_does_not_explain_again(view):
    before = view.result
    view.head = [1, 1]
    assert view.wait().result is before


def test_a_mask_or_a_study_is_shown_without_a_model(reviews, study):
    assert Heads(reviews.mask).wait().to_frame()["on"].sum() == reviews.mask.selected.sum()
    view = Heads(study).wait()
    view.pos = 0.0
    assert view.wait().mask == study.mask(pos=0.0) and "block 5" in view.to_html()


@pytest.mark.parametrize("head", [[6, 0], [0, 12], [-1, 0], [1], ["0", 1]])
def test_unknown_heads_are_refused(view, head):
    with refuses("head") as caught:
        view.head = head
    assert caught.value.value == head
    with refuses("toggled"):
        view.toggled = [head]


def test_a_text_without_a_model_is_refused(reviews):
    with refuses("source"):
        Heads(nbsal.Explainer(reviews, "gradcam")(TEXT))


def test_the_grid_stays_while_the_text_is_explained_again(view, grids_displayed):
    """A grid that vanished at a click would lose the keyboard focus."""
    view.toggled = [[0, 2]]
    view.wait()
    assert grids_displayed and all(grid["kinds"] for grid in grids_displayed)


def test_toggling_keeps_reasons_and_toggling_twice_changes_nothing():
    mask = HeadMask([[1, 0, 0]], {"obj": [[1, 1, 0]]})
    once = toggle_heads(mask, [[0, 1], [0, 2]])
    assert once.selected.tolist() == [[True, False, True]] and once.relations["obj"].tolist() == [[True, False, False]]
    assert toggle_heads(once, [[0, 2]]).selected.tolist() == [[True, False, False]]
    assert toggle_heads(mask, [[0, 1], [0, 1]]) == mask
    assert heads_of_kind(mask, "positional").selected.tolist() == [[True, False, False]]


def test_the_grid_describes_each_head(reviews):
    frame = HeadGrid(reviews.mask, heads_of_kind(reviews.mask, "syntactic")).to_frame()
    assert frame.loc[frame["kind"] == "positional", "on"].sum() == 0
    assert set(frame.loc[frame["on"], "attends_to"]) <= {"subject of its verb", "object of its verb"}


def test_cells_name_relations():
    mask = HeadMask([[1, 0, 0, 0, 0]], {"nsubj": [[0, 1, 0, 0, 0]], "det": [[0, 0, 1, 0, 0]]}, [[0, 0, 0, 1, 0]])
    grid = HeadGrid(mask, mask)
    assert grid.words() == [[["place", "fix"], ["subject", "sub"], ["det", "det"], [], []]]
    habits = ["often at a fixed place", "often the subject of a verb", "often a det", "chosen by you"]
    assert grid.habits() == [[*habits, "no known pattern"]]
    assert "<s>off</s>" in grid.to_html() and "<s>place</s>" not in grid.to_html()
    assert "<s>place</s>" in HeadGrid(mask, heads_of_kind(mask, "none")).to_html()


def test_a_study_tells_shares(reviews, study):
    grid = HeadGrid(study.mask(pos=0.3), study.mask(pos=0.3), study=study)
    assert "word before in" in str(grid.descriptions()) or "next token in" in str(grid.descriptions())
    assert grid.notes()[-1].startswith("shares of")
    assert "often the" in str(grid.habits())


def test_exports_hold_text_and_heads(view):
    assert "funny" in view.to_html() and "block 5" in view.to_html() and view.to_png()[:4] == b"\x89PNG"
    assert view.to_frame()["token"].tolist() == list(view.result.tokens)


def test_a_saved_saliency_records_which_heads_were_on(view, tmp_path):
    view.result.save(tmp_path / "s.json")
    provenance = nbsal.Saliency.load(tmp_path / "s.json").provenance
    assert provenance["heads"] == np.argwhere(view.mask.selected).tolist()
    assert provenance["parameters"]["mask"] == repr(view.mask) and "array" not in " ".join(view.result.notes())
