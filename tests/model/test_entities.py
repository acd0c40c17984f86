"""Entities as targets, all targets at once, and choices, against the pipelines and heads of transformers."""

import pytest
import torch
import transformers

import nbsal
from nbsal.support.errors import InputError, UnknownName
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses

TEXT = "The company wrote the book about the river on Monday."
NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture(scope="module")
def tagger():
    model = zoo.model("bert", "token", num_labels=len(NAMES)).double()
    model.config.id2label = dict(enumerate(NAMES))
    with torch.no_grad():  # so that several words are entities and several are none
        model.classifier.bias += torch.tensor([0.4, 0.2, 0.3, 0.0, 0.3])
    return nbsal.load(model, tokenizer=zoo.tokenizer(zoo.ARCHITECTURES["bert"][2]))


def test_all_entities_are_those_of_the_pipeline(tagger):
    pipe = transformers.pipeline("ner", model=tagger.model, tokenizer=tagger.tokenizer, aggregation_strategy="first")
    truth = [(entry["entity_group"], entry["start"], entry["end"]) for entry in pipe(TEXT)]
    saliencies = nbsal.Explainer(tagger, "gradxact", layer=1)(TEXT, target="all")
    assert [f"{kind} at {TEXT[start:end]} [{start}:{end}]" for kind, start, end in truth] == list(saliencies)
    assert len(truth) > 1
    for target, saliency in saliencies.items():
        assert saliency.target == target


def test_an_entity_is_the_mean_of_its_words(tagger):
    explain = nbsal.Explainer(tagger, "gradxact", layer=1)
    saliency = explain(TEXT, target=("the company", "PER"))
    row, logits = saliency.row, axioms.logits(tagger, TEXT)[0]
    firsts = [word.tokens[0] for word in row.words[:2]]
    labels = [NAMES[1 + int(logits[i, 2] > logits[i, 1])] for i in firsts]
    parts = [explain(TEXT, target=pair).scores for pair in zip(firsts, labels, strict=True)]
    assert axioms.relative(saliency.scores, sum(parts) / 2) < 1e-12
    assert (explain(TEXT, target=((0, 11), "PER")).scores == saliency.scores).all()
    first = NAMES.index(labels[0])  # a label may be a number, which is that of a tag
    assert explain(TEXT, target=("the company", first)).target.startswith(NAMES[first])
    predicted = NAMES[int(logits[firsts[0]].argmax())]
    assert explain(TEXT, target=("the company", None)).target.startswith(predicted)
    outside = [explain(TEXT, target=(i, "O")).scores for i in firsts]
    against = explain(TEXT, target=nbsal.contrast(("the company", "PER"), "O"))
    assert axioms.relative(against.scores, (sum(parts) - sum(outside)) / 2) < 1e-12


@cases(
    "target, value, error",
    [
        (("the", "PER"), "the", InputError),
        (("Vienna", "PER"), "Vienna", InputError),
        (((3, 3), "PER"), (3, 3), InputError),
        (((0, 400), "PER"), (0, 400), InputError),
        (("river", "ORG"), "ORG", UnknownName),
    ],
)
def test_entities_that_cannot_be_are_refused(tagger, target, value, error):
    with refuses("target", error) as caught:
        nbsal.Explainer(tagger, "gradcam")(TEXT, target=target)
    assert caught.value.value == value


def test_a_decision_about_words_names_them(tagger):
    explain = nbsal.Explainer(tagger, "gradxact")
    for saliency in explain(TEXT, target="all").values():
        start, end = map(int, saliency.target.partition("[")[2][:-1].split(":"))
        assert not saliency.contrary and saliency.facts().place == f" at “{TEXT[start:end]}”"
    assert explain(TEXT, target=(2, None)).facts().place == " at “company”"
    wrong = explain(TEXT, target=("Monday", "LOC" if "PER" in explain(TEXT, target=("Monday", None)).target else "PER"))
    assert wrong.contrary and not wrong.facts().place


@pytest.mark.some(3)
@pytest.mark.parametrize("method", ["gradxact", "integrated", "occlusion", "gae", "attn-lrp", "shapley", "rollout"])
def test_all_labels_of_a_text_take_one_batch(load, forwards, method):
    subject = load("bert", problem_type="multi_label_classification")
    saliencies = nbsal.Explainer(subject, method)(TEXT, target="all")
    if method == "gradxact":
        assert len(forwards) == 1
    assert list(saliencies) == subject.labels
    for label, saliency in saliencies.items():
        alone = nbsal.Explainer(subject, method)(TEXT, target=label)
        assert axioms.relative(saliency.scores, alone.scores) < 1e-10
        assert saliency.target == label


@pytest.mark.parametrize("name", ["Bert", "Roberta"])
def test_a_choice_is_scored_as_by_the_model(name, tmp_path):
    config = zoo.config(name.lower())
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForMultipleChoice")(config).eval()
    tokenizer = zoo.tokenizer(zoo.ARCHITECTURES[name.lower()][2])
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    choices = [("Who wrote the book?", choice) for choice in ("The company.", "The river on Monday.")]
    inputs = tokenizer(*map(list, zip(*choices, strict=True)), return_tensors="pt", padding=True)
    with torch.no_grad():
        truth = model(**{key: tensor[None] for key, tensor in inputs.items()}).logits[0].tolist()
    for subject in (nbsal.load(model, tokenizer=tokenizer), nbsal.load(tmp_path)):
        explain = nbsal.Explainer(subject, "integrated")
        saliencies = explain.map(choices, progress=False)
        assert [saliency.provenance["values"][0] for saliency in saliencies] == pytest.approx(truth, abs=1e-5)
        axioms.batch_equals_singles(explain, choices)
