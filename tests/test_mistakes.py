"""Test that wrong arguments raise an error that names the argument."""

import numpy as np
import pandas
import pytest

import nbsal
from nbsal import clouds, corpus, data, evaluation, heads
from nbsal.errors import InputError, NbsalError, UnknownName
from nbsal.figures.arguments import parse_texts
from nbsal.figures.decoding_saliency import toy_geometry
from nbsal.heads import HeadMask, Parse, discover, study
from nbsal.model.entities import words_at
from tests import axioms
from tests.cases import cases
from tests.raising import refuses

TEXTS = axioms.TEXTS[:2]
LONG = "A joy " * 12
PARSE = Parse.from_lists(["big", "dog"], [1, -1], ["amod", "root"])
MASK = HeadMask.from_array([[1, 0], [0, 1]])
QUIET = {"progress": False}
# Every function that takes texts.
FUNCTIONS = {
    "map": lambda explain, texts: explain.map(texts, **QUIET),
    "compare": lambda explain, texts: nbsal.compare(explain.subject, ["gradcam"], texts, **QUIET)["gradcam"],
    "games": lambda explain, texts: evaluation.games(explain, texts, random=0, **QUIET),
    "faithfulness": lambda explain, texts: evaluation.faithfulness(explain, texts, **QUIET),
    "overlap": lambda explain, texts: evaluation.overlap(explain, texts, [1], **QUIET),
    "best_layer": lambda explain, texts: evaluation.best_layer(explain, texts, **QUIET),
    "rarity": lambda explain, texts: clouds.inverse_document_frequency(texts, explain.subject),
}
NO_TEXTS = {
    "None": None,
    "number": 42,
    "bytes": b"A joy.",
    "dict": {"A joy.": 1},
    "frame": pandas.DataFrame({"A joy.": TEXTS}),
    "pair": ("A joy.", "A bore."),
    "scalar": np.array("A joy."),
    "missing": pandas.Series(["A joy.", None]),
    "numbers": np.array([1, 2]),
    "table": np.array([TEXTS]),
}
COLUMNS = {
    "series": lambda: pandas.Series(TEXTS, index=[7, 3]),
    "categories": lambda: pandas.Series(TEXTS, dtype="category"),
    "index": lambda: pandas.Index(TEXTS),
    "array": lambda: np.array(TEXTS),
    "objects": lambda: np.array(TEXTS, dtype=object),
    "generator": lambda: (text for text in TEXTS),
}


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "gradcam", layer=4)


