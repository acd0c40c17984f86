"""Explainer: batches, layers, shared traces, progress and cancel."""

import threading

import numpy as np
import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.errors import Cancelled, InputError, ModelError, UnknownName
from nbsal.explainer import explain_batch, length_batches
from nbsal.model import long_texts
from tests import axioms, zoo

NAMES = ("gradcam", "simple", "gradxact", "decoded-gradcam", "decoded-simple", "decoded-gradxact")
TOGETHER = ("bert", "roberta", "albert", "deberta-v2", "modernbert", "gpt2", "llama")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_batches_and_padding(load, architecture, dtype):
    subject = load(architecture, dtype=dtype)
    for name in NAMES if architecture in ("bert", "llama") else ("gradxact", "decoded-gradcam"):
        explain = nbsal.Explainer(subject, name, layer=1)
        axioms.batch_equals_singles(explain)
        axioms.padding_is_invisible(explain)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("architecture", TOGETHER)
def test_every_layer_at_once(load, architecture, name):
    subject = load(architecture)
    axioms.every_layer_equals_single_layers([nbsal.Explainer(subject, name, layer=layer) for layer in range(subject.depth + 1)])


def leaky(self, trace):
    """A mutant whose scores see the rest of the batch."""
    features = trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]
    return features - features.mean((0, 1), keepdim=True)


def test_the_axioms_catch_a_leak(load, monkeypatch):
    explain = nbsal.Explainer(load("bert"), "gradxact", layer=1)
    monkeypatch.setattr(nbsal.GradientXActivation, "features", leaky)
    with pytest.raises(AssertionError):
        axioms.batch_equals_singles(explain)
    with pytest.raises(AssertionError):
        axioms.padding_is_invisible(explain)


def test_the_axioms_catch_a_model_that_sees_its_padding(load, monkeypatch):
    explain = nbsal.Explainer(load("bert"), "gradxact", layer=1)
    seeing = property(lambda encoded: np.ones_like(encoded.input_ids))
    monkeypatch.setattr(nbsal.Encoded, "attention_mask", seeing)
    with pytest.raises(AssertionError):
        axioms.padding_is_invisible(explain)


def test_the_layer_axiom_catches_shifted_layers(load):
    subject = load("bert")
    shifted = [nbsal.Explainer(subject, "gradxact", layer=layer) for layer in (1, 0, 2, 3)]
    with pytest.raises(AssertionError):
        axioms.every_layer_equals_single_layers(shifted)


def test_compare_runs_the_model_once_a_batch(load, forwards):
    subject = load("bert")
    many = nbsal.compare(subject, list(NAMES), axioms.TEXTS, progress=False)
    assert len(forwards) == 1
    assert list(many) == list(NAMES)
    for name in NAMES:
        for text, one in zip(axioms.TEXTS, many[name], strict=True):
            assert axioms.relative(one.scores, nbsal.Explainer(subject, name)(text).scores) < 1e-10


def test_every_layer_is_one_forward(load, forwards):
    nbsal.Explainer(load("bert"), "decoded-gradcam").every_layer(axioms.TEXTS[0])
    assert len(forwards) == 1


def test_compare_takes_named_instances(load):
    subject = load("bert")
    methods = {"early": nbsal.Decoded(nbsal.GradCAM(layer=1)), "late": nbsal.Decoded(nbsal.GradCAM(layer=3))}
    many = nbsal.compare(subject, methods, axioms.TEXTS[0])
    assert [len(found) for found in many.values()] == [1, 1]
    assert not np.allclose(many["early"][0].scores, many["late"][0].scores)
    with pytest.raises(InputError, match="dict"):
        nbsal.compare(subject, list(methods.values()), axioms.TEXTS)


