"""Targets of every kind of head, against autograd on the stock outputs."""

import warnings

import pytest
import torch

import nbsal
from nbsal.figures import pages
from nbsal.model.text import long_texts
from nbsal.support.errors import InputError, UnknownName
from tests import axioms, replicas, zoo
from tests.cases import cases
from tests.raising import refuses

TEXT = "The film is a warm and funny joy."
PAIR = ("Who wrote the book?", "The company wrote the book about the river.")


def check_target(subject, text, target, pick, layer=1):
    """Scores of gradxact equal gradient x activation of the number that `pick` takes from the stock outputs."""
    name = subject.model.config.model_type
    inputs = subject.inputs(subject.encode(text))
    hidden, gradient = replicas.hidden_and_gradient(name, subject.model, inputs, layer, pick)
    saliency = nbsal.Explainer(subject, "gradxact", layer=layer)(text, target=target)
    assert axioms.relative(saliency.scores, (hidden * gradient).sum(-1)) < 1e-10
    return saliency


@cases(
    "head, settings, target, pick",
    [
        ("sequence", {}, 1, lambda out: out.logits[0, 1]),
        ("sequence", {}, "LABEL_1", lambda out: out.logits[0, 1]),
        ("sequence", {"problem_type": "multi_label_classification"}, 2, lambda out: out.logits[0, 2]),
        ("sequence", {"num_labels": 1}, None, lambda out: out.logits[0, 0]),
        ("token", {}, (3, "LABEL_2"), lambda out: out.logits[0, 3, 2]),
        ("token", {}, (3, None), lambda out: out.logits[0, 3].max()),
    ],
)
def test_a_class_or_value(load, head, settings, target, pick):
    subject = load("bert", head, **settings)
    saliency, logits = check_target(subject, TEXT, target, pick), axioms.logits(subject, TEXT)[0]
    if "problem_type" in settings:
        assert axioms.relative(saliency.probabilities, logits.sigmoid()) < 1e-10
    elif target == 1:
        assert saliency.target == "LABEL_1"
    elif "num_labels" in settings:
        assert float(saliency.prediction) == pytest.approx(float(logits), rel=1e-3)
        assert not saliency.probabilities.size and saliency.to_html()


def test_a_second_text_in_place_of_a_target_is_told_how_pairs_are_passed(load, small):
    for head in ("sequence", "span"):
        with refuses("target") as caught:
            nbsal.Explainer(load("bert", head), "gradxact")(*PAIR)
        assert "tuple" in str(caught.value)
    for call in (
        lambda: nbsal.Explainer(small, "gradxact")(*PAIR),
        lambda: nbsal.Explainer(load("bert"), "gradxact")(PAIR, "x"),
    ):
        with refuses("target") as caught:
            call()
        assert "tuple" not in str(caught.value)


def test_a_pair_for_a_model_of_single_texts_is_warned_about(load):
    subject = load("bert")
    config = subject.model.config
    for task, says_so in ((None, False), ("mnli", False), ("SST-2", True)):
        config.finetuning_task = task
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            explain = nbsal.Explainer(subject, "gradxact")
            pair, single = explain(PAIR), explain(TEXT)
            explain(PAIR)
        assert len(caught) == says_so and len(pair.notes()) == len(single.notes()) + says_so


@cases("architecture", ["bert", "distilbert", "electra", "albert"])
def test_a_span_is_the_sum_of_both_ends(load, architecture):
    subject = load(architecture, "span")
    row = subject.encode(PAIR)[0]
    first = next(i for i in row.content if row.segments[i] == 1)
    pick = lambda out: out.start_logits[0, first] + out.end_logits[0, first + 2]  # noqa: E731
    saliency = check_target(subject, PAIR, (first, first + 2), pick)
    assert saliency.target == f"{PAIR[1][: row.offsets[first + 2][1]]} [{first}:{first + 2}]"


def test_the_predicted_span_is_the_best_one_inside_the_context(load):
    subject = load("bert", "span")
    row = subject.encode(PAIR)[0]
    logits = axioms.logits(subject, PAIR)[0]
    inside = [i for i in row.content if row.segments[i] == 1]
    best = max(
        ((s, e) for s in inside for e in inside if s <= e), key=lambda p: float(logits[p[0], 0] + logits[p[1], 1])
    )
    saliency = check_target(subject, PAIR, None, lambda out: out.start_logits[0, best[0]] + out.end_logits[0, best[1]])
    assert saliency.prediction == PAIR[1][row.offsets[best[0]][0] : row.offsets[best[1]][1]]


