"""Test Explainer: batches, layers, shared traces, progress, cancellation and long texts."""

import threading

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.batches import batches_for, explain_batch
from nbsal.model.text import long_texts
from nbsal.passes import trace
from nbsal.support.errors import Cancelled, InputError, ModelError, UnknownName
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses

NAMES = ("gradcam", "simple", "gradxact", "decoded-gradcam", "decoded-simple", "decoded-gradxact")
BATCHED = ("bert", "roberta", "albert", "deberta-v2", "modernbert", "gpt2", "llama")


@pytest.mark.some(5)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_batches_and_padding(load, architecture, dtype):
    subject = load(architecture, dtype=dtype)
    for name in NAMES if architecture in ("bert", "llama") else ("gradxact", "decoded-gradcam"):
        explain = nbsal.Explainer(subject, name, layer=1)
        axioms.batch_equals_singles(explain)
        axioms.padding_is_invisible(explain)


@pytest.mark.some(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("architecture", BATCHED)
def test_every_layer_at_once(load, architecture, name):
    subject = load(architecture)
    axioms.every_layer_is_exact([nbsal.Explainer(subject, name, layer=layer) for layer in range(subject.depth + 1)])


def leaky(self, trace):
    """A mutant whose scores depend on the rest of the batch."""
    features = trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]
    return features - features.mean((0, 1), keepdim=True)


def test_the_axioms_catch_mistakes(load, monkeypatch):
    """A leak within a batch, a model that attends to padding, layers in another order."""
    subject = load("bert")
    explain = nbsal.Explainer(subject, "gradxact", layer=1)
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(nbsal.GradientXActivation, "features", leaky)
        axioms.batch_equals_singles(explain)
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(nbsal.Encoded, "attention_mask", property(lambda encoded: np.ones_like(encoded.input_ids)))
        axioms.padding_is_invisible(explain)
    with pytest.raises(AssertionError):
        axioms.every_layer_is_exact([nbsal.Explainer(subject, "gradxact", layer=layer) for layer in (1, 0, 2, 3)])


def test_one_forward_serves_all_methods_and_layers(load, forwards):
    subject = load("bert")
    many = nbsal.compare(subject, list(NAMES), axioms.TEXTS, progress=False)
    assert len(forwards) == 1 and list(many) == list(NAMES)
    for name in NAMES:
        for text, saliency in zip(axioms.TEXTS, many[name], strict=True):
            assert axioms.relative(saliency.scores, nbsal.Explainer(subject, name)(text).scores) < 1e-10
    before = len(forwards)
    nbsal.Explainer(subject, "decoded-gradcam").every_layer(axioms.TEXTS[0])
    assert len(forwards) == before + 1


def test_compare_names_models_and_instances(load):
    models = {"before": load("bert"), "after": load("roberta")}
    many = nbsal.compare(models, "gradxact", iter(axioms.TEXTS), progress=False)
    for name, subject in models.items():
        alone = nbsal.Explainer(subject, "gradxact")(axioms.TEXTS[1])
        assert axioms.relative(many[name][1].scores, alone.scores) < 1e-10
    both = nbsal.compare(models, ["gradxact", "simple"], axioms.TEXTS[0], progress=False)
    assert list(both) == ["before: gradxact", "before: simple", "after: gradxact", "after: simple"]
    methods = {"early": nbsal.Decoded(nbsal.GradCAM(layer=1)), "late": nbsal.Decoded(nbsal.GradCAM(layer=3))}
    instances = nbsal.compare(load("bert"), methods, axioms.TEXTS[0])
    assert not np.allclose(instances["early"][0].scores, instances["late"][0].scores)
    with refuses("methods"):
        nbsal.compare(load("bert"), list(methods.values()), axioms.TEXTS)
    with refuses("subject"):
        nbsal.compare({}, "gradcam", axioms.TEXTS)


def test_map_consumes_a_generator_keeps_the_order_and_counts_texts(load):
    explain, reports = nbsal.Explainer(load("bert"), "gradcam"), []
    texts = [f"{text} {n}" for n in range(10) for text in axioms.TEXTS]
    saliencies = explain.map((text for text in texts), batch_size=1, progress=False)
    assert [saliency.text for saliency in saliencies] == texts
    explain.map(axioms.TEXTS, batch_size=2, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(2, 4), (4, 4)]
    empty = explain.map([], progress=False)
    assert len(empty) == 0 and empty.to_frame().empty
    assert list(empty.to_frame()) == list(explain.map(["A joy."], progress=False).to_frame())


