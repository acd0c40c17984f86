"""Targets of every kind of head, each against autograd on the stock outputs."""

import pytest
import torch

import nbsal
from nbsal.errors import InputError, UnknownName
from tests import axioms, replicas, zoo

TEXT = "The film is a warm and funny joy."
PAIR = ("Who wrote the book?", "The company wrote the book about the river.")


def agrees(subject, text, target, pick, layer=1):
    """Signed scores equal gradient times activation of what `pick` takes from the stock outputs."""
    name = subject.model.config.model_type
    inputs = subject.inputs(subject.encode(text))
    hidden, gradient = replicas.hidden_and_gradient(name, subject.model, inputs, layer, pick)
    found = nbsal.Explainer(subject, "gradxact", layer=layer)(text, target=target)
    assert axioms.relative(found.scores, (hidden * gradient).sum(-1)) < 1e-10
    return found


@pytest.mark.parametrize("target", [1, "LABEL_1"])
def test_a_class_by_name_or_number(load, target):
    found = agrees(load("bert"), TEXT, target, lambda out: out.logits[0, 1])
    assert found.target == "LABEL_1"


def test_the_prediction_by_default(load):
    found = agrees(load("bert"), TEXT, None, lambda out: out.logits[0].max())
    assert found.target == found.prediction
    assert found.probabilities.sum() == pytest.approx(1)


def test_a_contrast_is_the_difference(load):
    both = nbsal.contrast("LABEL_0", 2)
    found = agrees(load("bert"), TEXT, both, lambda out: out.logits[0, 0] - out.logits[0, 2])
    assert found.target == "LABEL_0 - LABEL_2"


def test_a_contrast_of_one_with_itself_is_nothing(load):
    found = nbsal.Explainer(load("bert"), "gradxact")(TEXT, target=nbsal.contrast(1, 1))
    assert abs(found.scores).max() < 1e-12


def test_multi_label(load):
    subject = load("bert", problem_type="multi_label_classification")
    found = agrees(subject, TEXT, 2, lambda out: out.logits[0, 2])
    with torch.no_grad():
        logits = subject.logits(subject.inputs(subject.encode(TEXT)))[0]
    assert axioms.relative(found.probabilities, logits.sigmoid()) < 1e-10


def test_regression_and_one_logit_heads_explain_their_output(load):
    subject = load("bert", num_labels=1)
    found = agrees(subject, TEXT, None, lambda out: out.logits[0, 0])
    with torch.no_grad():
        value = float(subject.logits(subject.inputs(subject.encode(TEXT))))
    assert float(found.prediction) == pytest.approx(value, rel=1e-3)
    assert not found.probabilities.size and found.to_html()


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "electra", "albert"])
def test_a_span_is_both_its_ends(load, architecture):
    subject = load(architecture, "span")
    row = subject.encode(PAIR)[0]
    first = next(i for i in row.content if row.segments[i] == 1)
    pick = lambda out: out.start_logits[0, first] + out.end_logits[0, first + 2]  # noqa: E731
    found = agrees(subject, PAIR, (first, first + 2), pick)
    assert found.target == f"{PAIR[1][: row.offsets[first + 2][1]]} [{first}:{first + 2}]"


def test_one_end_of_a_span(load):
    subject = load("bert", "span")
    assert agrees(subject, PAIR, (None, 4), lambda out: out.end_logits[0, 4]).target.startswith("end at ")
    assert agrees(subject, PAIR, (3, None), lambda out: out.start_logits[0, 3]).target.startswith("start at ")
    backwards = agrees(subject, PAIR, (9, 4), lambda out: out.start_logits[0, 9] + out.end_logits[0, 4])
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
    found = agrees(subject, PAIR, None, lambda out: out.start_logits[0, best[0]] + out.end_logits[0, best[1]])
    assert found.prediction == PAIR[1][row.offsets[best[0]][0] : row.offsets[best[1]][1]]


def test_a_token_class(load):
    subject = load("bert", "token")
    found = agrees(subject, TEXT, (3, "LABEL_2"), lambda out: out.logits[0, 3, 2])
    assert found.target.startswith("LABEL_2 at ")
    agrees(subject, TEXT, (3, None), lambda out: out.logits[0, 3].max())