def test_map_reads_a_generator_and_keeps_the_order(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    texts = [f"{text} {n}" for n in range(20) for text in axioms.TEXTS]
    found = explain.map((text for text in texts), batch_size=1, progress=False)
    assert [one.text for one in found] == texts


def test_map_with_a_target_for_each_text(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    found = explain.map(axioms.TEXTS[:3], targets=["LABEL_0", 1, None], progress=False)
    assert [one.target for one in found][:2] == ["LABEL_0", "LABEL_1"]
    assert found[2].target == found[2].prediction
    assert {one.target for one in explain.map(axioms.TEXTS, targets="LABEL_2", progress=False)} == {"LABEL_2"}
    with pytest.raises(InputError, match="1 targets for 4 texts"):
        explain.map(axioms.TEXTS, targets=[0], progress=False)
    with pytest.raises(InputError, match="fewer"):
        explain.map(iter(axioms.TEXTS), targets=[0], progress=False)
    assert explain.map(axioms.TEXTS, targets=np.array([0, 1, 2, 0]), progress=False)[2].target == "LABEL_2"


def test_long_texts_count_for_several_in_a_batch(load):
    subject = load("bert", decoding=False, max_position_embeddings=300)
    subject.tokenizer.model_max_length = 300
    encoded = subject.encode(["a " * 254] * 20 + ["A joy."] * 40)
    assert encoded.longest == 256

    def sizes(*names):
        explainers = [nbsal.Explainer(subject, name) for name in names]
        return [len(batch) for _, batch in length_batches(explainers, encoded, 32)]

    assert sizes("gradcam") == [32, 8, 16, 4] and sizes("gradcam", "lrp") == [32, 8, 8, 8, 4]


def test_no_batch_is_mostly_padding(load):
    subject = load("bert", decoding=False)
    encoded = subject.encode(["A joy."] * 20 + ["a " * 60])
    assert [len(batch) for _, batch in length_batches([nbsal.Explainer(subject, "gradcam")], encoded, 32)] == [20, 1]
    assert [len(batch) for _, batch in length_batches([nbsal.Explainer(subject, "gradcam")], encoded[17:], 32)] == [4]


def test_progress_counts_texts(load):
    seen = []
    report = lambda done, total: seen.append((done, total))  # noqa: E731
    nbsal.Explainer(load("bert"), "gradcam").map(axioms.TEXTS, batch_size=2, progress=report)
    assert seen == [(2, 4), (4, 4)]


def test_cancel_stops_between_batches_and_keeps_what_is_done(load):
    cancel = threading.Event()
    stop = lambda done, total: cancel.set()  # noqa: E731
    explain = nbsal.Explainer(load("bert"), "gradcam")
    with pytest.raises(Cancelled, match="after 1 of 4") as caught:
        explain.map(axioms.TEXTS, batch_size=1, progress=stop, cancel=cancel)
    assert [one.text for one in caught.value.partial] == ["A bore."]


SEVERAL_RUNS = ("smooth", "integrated", "gradient-shap", "deeplift-shap", "occlusion", "simple@allennlp")


def test_a_decoder_without_padding_id_is_explained_one_by_one(load):
    subject = load("gpt2")
    subject.model.config.pad_token_id, before = None, subject.model.config.pad_token_id
    try:
        assert subject.unbatchable
        assert len(nbsal.Explainer(subject, "gradcam").map(axioms.TEXTS, progress=False)) == len(axioms.TEXTS)
        bare = {name: nbsal.Explainer(subject, name)(axioms.TEXTS[0]).scores for name in SEVERAL_RUNS}
        with pytest.raises(ModelError, match=r"set a decoder's model\.config\.pad_token_id, or take occlusion\."):
            nbsal.Explainer(subject, "occlusion@thermostat")
    finally:
        subject.model.config.pad_token_id = before
    for name, scores in bare.items():
        assert axioms.relative(scores, nbsal.Explainer(subject, name)(axioms.TEXTS[0]).scores) < 1e-6, name


def test_layer_none_is_the_default_layer(load):
    subject = load("bert")
    assert subject.default_layer == round(0.6 * subject.depth)
    assert nbsal.Explainer(subject, "decoded-gradcam").method.layer == subject.default_layer
    assert nbsal.Explainer(subject, "gradcam").method.layer == 0
    assert nbsal.Explainer(subject, "gradcam", layer=None).method.layer == subject.default_layer


def test_wrong_names_list_the_valid_ones(load):
    subject = load("bert")
    with pytest.raises(UnknownName, match="decoded-gradcam"):
        nbsal.Explainer(subject, "grad-cam")
    with pytest.raises(UnknownName, match="0, 1, 2, 3"):
        nbsal.Explainer(subject, "gradcam", layer=4)
    with pytest.raises(UnknownName, match=r"norm 3\. Valid: 1, 2"):
        nbsal.Explainer(subject, "simple", norm=3)
    with pytest.raises(UnknownName, match=r"start_layer 3\. Valid: 0, 1, 2"):
        nbsal.Explainer(subject, "transformer-attribution", start_layer=3)
    with pytest.raises(UnknownName, match=r"dtype of relevance 'float32'\. Valid: float64, model"):
        nbsal.Explainer(subject, "lrp", dtype="float32")
    with pytest.raises(InputError, match="settings"):
        nbsal.Explainer(subject, "gradcam", lair=4)
    with pytest.raises(InputError, match="GradCAM"):
        nbsal.Explainer(subject, nbsal.GradCAM(), layer=4)
    with pytest.raises(UnknownName, match="truncate, window"):
        nbsal.Explainer(subject, "gradcam", long="cut")
    with pytest.raises(UnknownName, match="part of a trace"):
        trace.record(subject, subject.encode("A joy."), needs=["hiden"])


def test_ids_are_explained_as_the_text_they_spell(load):
    explain = nbsal.Explainer(load("bert"), "decoded-gradcam")
    by_text = explain(axioms.TEXTS[0])
    by_ids = explain.ids(by_text.row.ids)
    assert axioms.relative(by_ids.scores, by_text.scores) < 1e-12
    assert [by_ids.text[a:b] for a, b in by_ids.offsets][1:4] == ["the", "fi", "l"]
    assert by_ids.special.tolist() == by_text.special.tolist()


def test_hidden_positions_are_left_out_of_the_order(load):
    explain = nbsal.Explainer(load("bert"), "gradxact")
    ids = explain(axioms.TEXTS[0]).row.ids
    mask = [1] * len(ids)
    mask[3] = 0
    hidden = explain.ids(ids, attention_mask=mask)
    assert 3 not in hidden.order
    assert not np.allclose(hidden.scores, explain.ids(ids).scores)


LONG_TEXT = " ".join(axioms.TEXTS * 5)


def test_long_texts_by_windows(load):
    subject = load("bert")
    cut = nbsal.Explainer(subject, "gradxact")(LONG_TEXT)
    assert cut.row.dropped > 0 and "Cut" in cut.to_html() and cut.provenance["dropped"] == cut.row.dropped
    explain = nbsal.Explainer(subject, "gradxact", long="window")
    whole = explain(LONG_TEXT)
    assert whole.row.dropped == 0 and whole.provenance["windows"] > 2
    assert len(whole.tokens) == len(cut.tokens) + cut.row.dropped
    assert "overlapping windows" in whole.to_html()
    # Tokens of the first half window are read once, by the first window, which the cut text is.
    first = nbsal.Explainer(subject, "gradxact")(LONG_TEXT, target=whole.target).scores
    assert axioms.relative(whole.scores[1:30], first[1:30]) < 1e-10
    assert axioms.relative(explain.map([LONG_TEXT], progress=False)[0].scores, whole.scores) < 1e-12
    assert explain("A bore.").provenance.get("windows") is None


def reading(monkeypatch):
    """The texts that explainers read, by their tokens' number."""
    seen, read = [], nbsal.Explainer.from_trace
    monkeypatch.setattr(
        nbsal.Explainer, "from_trace", lambda s, t: seen.append([len(r) for r in t.encoded]) or read(s, t)
    )
    return seen


def test_long_texts_are_never_read_cut_first(load, monkeypatch):
    """Among others they go by windows at once, counted once each."""
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    pieces = [[len(piece)] for piece in long_texts.split_text(explain.subject, LONG_TEXT).encoded]
    alone, seen, counts = explain(LONG_TEXT), reading(monkeypatch), []
    report = lambda *step: counts.append(step)  # noqa: E731
    found = explain.map(["A bore.", LONG_TEXT, "A joy."], progress=report)
    assert [len(one) for one in seen] == [2] + [1] * len(pieces) and seen[1:] == pieces
    assert [one.provenance.get("windows", 1) for one in found] == [1, len(pieces), 1]
    assert axioms.relative(found[1].scores, alone.scores) < 1e-12
    assert counts == [(2, 3), (3, 3)]


@pytest.mark.parametrize("done", [1, 2])
def test_cancel_within_a_long_text_keeps_what_is_done(load, monkeypatch, done):
    cancel, read, seen = threading.Event(), nbsal.Explainer.from_trace, []
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    last = 2 + (done - 1) * len(long_texts.split_text(explain.subject, LONG_TEXT).places)  # the first window of a text

    def reads(explainer, trace):
        seen.append(trace)
        if len(seen) == last:
            cancel.set()
        return read(explainer, trace)

    monkeypatch.setattr(nbsal.Explainer, "from_trace", reads)
    with pytest.raises(Cancelled, match=f"after {done} of 3") as caught:
        explain.map(["A bore.", LONG_TEXT, LONG_TEXT], progress=False, cancel=cancel)
    assert [one.provenance.get("windows", 1) > 1 for one in caught.value.partial] == [False, True][:done]
    assert len(seen) == last


def test_a_batch_beside_windows_stays_a_batch(load, forwards):
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    texts = [LONG_TEXT, "A bore.", "A warm and funny joy."]
    found = explain_batch({"": explain}, explain.subject.encode(texts), [0, 0, 0])[""]
    assert len(forwards) == 1 + len(long_texts.split_text(explain.subject, LONG_TEXT).places)
    for text, one in zip(texts, found, strict=True):
        assert axioms.relative(one.scores, explain(text, target=0).scores) < 1e-5


def test_who_cuts_and_who_reads_by_windows_go_together(load):
    members = {long: nbsal.Explainer(load("bert"), "gradxact", long=long) for long in ("truncate", "window")}
    found = explain_batch(members, load("bert").encode([LONG_TEXT, "A bore."]), [0, 0])
    for name, explain in members.items():
        for text, one in zip([LONG_TEXT, "A bore."], found[name], strict=True):
            assert axioms.relative(one.scores, explain(text, target=0).scores) < 1e-5
    assert len(found["truncate"][0].row) < len(found["window"][0].row)


def test_windows_begin_behind_what_the_tokenizer_added(load):
    """Special tokens that were typed are part of the text, wherever they stand."""
    subject = load("bert")
    found = long_texts.split_text(subject, "[SEP] [SEP] " + LONG_TEXT)
    assert all(max(map(len, found.places)) <= subject.max_length for _ in found.places)
    assert sorted({place for places in found.places for place in places}) == list(range(len(found.row)))
    assert all(piece.tokens[0] == "[CLS]" and piece.tokens[-1] == "[SEP]" for piece in found.encoded)
    assert found.encoded[0].tokens[1] == "[SEP]" and nbsal.Explainer(subject, "gradcam", long="window")(LONG_TEXT)


def test_windows_are_for_decisions_about_single_texts(load):
    for architecture, head, target in (("bert", "token", (3, 0)), ("gpt2", "causal", None)):
        with pytest.raises(InputError, match="single texts"):
            nbsal.Explainer(load(architecture, head), "gradcam", long="window")(LONG_TEXT, target=target)
    explain = nbsal.Explainer(load("bert"), "gradcam", long="window")
    assert explain(("A joy.", "A bore.")).row.parts == ("A joy.", "A bore.")
    with pytest.raises(InputError, match="single texts"):
        explain(("A joy.", LONG_TEXT))
    with pytest.raises(InputError, match="one window only"):
        explain.every_layer(LONG_TEXT)


def test_windows_of_a_one_logit_head_average_its_output(load):
    explain = nbsal.Explainer(load("bert", num_labels=1), "gradcam", long="window")
    pieces = long_texts.split_text(explain.subject, LONG_TEXT)
    values = [float(explain.ids(piece.ids).prediction) for piece in pieces.encoded]
    assert float(explain(LONG_TEXT).prediction) == pytest.approx(np.mean(values), rel=1e-3)


MISTAKES = [
    (lambda s: nbsal.Explainer("demo/reviews", "gradcam"), "nbsal.load"),
    (lambda s: nbsal.Explainer(s, nbsal.GradCAM), "instance"),
    (lambda s: nbsal.Explainer(s, None), "instance"),
    (lambda s: nbsal.Explainer(s, nbsal.Decoded("gradcam")), "layer method"),
    (lambda s: nbsal.Explainer(s, nbsal.Decoded(nbsal.Decoded())), "layer method"),
    (lambda s: nbsal.Explainer(s, "decoded-gradcam", tau="3"), "whole number"),
    (lambda s: nbsal.Explainer(s, "gradcam", layer=True), "whole number"),
    (lambda s: nbsal.Explainer(s, "transformer-attribution", start_layer=1.0), "start_layer must be a whole number"),
    (lambda s: nbsal.Explainer(s, "lime@thermostat", samples=0), "samples must be at least 1"),
    (lambda s: nbsal.Explainer(s, "shapley@thermostat", samples=0), "samples must be at least 1"),
    (lambda s: nbsal.Explainer(s, "gradcam").ids([[2, 9, 3], [2, 10, 3]]), "one sequence, not 2"),
    (lambda s: nbsal.Explainer(s, "gradcam").map("A joy."), "list of texts"),
    (lambda s: nbsal.Explainer(s, "gradcam").map(["A joy."], batch_size=0), "batch_size"),
    (lambda s: nbsal.Explainer(s, "gradcam").map(["A joy."], batch_size="3"), "batch_size"),
    (lambda s: nbsal.Explainer(s, "gradcam")(["A joy."]), "explain.map"),
    (lambda s: nbsal.Explainer(s, "gradcam").every_layer(["A joy."]), "explain.map"),
    (lambda s: nbsal.Explainer(s, "rollout").every_layer("A joy."), "no layers"),
    (lambda s: nbsal.compare(s, [], ["A joy."]), "no method"),
    (lambda s: nbsal.Explainer(s, "gradcam").map(["A joy."] * 40 + [" "], batch_size=1, progress=False), "Text 40"),
]


@pytest.mark.parametrize(("mistake", "sentence"), MISTAKES)
def test_mistakes_are_sentences(load, mistake, sentence):
    with pytest.raises(InputError, match=sentence):
        mistake(load("bert"))


def test_what_was_done_before_a_bad_text_is_kept(load):
    with pytest.raises(InputError) as caught:
        nbsal.Explainer(load("bert"), "gradcam").map(["A joy."] * 40 + [" "], batch_size=1, progress=False)
    assert len(caught.value.partial) == 32


def test_settings_of_numpy_are_saved_as_plain_numbers(load, tmp_path):
    found = nbsal.Explainer(load("bert"), "decoded-gradcam", layer=np.int64(1), tau=np.int64(3))("A joy.")
    found.save(tmp_path / "s.json")
    assert nbsal.Saliency.load(tmp_path / "s.json").provenance["parameters"]["tau"] == 3


def test_scores_that_are_not_numbers_are_refused(load):
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    explain = nbsal.Explainer(subject, "gradcam")
    with torch.no_grad():
        subject.model.classifier.weight.fill_(torch.inf)
    with pytest.raises(ModelError, match="NaN or infinite"):
        explain("A joy.")


def test_nothing_gives_nothing(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    found = explain.map([], progress=False)
    assert len(found) == 0 and found.to_frame().empty
    assert list(found.to_frame()) == list(explain.map(["A joy."], progress=False).to_frame())
