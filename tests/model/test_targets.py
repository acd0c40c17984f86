"""Targets of every kind of head, against autograd on the stock outputs."""

import pytest
import torch

import nbsal
from nbsal import widgets
from nbsal.errors import InputError, UnknownName
from nbsal.figures import pages
from nbsal.model import long_texts
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


@pytest.mark.parametrize("target", [1, "LABEL_1"])
def test_a_class_by_name_or_number(load, target):
    saliency = check_target(load("bert"), TEXT, target, lambda out: out.logits[0, 1])
    assert saliency.target == "LABEL_1"


def test_the_prediction_by_default(load):
    saliency = check_target(load("bert"), TEXT, None, lambda out: out.logits[0].max())
    assert saliency.target == saliency.prediction
    assert saliency.probabilities.sum() == pytest.approx(1)


def test_a_contrast_is_the_difference(load):
    both = nbsal.contrast("LABEL_0", 2)
    saliency = check_target(load("bert"), TEXT, both, lambda out: out.logits[0, 0] - out.logits[0, 2])
    assert saliency.target == "LABEL_0 - LABEL_2"


@pytest.mark.parametrize("second", [1, "LABEL_1"])
def test_a_contrast_of_a_target_with_itself_is_refused(load, second):
    with refuses("target") as caught:
        nbsal.Explainer(load("bert"), "gradxact")(TEXT, target=nbsal.contrast(1, second))
    assert caught.value.value == nbsal.contrast(1, second)


def test_multi_label(load):
    subject = load("bert", problem_type="multi_label_classification")
    saliency = check_target(subject, TEXT, 2, lambda out: out.logits[0, 2])
    with torch.no_grad():
        logits = subject.logits(subject.inputs(subject.encode(TEXT)))[0]
    assert axioms.relative(saliency.probabilities, logits.sigmoid()) < 1e-10


def test_regression_and_one_logit_heads_explain_their_output(load):
    subject = load("bert", num_labels=1)
    saliency = check_target(subject, TEXT, None, lambda out: out.logits[0, 0])
    with torch.no_grad():
        value = float(subject.logits(subject.inputs(subject.encode(TEXT))))
    assert float(saliency.prediction) == pytest.approx(value, rel=1e-3)
    assert not saliency.probabilities.size and saliency.to_html()


@cases("architecture", ["bert", "distilbert", "electra", "albert"])
def test_a_span_is_the_sum_of_both_ends(load, architecture):
    subject = load(architecture, "span")
    row = subject.encode(PAIR)[0]
    first = next(i for i in row.content if row.segments[i] == 1)
    pick = lambda out: out.start_logits[0, first] + out.end_logits[0, first + 2]  # noqa: E731
    saliency = check_target(subject, PAIR, (first, first + 2), pick)
    assert saliency.target == f"{PAIR[1][: row.offsets[first + 2][1]]} [{first}:{first + 2}]"


def test_a_single_end_of_a_span(load):
    subject = load("bert", "span")
    assert check_target(subject, PAIR, (None, 4), lambda out: out.end_logits[0, 4]).target.startswith("end at ")
    assert check_target(subject, PAIR, (3, None), lambda out: out.start_logits[0, 3]).target.startswith("start at ")
    backwards = check_target(subject, PAIR, (9, 4), lambda out: out.start_logits[0, 9] + out.end_logits[0, 4])
    assert " ... " in backwards.target


def test_the_predicted_span_is_the_best_one_inside_the_context(load):
    subject = load("bert", "span")
    row = subject.encode(PAIR)[0]
    with torch.no_grad():
        logits = subject.logits(subject.inputs(subject.encode(PAIR)))[0]
    inside = [i for i in row.content if row.segments[i] == 1]
    best = max(
        ((s, e) for s in inside for e in inside if s <= e), key=lambda p: float(logits[p[0], 0] + logits[p[1], 1])
    )
    saliency = check_target(subject, PAIR, None, lambda out: out.start_logits[0, best[0]] + out.end_logits[0, best[1]])
    assert saliency.prediction == PAIR[1][row.offsets[best[0]][0] : row.offsets[best[1]][1]]


def test_a_token_class(load):
    subject = load("bert", "token")
    saliency = check_target(subject, TEXT, (3, "LABEL_2"), lambda out: out.logits[0, 3, 2])
    assert saliency.target.startswith("LABEL_2 at ")
    check_target(subject, TEXT, (3, None), lambda out: out.logits[0, 3].max())