def test_map_with_a_target_for_each_text(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    saliencies = explain.map(axioms.TEXTS[:3], targets=["LABEL_0", 1, None], progress=False)
    assert [saliency.target for saliency in saliencies][:2] == ["LABEL_0", "LABEL_1"]
    assert saliencies[2].target == saliencies[2].prediction
    assert {saliency.target for saliency in explain.map(axioms.TEXTS, targets="LABEL_2", progress=False)} == {"LABEL_2"}
    with refuses("targets"):
        explain.map(axioms.TEXTS, targets=[0], progress=False)
    with refuses("targets"):
        explain.map(iter(axioms.TEXTS), targets=[0], progress=False)
    assert explain.map(axioms.TEXTS, targets=np.array([0, 1, 2, 0]), progress=False)[2].target == "LABEL_2"


def test_batches_of_long_texts_are_smaller(load):
    subject = load("bert", decoding=False, max_position_embeddings=300)
    subject.tokenizer.model_max_length = 300
    encoded = subject.encode(["a " * 254] * 20 + ["A joy."] * 40)
    assert encoded.longest == 256

    def sizes(*names):
        explainers = {name: nbsal.Explainer(subject, name) for name in names}
        return [len(batch) for batch in batches_for(explainers, encoded, 32)]

    assert sizes("gradcam") == [32, 8, 16, 4] and sizes("gradcam", "lrp") == [32, 8, 8, 8, 4]
    subject = load("bert", decoding=False)
    encoded, explainers = subject.encode(["A joy."] * 20 + ["a " * 60]), {"": nbsal.Explainer(subject, "gradcam")}
    assert [len(batch) for batch in batches_for(explainers, encoded, 32)] == [20, 1], "mostly padding"
    assert [len(batch) for batch in batches_for(explainers, encoded[17:], 32)] == [4]


def test_cancelling_stops_between_batches_and_keeps_the_results(load):
    cancel = threading.Event()
    stop = lambda done, total: cancel.set()  # noqa: E731
    explain = nbsal.Explainer(load("bert"), "gradcam")
    with pytest.raises(Cancelled) as caught:
        explain.map(axioms.TEXTS, batch_size=1, progress=stop, cancel=cancel)
    assert [saliency.text for saliency in caught.value.partial] == ["A bore."]


def test_texts_of_a_decoder_without_padding_id_are_explained_one_by_one(load):
    subject = load("gpt2")
    subject.model.config.pad_token_id, before = None, subject.model.config.pad_token_id
    try:
        assert subject.unbatchable
        many = nbsal.Explainer(subject, "integrated", steps=4).map(axioms.TEXTS[:2], progress=False)
        with pytest.raises(ModelError):
            nbsal.Explainer(subject, "occlusion@thermostat")
    finally:
        subject.model.config.pad_token_id = before
    for text, saliency in zip(axioms.TEXTS, many, strict=False):
        assert axioms.relative(saliency.scores, nbsal.Explainer(subject, "integrated", steps=4)(text).scores) < 1e-6


@cases("name, options, layer", [("gradcam", {}, 2), ("gradcam", {"layer": 0}, 0), ("gradxact", {"layer": None}, 2)])
def test_layer_none_is_the_default_layer(load, name, options, layer):
    assert load("bert").default_layer == round(0.6 * load("bert").depth) == 2
    assert nbsal.Explainer(load("bert"), name, **options).method.layer == layer


def test_what_load_takes_is_explained_without_loading_it_first(small, checkpoints):
    text, path = "A warm and funny film.", zoo.save(checkpoints, "bert", "sequence")
    named = nbsal.Explainer("demo/reviews-small", "gradxact")(text)
    assert (named.scores == nbsal.Explainer(small, "gradxact")(text).scores).all()
    assert nbsal.Explainer(path, "gradxact").subject.name == str(path)
    assert nbsal.Explainer(lambda texts: [[0.1, 0.9]] * len(texts)).method.name == "occlusion"
    compared = nbsal.compare({"small": "demo/reviews-small"}, "gradxact", text)
    assert (compared["small"][0].scores == named.scores).all()
    assert (nbsal.compare("demo/reviews-small", "gradxact", text)["gradxact"][0].scores == named.scores).all()
    assert nbsal.flip("demo/reviews-small", "A dull film.").words == ("dull",)
    assert len(nbsal.audit("demo/reviews-small", ["A dull film."], least=1, progress=False).texts) == 1
    with refuses("subject"):
        nbsal.Explainer(nbsal.Explainer(small, "gradxact"))


WRONG_NAMES = [
    (("grad-cam", {}), "method", None),
    (("gradcam", {"layer": 4}), "layer", (0, 1, 2, 3)),
    (("simple", {"norm": 3}), "norm", (1, 2)),
    (("transformer-attribution", {"start_layer": 3}), "start_layer", (0, 1, 2)),
    (("lrp", {"dtype": "float32"}), "dtype", ("mixed", "float64", "model")),
    (("gradcam", {"long": "cut"}), "long", ("truncate", "window")),
]


@cases("call, argument, valid", WRONG_NAMES)
def test_unknown_names_are_refused_with_the_valid_ones(load, call, argument, valid):
    method, options = call
    with refuses(argument, UnknownName) as caught:
        nbsal.Explainer(load("bert"), method, **options)
    assert caught.value.valid == valid if valid else "decoded-gradcam" in caught.value.valid


def test_settings_must_belong_to_the_method(load):
    with refuses("lair") as caught:
        nbsal.Explainer(load("bert"), "gradcam", lair=4)
    assert caught.value.value == 4
    with refuses("layer"):
        nbsal.Explainer(load("bert"), nbsal.GradCAM(), layer=4)


def test_ids_are_explained_like_their_text(load):
    explain = nbsal.Explainer(load("bert"), "decoded-gradcam")
    by_text = explain(axioms.TEXTS[0])
    ids = by_text.row.ids
    by_ids = explain.ids(ids)
    assert axioms.relative(by_ids.scores, by_text.scores) < 1e-12
    assert [by_ids.text[a:b] for a, b in by_ids.offsets][1:4] == ["the", "fi", "l"]
    assert by_ids.special.tolist() == by_text.special.tolist()
    masked = explain.ids(ids, attention_mask=[int(place != 3) for place in range(len(ids))])
    assert 3 not in masked.order and not np.allclose(masked.scores, by_ids.scores)


LONG_TEXT = " ".join(axioms.TEXTS * 5)


def test_long_texts_by_windows(load):
    subject = load("bert")
    truncated = nbsal.Explainer(subject, "gradxact")(LONG_TEXT)
    assert truncated.row.dropped > 0 and truncated.provenance["dropped"] == truncated.row.dropped
    explain = nbsal.Explainer(subject, "gradxact", long="window")
    whole = explain(LONG_TEXT)
    assert whole.row.dropped == 0 and whole.provenance["windows"] > 2
    assert len(whole.tokens) == len(truncated.tokens) + truncated.row.dropped
    # The tokens of the first half window are in the first window only, which is the truncated text.
    first = nbsal.Explainer(subject, "gradxact")(LONG_TEXT, target=whole.target).scores
    assert axioms.relative(whole.scores[1:30], first[1:30]) < 1e-10
    assert axioms.relative(explain.map([LONG_TEXT], progress=False)[0].scores, whole.scores) < 1e-12
    assert explain("A bore.").provenance.get("windows") is None


def test_a_plan_lists_the_jobs_that_run(load, monkeypatch):
    explain, ran = nbsal.Explainer(load("bert"), "gradxact", long="window"), []
    jobs = explain.plan(LONG_TEXT)
    monkeypatch.setattr(trace, "record_now", lambda *a, record=trace.record_now: ran.append(len(a[1])) or record(*a))
    explain(LONG_TEXT)
    windows = len(long_texts.split_text(explain.subject, LONG_TEXT).places)
    assert [len(job.rows) for job in jobs] == ran == [1] * 2 * windows


@pytest.mark.parametrize("done", [1, 2])
def test_cancelling_within_a_long_text_keeps_the_results(load, monkeypatch, done):
    cancel, from_trace, traces = threading.Event(), nbsal.Explainer.from_trace, []
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    windows = long_texts.split_text(explain.subject, LONG_TEXT).places
    last = 2 + (done - 1) * len(windows)  # the first window of a text

    def cancelling(explainer, record):
        traces.append(record)
        if len(traces) == last:
            cancel.set()
        return from_trace(explainer, record)

    monkeypatch.setattr(nbsal.Explainer, "from_trace", cancelling)
    with pytest.raises(Cancelled) as caught:
        explain.map(["A bore.", LONG_TEXT, LONG_TEXT], progress=False, cancel=cancel)
    windowed = [saliency.provenance.get("windows", 1) > 1 for saliency in caught.value.partial]
    assert windowed == [False, True][:done]
    assert len(traces) == last


def test_short_texts_beside_a_long_one_stay_a_batch(load, forwards):
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    texts = [LONG_TEXT, "A bore.", "A warm and funny joy."]
    encoded = explain.subject.encode(texts)
    saliencies, reports = explain_batch({"": explain}, encoded, [0, 0, 0])[""], []
    assert len(forwards) == 1 + len(long_texts.split_text(explain.subject, LONG_TEXT).places)
    for text, saliency in zip(texts, saliencies, strict=True):
        assert axioms.relative(saliency.scores, explain(text, target=0).scores) < 1e-5
    explain.map(texts, targets=0, progress=lambda *step: reports.append(step))
    assert reports == [(2, 3), (3, 3)], "long texts are counted once"
    truncate = nbsal.Explainer(load("bert"), "gradxact", long="truncate")
    results = explain_batch({"truncate": truncate, "window": explain}, encoded, [0, 0, 0])
    assert len(results["truncate"][0].row) < len(results["window"][0].row)
    assert axioms.relative(results["truncate"][0].scores, truncate(LONG_TEXT, target=0).scores) < 1e-5
    assert axioms.relative(results["window"][0].scores, saliencies[0].scores) < 1e-5


def test_windows_start_after_the_special_tokens_that_the_tokenizer_added(load):
    """Special tokens that were typed are part of the text, wherever they are."""
    subject = load("bert")
    windows = long_texts.split_text(subject, "[SEP] [SEP] " + LONG_TEXT)
    assert max(map(len, windows.places)) <= subject.max_length
    assert sorted({place for places in windows.places for place in places}) == list(range(len(windows.row)))
    assert all(window.tokens[0] == "[CLS]" and window.tokens[-1] == "[SEP]" for window in windows.encoded)
    assert windows.encoded[0].tokens[1] == "[SEP]" and nbsal.Explainer(subject, "gradcam", long="window")(LONG_TEXT)


def test_windows_need_a_single_text_and_a_decision_about_all_of_it(load):
    for architecture, head, target in (("bert", "token", (3, 0)), ("gpt2", "causal", None)):
        with pytest.raises(InputError):
            nbsal.Explainer(load(architecture, head), "gradcam", long="window")(LONG_TEXT, target=target)
    explain = nbsal.Explainer(load("bert"), "gradcam", long="window")
    assert explain(("A joy.", "A bore.")).row.parts == ("A joy.", "A bore.")
    with pytest.raises(InputError):
        explain(("A joy.", LONG_TEXT))
    with refuses("text"):
        explain.every_layer(LONG_TEXT)
    explain = nbsal.Explainer(load("bert", num_labels=1), "gradcam", long="window")
    windows = long_texts.split_text(explain.subject, LONG_TEXT)
    values = [float(explain.ids(window.ids).prediction) for window in windows.encoded]
    assert float(explain(LONG_TEXT).prediction) == pytest.approx(np.mean(values), rel=1e-3)


def test_results_before_a_wrong_text_are_kept(load):
    with refuses("text") as caught:
        nbsal.Explainer(load("bert"), "gradcam").map(["A joy."] * 40 + [" "], batch_size=1, progress=False)
    assert len(caught.value.partial) == 32 and "40" in str(caught.value)


def test_nan_scores_are_refused(load):
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    with torch.no_grad():
        subject.model.classifier.weight.fill_(torch.inf)
    with pytest.raises(ModelError):
        nbsal.Explainer(subject, "gradcam")("A joy.")