@pytest.mark.parametrize("architecture", zoo.DECODERS)
def test_the_next_token(load, architecture):
    subject = load(architecture, "causal")
    last = len(subject.encode(TEXT)[0]) - 1
    check_target(subject, TEXT, None, lambda out: out.logits[0, last].max())
    check_target(subject, TEXT, 7, lambda out: out.logits[0, last, 7])
    check_target(subject, TEXT, (2, 7), lambda out: out.logits[0, 2, 7])
    token = subject.encode(TEXT)[0].tokens[3]
    index = subject.tokenizer.get_vocab()[token]
    check_target(subject, TEXT, token, lambda out: out.logits[0, last, index])
    check_target(subject, TEXT, nbsal.contrast(7, 8), lambda out: out.logits[0, last, 7] - out.logits[0, last, 8])


def test_labels_may_be_renamed(load, checkpoints):
    subject = nbsal.load(zoo.save(checkpoints, "bert", "sequence"), labels=["bad", "so-so", "good"])
    assert nbsal.Explainer(subject, "gradcam")(TEXT, target="so-so").target == "so-so"
    path = zoo.save(checkpoints, "bert", "sequence")
    assert nbsal.load(path, labels={2: "good", 0: "bad", 1: "so-so"}).labels == ["bad", "so-so", "good"]
    for invalid in (["bad", "good"], ["bad", "bad", "good"], "abc", {"a": 0, "b": 1, "c": 2}):
        with refuses("labels"):
            nbsal.load(path, labels=invalid)


LABELS = ("LABEL_0", "LABEL_1", "LABEL_2", "0 to 2")
INVALID = [  # the head, the target, and the part of it that the error names
    ("sequence", "LABEL_9", "LABEL_9"),
    ("sequence", 3, 3),
    ("sequence", 1.5, 1.5),
    ("sequence", nbsal.contrast(0, "good"), "good"),
    ("span", 4, 4),
    ("span", (0, 400), (0, 400)),
    ("span", (0, 1.5), (0, 1.5)),
    ("span", (None, None), (None, None)),
    ("token", 3, 3),
    ("token", ("river", 0), "river"),
    ("token", (300, 0), 300),
    ("token", (3, "PER"), "PER"),
    ("causal", "unquestionably", "unquestionably"),
    ("causal", 1.5, 1.5),
    ("causal", 10**6, 10**6),
    ("causal", (999, 1), 999),
    ("causal", (1, 2, 3), (1, 2, 3)),
    ("causal", "all", "all"),
    ("causal", nbsal.contrast(1, 1), nbsal.contrast(1, 1)),
]


@cases("head, target, value", INVALID)
def test_invalid_targets_are_refused(load, head, target, value):
    explain = nbsal.Explainer(load("gpt2" if head == "causal" else "bert", head), "gradcam")
    names_label = head == "sequence" or value == "PER"
    with refuses("target", UnknownName if names_label else InputError) as caught:
        explain(PAIR if head == "span" else TEXT, target=target)
    assert caught.value.value == value
    assert not names_label or caught.value.valid == LABELS


def test_a_token_as_text_needs_a_tokenizer():
    explain = nbsal.Explainer(nbsal.load(zoo.model("gpt2", "causal")), "gradcam")
    assert explain.ids([5, 6, 7], target=9).target == "#9"
    with refuses("target"):
        explain.ids([5, 6, 7], target="joy")


def test_regression_by_windows_has_the_mean_values(load):
    subject = load("bert", problem_type="regression", num_labels=3)
    long = " ".join([TEXT] * 12)
    saliency = nbsal.Explainer(subject, "gradcam", long="window")(long)
    windows = long_texts.split_text(subject, long).encoded
    with torch.no_grad():
        outputs = [subject.logits(subject.inputs(windows[i : i + 1]))[0] for i in range(len(windows))]
    means = torch.stack(outputs).mean(0)
    assert saliency.provenance["values"] == pytest.approx(means.tolist())
    assert saliency.target == f"LABEL_{int(means.abs().argmax())}"
    assert f"LABEL_0 {float(means[0]):.4g}" in saliency.prediction


@pytest.mark.parametrize("settings", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "regression"}])
def test_values_are_no_classes(load, settings):
    explain = nbsal.Explainer(load("bert", **settings), "gradcam")
    saliencies = explain.map([TEXT, "A dull bore."], progress=False)
    with refuses("saliencies"):
        nbsal.clouds.rank(saliencies)
    with refuses("explainers"):
        nbsal.evaluation.games(explain, [TEXT], random=0, progress=False)
    page = pages.supplement({"gradcam": saliencies})
    assert saliencies[0].prediction in page.body and "%)" not in page.body