def test_the_surest_token_by_default(load):
    subject = load("bert", "token")
    with torch.no_grad():
        logits = subject.logits(subject.inputs(subject.encode(TEXT)))[0]
    content = list(subject.encode(TEXT).content)
    sure = max(content, key=lambda i: float(logits[i].softmax(-1).max()))
    agrees(subject, TEXT, None, lambda out: out.logits[0, sure].max())


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "qwen3"])
def test_the_next_token(load, architecture):
    subject = load(architecture, "causal")
    last = len(subject.encode(TEXT)[0]) - 1
    agrees(subject, TEXT, None, lambda out: out.logits[0, last].max())
    agrees(subject, TEXT, 7, lambda out: out.logits[0, last, 7])
    agrees(subject, TEXT, (2, 7), lambda out: out.logits[0, 2, 7])
    token = subject.encode(TEXT)[0].tokens[3]
    index = subject.tokenizer.get_vocab()[token]
    agrees(subject, TEXT, token, lambda out: out.logits[0, last, index])
    agrees(subject, TEXT, nbsal.contrast(7, 8), lambda out: out.logits[0, last, 7] - out.logits[0, last, 8])


def test_a_next_token_as_typed(load):
    subject = load("gpt2", "causal")
    assert subject.tokenizer.tokenize(" and") == ["Ġand"]
    found = nbsal.Explainer(subject, "gradcam")(TEXT, target="and")
    assert found.target == "Ġand"  # the one that continues a text
    assert found.probabilities.shape == (subject.model.config.vocab_size,)


def test_labels_may_be_renamed(load, checkpoints):
    from tests import zoo

    subject = nbsal.load(zoo.save(checkpoints, "bert", "sequence"), labels=["bad", "so-so", "good"])
    assert nbsal.Explainer(subject, "gradcam")(TEXT, target="so-so").target == "so-so"
    path = zoo.save(checkpoints, "bert", "sequence")
    assert nbsal.load(path, labels={2: "good", 0: "bad", 1: "so-so"}).labels == ["bad", "so-so", "good"]
    for wrong in (["bad", "good"], ["bad", "bad", "good"], "abc", {"a": 0, "b": 1, "c": 2}):
        with pytest.raises(InputError, match="labels"):
            nbsal.load(path, labels=wrong)


BAD = [
    ("sequence", "LABEL_9", UnknownName, "LABEL_0, LABEL_1, LABEL_2"),
    ("sequence", 3, UnknownName, "0 to 2"),
    ("sequence", 1.5, UnknownName, "LABEL_0"),
    ("sequence", nbsal.contrast(0, "good"), UnknownName, "LABEL_0"),
    ("span", 4, InputError, "start, end"),
    ("span", (0, 400), InputError, "position 400"),
    ("span", (None, None), InputError, "start, its end, or both"),
    ("token", 3, InputError, r"\(position, label\)"),
    ("token", ("joy", 0), InputError, "no token at position 'joy'"),
    ("token", (300, 0), InputError, "no token at position 300"),
    ("token", (3, "PER"), UnknownName, "LABEL_0"),
    ("causal", "unquestionably", InputError, "no single token"),
    ("causal", 1.5, InputError, "no token 1.5"),
    ("causal", 10**6, InputError, "no token 1000000"),
    ("causal", (999, 1), InputError, "positions run from 0"),
    ("causal", (1, 2, 3), InputError, "a token, or"),
]


@pytest.mark.parametrize(("head", "target", "error", "sentence"), BAD)
def test_wrong_targets_are_named(load, head, target, error, sentence):
    explain = nbsal.Explainer(load("gpt2" if head == "causal" else "bert", head), "gradcam")
    with pytest.raises(error, match=sentence):
        explain(PAIR if head == "span" else TEXT, target=target)


def test_a_token_as_text_needs_a_tokenizer():
    explain = nbsal.Explainer(nbsal.load(zoo.model("gpt2", "causal")), "gradcam")
    assert explain.ids([5, 6, 7], target=9).target == "#9"
    with pytest.raises(InputError, match="as text needs a tokenizer: give its id"):
        explain.ids([5, 6, 7], target="joy")


def test_the_replica_catches_another_target(load):
    with pytest.raises(AssertionError):
        agrees(load("bert"), TEXT, 0, lambda out: out.logits[0, 1])


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "electra", "gpt2"])
def test_predicted_spans_lie_in_the_context_and_run_forwards(load, architecture):
    subject = load(architecture, "span")
    for question, context in (PAIR, ("The plot?", "A bore."), ("What fell on Monday?", "Prices fell on Monday.")):
        found = nbsal.Explainer(subject, "gradcam")((question, context))
        start, end = map(int, found.target.rpartition("[")[2].rstrip("]").split(":"))
        assert start <= end and found.row.segments[start] == found.row.segments[end] == 1
        assert found.prediction in context and not found.special[[start, end]].any()
