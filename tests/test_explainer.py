"""Test Explainer: batches, layers, shared traces, progress, cancellation and long texts."""

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
from tests.cases import cases
from tests.raising import refuses

NAMES = ("gradcam", "simple", "gradxact", "decoded-gradcam", "decoded-simple", "decoded-gradxact")
BATCHED = ("bert", "roberta", "albert", "deberta-v2", "modernbert", "gpt2", "llama")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_batches_and_padding(load, architecture, dtype):
    subject = load(architecture, dtype=dtype)
    for name in NAMES if architecture in ("bert", "llama") else ("gradxact", "decoded-gradcam"):
        explain = nbsal.Explainer(subject, name, layer=1)
        axioms.batch_equals_singles(explain)
        axioms.padding_is_invisible(explain)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("architecture", BATCHED)
def test_every_layer_at_once(load, architecture, name):
    subject = load(architecture)
    axioms.every_layer_is_exact([nbsal.Explainer(subject, name, layer=layer) for layer in range(subject.depth + 1)])


def leaky(self, trace):
    """A mutant whose scores depend on the rest of the batch."""
    features = trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]
    return features - features.mean((0, 1), keepdim=True)


def test_the_axioms_catch_a_leak(load, monkeypatch):
    explain = nbsal.Explainer(load("bert"), "gradxact", layer=1)
    monkeypatch.setattr(nbsal.GradientXActivation, "features", leaky)
    with pytest.raises(AssertionError):
        axioms.batch_equals_singles(explain)
    with pytest.raises(AssertionError):
        axioms.padding_is_invisible(explain)


def test_the_axioms_catch_a_model_that_attends_to_padding(load, monkeypatch):
    explain = nbsal.Explainer(load("bert"), "gradxact", layer=1)
    ones = property(lambda encoded: np.ones_like(encoded.input_ids))
    monkeypatch.setattr(nbsal.Encoded, "attention_mask", ones)
    with pytest.raises(AssertionError):
        axioms.padding_is_invisible(explain)


def test_the_layer_axiom_catches_shifted_layers(load):
    subject = load("bert")
    shifted = [nbsal.Explainer(subject, "gradxact", layer=layer) for layer in (1, 0, 2, 3)]
    with pytest.raises(AssertionError):
        axioms.every_layer_is_exact(shifted)


def test_compare_runs_the_model_once_for_each_batch(load, forwards):
    subject = load("bert")
    many = nbsal.compare(subject, list(NAMES), axioms.TEXTS, progress=False)
    assert len(forwards) == 1
    assert list(many) == list(NAMES)
    for name in NAMES:
        for text, saliency in zip(axioms.TEXTS, many[name], strict=True):
            assert axioms.relative(saliency.scores, nbsal.Explainer(subject, name)(text).scores) < 1e-10


def test_every_layer_is_one_forward(load, forwards):
    nbsal.Explainer(load("bert"), "decoded-gradcam").every_layer(axioms.TEXTS[0])
    assert len(forwards) == 1


def test_compare_accepts_named_instances(load):
    subject = load("bert")
    methods = {"early": nbsal.Decoded(nbsal.GradCAM(layer=1)), "late": nbsal.Decoded(nbsal.GradCAM(layer=3))}
    many = nbsal.compare(subject, methods, axioms.TEXTS[0])
    assert [len(saliencies) for saliencies in many.values()] == [1, 1]
    assert not np.allclose(many["early"][0].scores, many["late"][0].scores)
    with refuses("methods"):
        nbsal.compare(subject, list(methods.values()), axioms.TEXTS)


def test_compare_names_models(load):
    models = {"before": load("bert"), "after": load("roberta")}
    many = nbsal.compare(models, "gradxact", iter(axioms.TEXTS), progress=False)
    assert list(many) == ["before", "after"]
    for name, subject in models.items():
        alone = nbsal.Explainer(subject, "gradxact")(axioms.TEXTS[1])
        assert axioms.relative(many[name][1].scores, alone.scores) < 1e-10
    both = nbsal.compare(models, ["gradxact", "simple"], axioms.TEXTS[0], progress=False)
    assert list(both) == ["before: gradxact", "before: simple", "after: gradxact", "after: simple"]
    with refuses("subject"):
        nbsal.compare({}, "gradcam", axioms.TEXTS)