def test_the_most_confident_token_by_default(load):
    subject = load("bert", "token")
    with torch.no_grad():
        logits = subject.logits(subject.inputs(subject.encode(TEXT)))[0]
    content = list(subject.encode(TEXT).content)
    best = max(content, key=lambda i: float(logits[i].softmax(-1).max()))
    check_target(subject, TEXT, None, lambda out: out.logits[0, best].max())


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


def test_a_next_token_as_text(load):
    subject = load("gpt2", "causal")
    assert subject.tokenizer.tokenize(" and") == ["Ġand"]
    saliency = nbsal.Explainer(subject, "gradcam")(TEXT, target="and")
    assert saliency.target == "and"
    other = nbsal.Explainer(subject, "gradcam")(TEXT, target=subject.tokenizer.convert_tokens_to_ids("Ġand"))
    assert (other.scores == saliency.scores).all(), "the token that continues a text"
    assert saliency.probabilities.shape == (subject.model.config.vocab_size,)


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


@pytest.mark.parametrize("token", ["Timbuktu", "in Timbuktu"])
def test_a_token_outside_the_vocabulary_is_refused(token):
    explain = nbsal.Explainer(nbsal.load("demo/notes"), "gradcam")
    unknown = explain.subject.tokenizer.unk_token
    with refuses("target") as caught:
        explain("Mara lives in", target=token)
    assert caught.value.value == token and unknown in str(caught.value)
    assert explain("Mara lives in", target=unknown).target == unknown  # by its own name it can be explained


def test_the_check_detects_another_target(load):
    with pytest.raises(AssertionError):
        check_target(load("bert"), TEXT, 0, lambda out: out.logits[0, 1])


@cases("architecture", ["bert", "roberta", "distilbert", "electra", "gpt2"])
def test_predicted_spans_lie_in_the_context_and_run_forwards(load, architecture):
    subject = load(architecture, "span")
    for question, context in (PAIR, ("The plot?", "A bore."), ("What fell on Monday?", "Prices fell on Monday.")):
        saliency = nbsal.Explainer(subject, "gradcam")((question, context))
        start, end = map(int, saliency.target.rpartition("[")[2].rstrip("]").split(":"))
        assert start <= end and saliency.row.segments[start] == saliency.row.segments[end] == 1
        assert saliency.prediction in context and not saliency.special[[start, end]].any()


def regression(load, **settings):
    return load("bert", problem_type="regression", num_labels=3, **settings)


def outputs(subject, text):
    with torch.no_grad():
        return subject.logits(subject.inputs(subject.encode(text)))[0]


def test_regression_with_several_outputs_shows_their_values(load):
    subject = regression(load)
    values = outputs(subject, TEXT)
    best = int(values.abs().argmax())
    saliency = check_target(subject, TEXT, None, lambda out: out.logits[0, best])  # the largest absolute value
    assert saliency.target == f"LABEL_{best}"
    assert not saliency.probabilities.size and saliency.provenance["values"] == pytest.approx(values.tolist())
    for label, value in zip(subject.labels, values.tolist(), strict=True):
        assert f"{label} {value:.4g}" in saliency.prediction
    for shown in (repr(saliency), saliency.to_html(), saliency.to_terminal(), saliency.caption()):
        assert f"{float(values[best]):.4g}" in shown and f"explained: LABEL_{best}" in shown
    assert "%" not in saliency.caption()


@cases("target", [0, "LABEL_2", nbsal.contrast(0, 1)])
def test_any_output_of_a_regression_can_be_explained(load, target):
    picks = {0: lambda out: out.logits[0, 0], "LABEL_2": lambda out: out.logits[0, 2]}
    check_target(regression(load), TEXT, target, picks.get(target, lambda out: out.logits[0, 0] - out.logits[0, 1]))


def test_regression_by_windows_has_the_mean_values(load):
    subject = regression(load)
    long = " ".join([TEXT] * 12)
    saliency = nbsal.Explainer(subject, "gradcam", long="window")(long)
    windows = long_texts.split_text(subject, long).encoded
    with torch.no_grad():
        means = torch.stack([subject.logits(subject.inputs(windows[i : i + 1]))[0] for i in range(len(windows))]).mean(
            0
        )
    assert saliency.provenance["values"] == pytest.approx(means.tolist())
    assert (
        saliency.target == f"LABEL_{int(means.abs().argmax())}"
        and f"LABEL_0 {float(means[0]):.4g}" in saliency.prediction
    )


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


def test_a_regression_is_shown_in_views(load):
    explain = nbsal.Explainer(regression(load), "gradcam")
    for view in (widgets.Highlight(explain, text=TEXT), widgets.Games(explain, text=TEXT)):
        view.wait()
        assert view.result.prediction in view.to_html() and "%)" not in view.result.caption()
        assert view._result["probabilities"] == []