@pytest.mark.parametrize("kind", NO_TEXTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_that_are_not_texts_are_refused(explain, function, kind):
    if (function, kind) == ("compare", "pair"):
        assert len(FUNCTIONS[function](explain, NO_TEXTS[kind])) == 1  # a pair is one text
        return
    with pytest.raises(InputError) as caught:
        FUNCTIONS[function](explain, NO_TEXTS[kind])
    assert caught.value.argument in ("text", "texts")


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_columns_and_arrays_are_accepted_as_texts(explain, function, kind):
    result, expected = FUNCTIONS[function](explain, COLUMNS[kind]()), FUNCTIONS[function](explain, TEXTS)
    if isinstance(result, evaluation.Results):
        result, expected = result.frame.to_dict(), expected.frame.to_dict()
    elif function in ("map", "compare"):
        result, expected = ([saliency.text for saliency in many] for many in (result, expected))
    assert repr(result) == repr(expected)


@pytest.mark.parametrize("kind", ["series", "array", "index"])
def test_columns_are_accepted_as_source_of_a_corpus(explain, kind, tmp_path):
    explained = corpus.explain(explain, COLUMNS[kind](), tmp_path / "out", **QUIET)
    assert [saliency.text for saliency in explained] == TEXTS


ODD = [None, 42, 1.5, b"gradcam", {"a": 1}, [1], np.array([1.0]), pandas.DataFrame({"a": [7]})]
# Calls with an odd value, and the arguments that the error may name.
ODD_CALLS = {
    "subject": (lambda e, odd: nbsal.Explainer(odd, "gradcam"), "subject"),
    "method": (lambda e, odd: nbsal.Explainer(e.subject, odd), "method"),
    "list of methods": (lambda e, odd: nbsal.compare(e.subject, [odd], TEXTS, **QUIET), "methods"),
    "dict of methods": (lambda e, odd: nbsal.compare(e.subject, {"x": odd}, TEXTS, **QUIET), "methods"),
    "decoded method": (lambda e, odd: nbsal.Decoded(odd), "method"),
    "explainers": (lambda e, odd: evaluation.games(odd, TEXTS, **QUIET), "explainers"),
    "list of explainers": (lambda e, odd: evaluation.faithfulness([odd], TEXTS, **QUIET), "explainers"),
    "explainers of a corpus": (lambda e, odd: corpus.explain(odd, TEXTS, "never", **QUIET), "explainers"),
    "explainer": (lambda e, odd: evaluation.best_layer(odd, TEXTS, **QUIET), "explainer"),
    "saliencies": (lambda e, odd: clouds.rank(odd), "saliencies"),
    "list of saliencies": (lambda e, odd: clouds.rank([odd]), "saliencies"),
    "subject of a study": (lambda e, odd: study(odd, [PARSE], **QUIET), "subject"),
    "parses": (lambda e, odd: discover(e.subject, odd, **QUIET), "parses"),
    "other mask": (lambda e, odd: MASK | odd, "mask"),
    "mask": (lambda e, odd: HeadMask.from_array(odd), "mask array"),
    "relations of a mask": (lambda e, odd: HeadMask([[1]], odd), "relations mask"),
    "saved saliency": (lambda e, odd: nbsal.Saliency.load(odd), "path"),
    "saved mask": (lambda e, odd: HeadMask.load(odd), "path"),
    "table": (lambda e, odd: data.load(odd), "name"),
    "labels of a table": (lambda e, odd: data.labels(odd), "name"),
    "answers": (lambda e, odd: evaluation.precision_at(e, [("Who?", "Ada did.")], [odd], **QUIET), "answers"),
}


@cases("name", ODD_CALLS)
def test_odd_values_are_refused(explain, name):
    call, arguments = ODD_CALLS[name]
    for odd in ODD:
        with pytest.raises(NbsalError) as caught:
            call(explain, odd)
        assert caught.value.argument in arguments.split(), odd


WRONG = [
    (lambda e: nbsal.Decoded("gradcam"), "method"),
    (lambda e: nbsal.Decoded(nbsal.Decoded()), "method"),
    (lambda e: nbsal.Decoded(nbsal.GradCAM), "method"),
    (lambda e: nbsal.Explainer(e.subject, nbsal.GradCAM), "method"),
    (lambda e: nbsal.answer(e, "Who?"), "subject"),
    (lambda e: nbsal.Explainer("gradcam", e.subject), "subject"),  # the first of two that are wrong
    (lambda e: e(None), "text"),
    (lambda e: e.every_layer(None), "text"),
    (lambda e: nbsal.compare({}, "gradcam", TEXTS), "subject"),
    (lambda e: nbsal.compare(e.subject, 42, TEXTS), "methods"),
    (lambda e: nbsal.Explainer(e.subject, "gradcam", layer="x"), "layer"),
    (lambda e: nbsal.compare(e.subject, [nbsal.GradCAM(layer="x")], TEXTS), "layer"),
    (lambda e: nbsal.Explainer(e.subject, "decoded-gradcam", lair=1), "lair"),
    (lambda e: nbsal.Explainer(e.subject, "rollout", layer=1), "layer"),
    (lambda e: e("A joy.", target=1.5), "target"),
    (lambda e: e.map(TEXTS, targets=["positive"], **QUIET), "targets"),
    (lambda e: e.map(iter(TEXTS), targets=["positive"], **QUIET), "targets"),
    (lambda e: evaluation.games(e, TEXTS, ["positive"], **QUIET), "labels"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)], **QUIET), "answers"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, [[(0, 1)]], **QUIET), "rationales"),
    (lambda e: e.map(TEXTS, targets={"a": 1}, **QUIET), "target"),
    (lambda e: e.map(TEXTS, cancel=42), "cancel"),
    (lambda e: evaluation.games(e, TEXTS, 42, **QUIET), "labels"),
    (lambda e: evaluation.faithfulness(e, TEXTS, "positive", **QUIET), "labels"),
    (lambda e: evaluation.games(e, TEXTS, fractions="x", **QUIET), "fractions"),
    (lambda e: evaluation.games(e, TEXTS, fractions=None, **QUIET), "fractions"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions=42, **QUIET), "fractions"),
    (lambda e: evaluation.games(e, TEXTS, fractions="1", **QUIET), "fractions"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions="1", **QUIET), "fractions"),
    (lambda e: evaluation.games(e, TEXTS, fractions=iter([2.5]), **QUIET), "fractions"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions=iter([2.5]), **QUIET), "fractions"),
    (lambda e: evaluation.games(e, TEXTS, random="x", **QUIET), "random"),
    (lambda e: evaluation.games(e, TEXTS, random=-1, **QUIET), "random"),
    (lambda e: evaluation.faithfulness(e, TEXTS, random=-1, **QUIET), "random"),
    (lambda e: evaluation.games(e, TEXTS, batch_size=None, **QUIET), "batch_size"),
    (lambda e: evaluation.games(e, TEXTS, cache=42, **QUIET), "cache"),
    (lambda e: evaluation.games(e, TEXTS, cache={}, **QUIET), "cache"),
    (lambda e: evaluation.faithfulness(e, TEXTS, cache={}, **QUIET), "cache"),
    (lambda e: evaluation.faithfulness(e, [LONG], [0], variant="published", cache={}, **QUIET), "cache"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)] * 2, cache={}, **QUIET), "cache"),
    (lambda e: evaluation.overlap(e, TEXTS, "x", **QUIET), "counts"),
    (lambda e: evaluation.overlap(e, TEXTS, [0], **QUIET), "counts"),
    (lambda e: evaluation.precision_at(e, TEXTS, None, **QUIET), "answers"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)] * 2, None, **QUIET), "k"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, None, **QUIET), "rationales"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, [None, None], **QUIET), "rationales"),
    (lambda e: clouds.rank(e.map(TEXTS, **QUIET), 42), "idf"),
    (lambda e: study(e.subject, [PARSE], relations=42, **QUIET), "relations"),
    (lambda e: study(e.subject, [PARSE], batch_size="x", **QUIET), "batch_size"),
    (lambda e: discover(e.subject, [PARSE], synt="x", **QUIET), "synt"),
    (lambda e: discover(e.subject, [PARSE], pos=True, **QUIET), "pos"),
    (lambda e: MASK.corrupted("x", 0), "rate"),
    (lambda e: MASK.corrupted(True, 0), "rate"),
    (lambda e: corpus.explain(e, TEXTS, 42, **QUIET), "out"),
    (lambda e: corpus.explain(e, b"A joy.", "never", **QUIET), "source"),
    (lambda e: corpus.open(None), "location"),
    (lambda e: data.load("samples/reviews", shortest="x"), "shortest"),
    (lambda e: data.load("samples/reviews", shortest=3, tokenizer=42), "tokenizer"),
    (lambda e: data.texts(None), "frame"),
    (lambda e: nbsal.load("demo/reviews", tokenizer=42), "tokenizer"),
    (lambda e: nbsal.load("demo/reviews", labels=42), "labels"),
    (lambda e: nbsal.load("demo/reviews", device=[1]), "device"),
    (lambda e: nbsal.load("demo/reviews", device="cuda:99"), "device"),
    (lambda e: nbsal.load("demo/reviews", labels={1: "good"}), "labels"),
    (lambda e: data.texts(pandas.DataFrame({"n": [1]})), "frame"),
    (lambda e: data.texts(pandas.DataFrame([["a", "b"]], columns=["text", "text"])), "frame"),
    (lambda e: clouds.weigh([], 42, "token"), "idf"),
    (lambda e: clouds.rank(42), "saliencies"),
    (lambda e: clouds.rank(e.map(TEXTS, **QUIET)).wordcloud("positive", colour="no colour"), "colour"),
    (lambda e: evaluation.games(e, TEXTS, cache=42, **QUIET), "cache"),
    (lambda e: evaluation.games([42], TEXTS, **QUIET), "explainers"),
    (lambda e: evaluation.games({"one": [42]}, TEXTS, **QUIET), "explainers"),
    (lambda e: evaluation.games(e, TEXTS, fractions=["x"], **QUIET), "fractions"),
    (lambda e: evaluation.at_layers(42), "explainer"),
    (lambda e: heads.study(e.subject, [PARSE], relations=[1], **QUIET), "relations"),
    (lambda e: e.map(TEXTS, cancel=42), "cancel"),
    (lambda e: nbsal.Decoded("gradcam"), "method"),
    (lambda e: nbsal.Explainer(e.subject, "integrated", baselines="zero", layer=0)("A joy."), "baselines"),
    (lambda e: nbsal.Explainer(e.subject, "gradient-shap", baselines=(), layer=0)("A joy."), "baselines"),
    (lambda e: nbsal.Explainer(e.subject, "integrated", tolerance=10**400)("A joy."), "tolerance"),
    (lambda e: toy_geometry(pandas.DataFrame({"a": [1]})), "path"),
    (lambda e: parse_texts(["no-table=3"]), "--texts"),
    (lambda e: parse_texts(["sst2=0"]), "--texts"),
    (lambda e: parse_texts(["sst2=1" + "0" * 5000]), "--texts"),
    (lambda e: e.map(TEXTS, batch_size=10**5000), "batch_size"),
    (lambda e: words_at(e.subject.encode("A joy.")[0], (1, 2)), "target"),
    (lambda e: words_at(e.subject.encode("A joy.")[0], (1, "2")), "target"),
]


@cases("call, argument", WRONG)
def test_wrong_arguments_are_named(explain, call, argument):
    with pytest.raises(NbsalError) as caught:
        call(explain)
    assert caught.value.argument == argument and str(caught.value)


def test_one_relation_may_be_a_string(reviews):
    assert list(heads.study(reviews, [PARSE], relations="amod", **QUIET).cases) == ["amod"]


def test_numbers_of_numpy_are_accepted(explain):
    assert len(evaluation.overlap(explain, TEXTS, np.arange(1, 3), **QUIET).frame) == 2
    assert len(explain.map(TEXTS, batch_size=np.int64(1), **QUIET)) == 2
    with refuses("target", UnknownName):
        explain("A joy.", target=np.int64(5))


def test_the_class_of_models_is_refused_with_the_way_to_a_model():
    with refuses("subject") as caught:
        nbsal.Explainer(nbsal.Subject, "gradcam")
    assert "nbsal.load" in str(caught.value) and "Subject(" not in str(caught.value)


def test_a_missing_argument_is_left_to_python(explain):
    for call in (nbsal.load, explain, evaluation.games):
        with pytest.raises(TypeError, match=r"missing \d required positional argument"):
            call()