def test_map_consumes_a_generator_and_keeps_the_order(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    texts = [f"{text} {n}" for n in range(20) for text in axioms.TEXTS]
    saliencies = explain.map((text for text in texts), batch_size=1, progress=False)
    assert [saliency.text for saliency in saliencies] == texts


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
        explainers = [nbsal.Explainer(subject, name) for name in names]
        return [len(batch) for _, batch in length_batches(explainers, encoded, 32)]

    assert sizes("gradcam") == [32, 8, 16, 4] and sizes("gradcam", "lrp") == [32, 8, 8, 8, 4]


def test_no_batch_is_mostly_padding(load):
    subject = load("bert", decoding=False)
    encoded = subject.encode(["A joy."] * 20 + ["a " * 60])
    assert [len(batch) for _, batch in length_batches([nbsal.Explainer(subject, "gradcam")], encoded, 32)] == [20, 1]
    assert [len(batch) for _, batch in length_batches([nbsal.Explainer(subject, "gradcam")], encoded[17:], 32)] == [4]


def test_progress_counts_texts(load):
    reports = []
    report = lambda done, total: reports.append((done, total))  # noqa: E731
    nbsal.Explainer(load("bert"), "gradcam").map(axioms.TEXTS, batch_size=2, progress=report)
    assert reports == [(2, 4), (4, 4)]


def test_cancelling_stops_between_batches_and_keeps_the_results(load):
    cancel = threading.Event()
    stop = lambda done, total: cancel.set()  # noqa: E731
    explain = nbsal.Explainer(load("bert"), "gradcam")
    with pytest.raises(Cancelled) as caught:
        explain.map(axioms.TEXTS, batch_size=1, progress=stop, cancel=cancel)
    assert [saliency.text for saliency in caught.value.partial] == ["A bore."]


REPEATED_PASSES = ("smooth", "integrated", "gradient-shap", "deeplift-shap", "occlusion", "simple@allennlp")


def test_texts_of_a_decoder_without_padding_id_are_explained_one_by_one(load):
    subject = load("gpt2")
    subject.model.config.pad_token_id, before = None, subject.model.config.pad_token_id
    try:
        assert subject.unbatchable
        assert len(nbsal.Explainer(subject, "gradcam").map(axioms.TEXTS, progress=False)) == len(axioms.TEXTS)
        unpadded = {name: nbsal.Explainer(subject, name)(axioms.TEXTS[0]).scores for name in REPEATED_PASSES}
        with pytest.raises(ModelError) as caught:
            nbsal.Explainer(subject, "occlusion@thermostat")
        assert "pad_token_id" in str(caught.value)
    finally:
        subject.model.config.pad_token_id = before
    for name, scores in unpadded.items():
        assert axioms.relative(scores, nbsal.Explainer(subject, name)(axioms.TEXTS[0]).scores) < 1e-6, name


def test_layer_none_is_the_default_layer(load):
    subject = load("bert")
    assert subject.default_layer == round(0.6 * subject.depth)
    assert nbsal.Explainer(subject, "decoded-gradcam").method.layer == subject.default_layer
    assert nbsal.Explainer(subject, "gradcam").method.layer == subject.default_layer
    assert nbsal.Explainer(subject, "gradcam", layer=0).method.layer == 0
    assert nbsal.Explainer(subject, "gradxact").method.layer == 0
    assert nbsal.Explainer(subject, "gradxact", layer=None).method.layer == subject.default_layer


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


def test_unknown_parts_of_a_trace_are_refused(load):
    with refuses("needs", UnknownName) as caught:
        trace.record(load("bert"), load("bert").encode("A joy."), needs=["hiden"])
    assert "hidden" in caught.value.valid


def test_settings_must_belong_to_the_method(load):
    with refuses("lair") as caught:
        nbsal.Explainer(load("bert"), "gradcam", lair=4)
    assert caught.value.value == 4
    with refuses("layer"):
        nbsal.Explainer(load("bert"), nbsal.GradCAM(), layer=4)


def test_ids_are_explained_like_their_text(load):
    explain = nbsal.Explainer(load("bert"), "decoded-gradcam")
    by_text = explain(axioms.TEXTS[0])
    by_ids = explain.ids(by_text.row.ids)
    assert axioms.relative(by_ids.scores, by_text.scores) < 1e-12
    assert [by_ids.text[a:b] for a, b in by_ids.offsets][1:4] == ["the", "fi", "l"]
    assert by_ids.special.tolist() == by_text.special.tolist()


def test_masked_positions_are_not_ranked(load):
    explain = nbsal.Explainer(load("bert"), "gradxact")
    ids = explain(axioms.TEXTS[0]).row.ids
    mask = [1] * len(ids)
    mask[3] = 0
    masked = explain.ids(ids, attention_mask=mask)
    assert 3 not in masked.order
    assert not np.allclose(masked.scores, explain.ids(ids).scores)


LONG_TEXT = " ".join(axioms.TEXTS * 5)


def test_long_texts_by_windows(load):
    subject = load("bert")
    truncated = nbsal.Explainer(subject, "gradxact")(LONG_TEXT)
    assert truncated.row.dropped > 0 and truncated.provenance["dropped"] == truncated.row.dropped
    assert f"the last {truncated.row.dropped} tokens" in truncated.to_html()
    explain = nbsal.Explainer(subject, "gradxact", long="window")
    whole = explain(LONG_TEXT)
    assert whole.row.dropped == 0 and whole.provenance["windows"] > 2
    assert len(whole.tokens) == len(truncated.tokens) + truncated.row.dropped
    assert "overlapping windows" in whole.to_html()
    # The tokens of the first half window are in the first window only, which is the truncated text.
    first = nbsal.Explainer(subject, "gradxact")(LONG_TEXT, target=whole.target).scores
    assert axioms.relative(whole.scores[1:30], first[1:30]) < 1e-10
    assert axioms.relative(explain.map([LONG_TEXT], progress=False)[0].scores, whole.scores) < 1e-12
    assert explain("A bore.").provenance.get("windows") is None


def record_lengths(monkeypatch):
    """A list that collects, for each trace that is explained, the numbers of tokens of its texts."""
    lengths, from_trace = [], nbsal.Explainer.from_trace

    def recording(explainer, record):
        lengths.append([len(row) for row in record.encoded])
        return from_trace(explainer, record)

    monkeypatch.setattr(nbsal.Explainer, "from_trace", recording)
    return lengths


def test_long_texts_in_a_batch_go_by_windows_and_are_counted_once(load, monkeypatch):
    """They are not explained in truncated form first."""
    explain = nbsal.Explainer(load("bert"), "gradxact", long="window")
    windows = [[len(window)] for window in long_texts.split_text(explain.subject, LONG_TEXT).encoded]
    alone, lengths, reports = explain(LONG_TEXT), record_lengths(monkeypatch), []
    report = lambda *step: reports.append(step)  # noqa: E731
    saliencies = explain.map(["A bore.", LONG_TEXT, "A joy."], progress=report)
    assert [len(batch) for batch in lengths] == [2] + [1] * len(windows) and lengths[1:] == windows
    assert [saliency.provenance.get("windows", 1) for saliency in saliencies] == [1, len(windows), 1]
    assert axioms.relative(saliencies[1].scores, alone.scores) < 1e-12
    assert reports == [(2, 3), (3, 3)]


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
    saliencies = explain_batch({"": explain}, explain.subject.encode(texts), [0, 0, 0])[""]
    assert len(forwards) == 1 + len(long_texts.split_text(explain.subject, LONG_TEXT).places)
    for text, saliency in zip(texts, saliencies, strict=True):
        assert axioms.relative(saliency.scores, explain(text, target=0).scores) < 1e-5


def test_explainers_that_truncate_and_that_use_windows_share_a_batch(load):
    explainers = {long: nbsal.Explainer(load("bert"), "gradxact", long=long) for long in ("truncate", "window")}
    results = explain_batch(explainers, load("bert").encode([LONG_TEXT, "A bore."]), [0, 0])
    for name, explain in explainers.items():
        for text, saliency in zip([LONG_TEXT, "A bore."], results[name], strict=True):
            assert axioms.relative(saliency.scores, explain(text, target=0).scores) < 1e-5
    assert len(results["truncate"][0].row) < len(results["window"][0].row)


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


def test_windows_of_a_one_logit_head_average_its_output(load):
    explain = nbsal.Explainer(load("bert", num_labels=1), "gradcam", long="window")
    windows = long_texts.split_text(explain.subject, LONG_TEXT)
    values = [float(explain.ids(window.ids).prediction) for window in windows.encoded]
    assert float(explain(LONG_TEXT).prediction) == pytest.approx(np.mean(values), rel=1e-3)


WRONG_CALLS = [
    (lambda s: nbsal.Explainer("demo/reviews", "gradcam"), "subject"),
    (lambda s: nbsal.Explainer(s, nbsal.GradCAM), "method"),
    (lambda s: nbsal.Explainer(s, None), "method"),
    (lambda s: nbsal.Explainer(s, nbsal.Decoded("gradcam")), "method"),
    (lambda s: nbsal.Explainer(s, nbsal.Decoded(nbsal.Decoded())), "method"),
    (lambda s: nbsal.Explainer(s, "decoded-gradcam", tau="3"), "tau"),
    (lambda s: nbsal.Explainer(s, "gradcam", layer=True), "layer"),
    (lambda s: nbsal.Explainer(s, "transformer-attribution", start_layer=1.0), "start_layer"),
    (lambda s: nbsal.Explainer(s, "lime@thermostat", samples=0), "samples"),
    (lambda s: nbsal.Explainer(s, "shapley@thermostat", samples=0), "samples"),
    (lambda s: nbsal.Explainer(s, "gradcam").ids([[2, 9, 3], [2, 10, 3]]), "input_ids"),
    (lambda s: nbsal.Explainer(s, "gradcam").map("A joy."), "texts"),
    (lambda s: nbsal.Explainer(s, "gradcam").map(["A joy."], batch_size=0), "batch_size"),
    (lambda s: nbsal.Explainer(s, "gradcam").map(["A joy."], batch_size="3"), "batch_size"),
    (lambda s: nbsal.Explainer(s, "gradcam")(["A joy."]), "text"),
    (lambda s: nbsal.Explainer(s, "gradcam").every_layer(["A joy."]), "text"),
    (lambda s: nbsal.Explainer(s, "rollout").every_layer("A joy."), "method"),
    (lambda s: nbsal.compare(s, [], ["A joy."]), "methods"),
]


@cases("call, argument", WRONG_CALLS)
def test_wrong_arguments_are_refused(load, call, argument):
    with refuses(argument):
        call(load("bert"))


def test_results_before_a_wrong_text_are_kept(load):
    with refuses("text") as caught:
        nbsal.Explainer(load("bert"), "gradcam").map(["A joy."] * 40 + [" "], batch_size=1, progress=False)
    assert len(caught.value.partial) == 32 and "40" in str(caught.value)


def test_numpy_settings_are_saved_as_plain_numbers(load, tmp_path):
    saliency = nbsal.Explainer(load("bert"), "decoded-gradcam", layer=np.int64(1), tau=np.int64(3))("A joy.")
    saliency.save(tmp_path / "s.json")
    assert nbsal.Saliency.load(tmp_path / "s.json").provenance["parameters"]["tau"] == 3


def test_nan_scores_are_refused(load):
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    explain = nbsal.Explainer(subject, "gradcam")
    with torch.no_grad():
        subject.model.classifier.weight.fill_(torch.inf)
    with pytest.raises(ModelError):
        explain("A joy.")


def test_no_texts_give_no_saliencies(load):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    saliencies = explain.map([], progress=False)
    assert len(saliencies) == 0 and saliencies.to_frame().empty
    assert list(saliencies.to_frame()) == list(explain.map(["A joy."], progress=False).to_frame())
