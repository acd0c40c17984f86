"""Test that wrong arguments raise an error that names the argument."""

import numpy as np
import pandas
import pytest

import nbsal
from nbsal import corpus, evaluation
from nbsal.evaluation import clouds, data
from nbsal.figures.arguments import parse_texts
from nbsal.figures.decoding_saliency import toy_geometry
from nbsal.figures.style import panels
from nbsal.heads import HeadMask, Parse, discover, study
from nbsal.methods.catalogue import name_methods
from nbsal.model.targets import label_index
from nbsal.model.text.entities import words_at
from nbsal.support.errors import InputError, NbsalError, UnknownName
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
    "None": None, "number": 42, "bytes": b"A joy.", "dict": {"A joy.": 1}, "pair": ("A joy.", "A bore."),
    "frame": pandas.DataFrame({"A joy.": TEXTS}), "scalar": np.array("A joy."), "numbers": np.array([1, 2]),
    "missing": pandas.Series(["A joy.", None]), "table": np.array([TEXTS]),
}  # fmt: skip
COLUMNS = {
    "series": lambda: pandas.Series(TEXTS, index=[7, 3]), "index": lambda: pandas.Index(TEXTS),
    "categories": lambda: pandas.Series(TEXTS, dtype="category"), "array": lambda: np.array(TEXTS),
    "objects": lambda: np.array(TEXTS, dtype=object), "generator": lambda: (text for text in TEXTS),
}  # fmt: skip


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "gradcam", layer=4)


@cases("function", FUNCTIONS)
def test_values_that_are_not_texts_are_refused(explain, function):
    for kind, value in NO_TEXTS.items():
        if (function, kind) == ("compare", "pair"):
            assert len(FUNCTIONS[function](explain, value)) == 1  # a pair is one text
            continue
        with pytest.raises(InputError) as caught:
            FUNCTIONS[function](explain, value)
        assert caught.value.argument in ("text", "texts"), kind


@cases("function", FUNCTIONS)
def test_columns_and_arrays_are_accepted_as_texts(explain, function):
    def plain(result):
        if isinstance(result, evaluation.Results):
            return result.frame.to_dict()
        return [saliency.text for saliency in result] if function in ("map", "compare") else result

    expected = repr(plain(FUNCTIONS[function](explain, TEXTS)))
    for kind, column in COLUMNS.items() if function == "map" else [("generator", COLUMNS["generator"])]:
        assert repr(plain(FUNCTIONS[function](explain, column()))) == expected, kind


@cases("kind", ["series", "array", "index"])
def test_columns_are_accepted_as_source_of_a_corpus(explain, kind, tmp_path):
    explained = corpus.explain(explain, COLUMNS[kind](), tmp_path / "out", **QUIET)
    assert [saliency.text for saliency in explained] == TEXTS


WRONG = [
    (lambda e: nbsal.Decoded(nbsal.GradCAM), "method"),
    (lambda e: nbsal.answer(e, "Who?"), "subject"),
    (lambda e: nbsal.Explainer("gradcam", e.subject), "method"),
    (lambda e: e(None), "text"),
    (lambda e: e.every_layer(None), "text"),
    (lambda e: nbsal.compare(e.subject, 42, TEXTS), "methods"),
    (lambda e: nbsal.Explainer(e.subject, "rollout", layer=1), "layer"),
    (lambda e: e("A joy.", target=1.5), "target"),
    (lambda e: e.map(TEXTS, targets=["positive"], **QUIET), "targets"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)], **QUIET), "answers"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, [[(0, 1)]], **QUIET), "rationales"),
    (lambda e: e.map(TEXTS, targets={"a": 1}, **QUIET), "target"),
    (lambda e: evaluation.games(e, TEXTS, 42, **QUIET), "labels"),
    (lambda e: evaluation.faithfulness(e, TEXTS, "positive", **QUIET), "labels"),
    (lambda e: evaluation.games(e, TEXTS, fractions=None, **QUIET), "fractions"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions="1", **QUIET), "fractions"),
    (lambda e: evaluation.games(e, TEXTS, random=-1, **QUIET), "random"),
    (lambda e: evaluation.games(e, TEXTS, batch_size=None, **QUIET), "batch_size"),
    (lambda e: evaluation.faithfulness(e, [LONG], [0], variant="published", cache={}, **QUIET), "cache"),
    (lambda e: evaluation.overlap(e, TEXTS, [0], **QUIET), "counts"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)] * 2, None, **QUIET), "k"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, [None, None], **QUIET), "rationales"),
    (lambda e: clouds.rank(e.map(TEXTS, **QUIET), 42), "idf"),
    (lambda e: study(e.subject, [PARSE], relations=42, **QUIET), "relations"),
    (lambda e: discover(e.subject, [PARSE], synt="x", **QUIET), "synt"),
    (lambda e: discover(e.subject, [PARSE], pos=True, **QUIET), "pos"),
    (lambda e: MASK.corrupted("x", 0), "rate"),
    (lambda e: corpus.explain(e, TEXTS, 42, **QUIET), "out"),
    (lambda e: corpus.explain(e, b"A joy.", "never", **QUIET), "source"),
    (lambda e: corpus.open(None), "location"),
    (lambda e: data.load("samples/reviews", shortest=3, tokenizer=42), "tokenizer"),
    (lambda e: nbsal.load("demo/reviews", tokenizer=42), "tokenizer"),
    (lambda e: nbsal.load("demo/reviews", device="cuda:99"), "device"),
    (lambda e: nbsal.load("demo/reviews", labels={1: "good"}), "labels"),
    (lambda e: data.texts(pandas.DataFrame([["a", "b"]], columns=["text", "text"])), "frame"),
    (lambda e: clouds.rank(e.map(TEXTS, **QUIET)).wordcloud("positive", colour="no colour"), "colour"),
    (lambda e: evaluation.at_layers(42), "explainer"),
    (lambda e: nbsal.Explainer(e.subject, "integrated", baselines="zero", layer=0)("A joy."), "baselines"),
    (lambda e: nbsal.Explainer(e.subject, "integrated", tolerance=10**400)("A joy."), "tolerance"),
    (lambda e: toy_geometry(pandas.DataFrame({"a": [1]})), "path"),
    (lambda e: parse_texts(["no-table=3"]), "--texts"),
    (lambda e: parse_texts(["sst2=1" + "0" * 5000]), "--texts"),
    (lambda e: e.map(TEXTS, batch_size=10**5000), "batch_size"),
    (lambda e: words_at(e.subject.encode("A joy.")[0], (1, 2)), "target"),
    (lambda e: nbsal.Explainer(e.subject, nbsal.Decoded("gradcam")), "method"),
    (lambda e: nbsal.Explainer(e.subject, nbsal.Decoded(nbsal.Decoded())), "method"),
    (lambda e: nbsal.Explainer(e.subject, "decoded-gradcam", tau="3"), "tau"),
    (lambda e: nbsal.Explainer(e.subject, "gradcam", layer=True), "layer"),
    (lambda e: nbsal.Explainer(e.subject, "transformer-attribution", start_layer=1.0), "start_layer"),
    (lambda e: e.ids([[2, 9, 3], [2, 10, 3]]), "input_ids"),
    (lambda e: e.map(TEXTS, batch_size=0), "batch_size"),
    (lambda e: e.map(TEXTS, cancel=42), "cancel"),
    (lambda e: evaluation.games(e, TEXTS, cache={}, **QUIET), "cache"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions=iter([2.5]), **QUIET), "fractions"),
    (lambda e: nbsal.Explainer(e.subject, "rollout").every_layer("A joy."), "method"),
    (lambda e: nbsal.compare(e.subject, [], TEXTS), "methods"),
    (lambda e: clouds.rank([42]), "saliencies"),
    (lambda e: evaluation.kendall([1], [2]), "second"),
    (lambda e: evaluation.games(e, TEXTS, random=0, **QUIET).best("low", among=[]), "among"),
    (lambda e: e(["A joy."]), "text"),
    (lambda e: panels(0, 1, 2, 2), "panels"),
    (lambda e: name_methods(42), "methods"),
    (lambda e: HeadMask([[1]], 42), "relations"),
    (lambda e: nbsal.widgets.Answers(e, "Who?", documents=42), "documents"),
    (lambda e: setattr(nbsal.widgets.Highlight(e, text="A joy."), "text", np.zeros(2)), "text"),
]


@cases("call, argument", WRONG)
def test_wrong_arguments_are_named(explain, call, argument):
    with pytest.raises(NbsalError) as caught:
        call(explain)
    assert caught.value.argument == argument and str(caught.value)


def test_single_names_and_numbers_of_numpy_are_accepted(explain):
    assert list(study(explain.subject, [PARSE], relations="amod", **QUIET).cases) == ["amod"]
    assert len(evaluation.overlap(explain, TEXTS, np.arange(1, 3), **QUIET).frame) == 2
    assert len(explain.map(TEXTS, batch_size=np.int64(1), **QUIET)) == 2
    with refuses("target", UnknownName):
        explain("A joy.", target=np.int64(5))


def test_a_missing_argument_is_left_to_python(explain):
    for call in (nbsal.load, explain, evaluation.games):
        with pytest.raises(TypeError, match="missing"):
            call()


def test_labels_that_are_not_strings_are_told_from_what_is_no_list():
    with refuses("labels") as caught:
        nbsal.load("demo/reviews-small", labels=[1, 2])
    assert "strings" in str(caught.value)


def test_an_unknown_target_of_thousands_of_labels_has_a_short_error():
    labels = [f"label {number}" for number in range(30_000)]
    for target in ("nowhere", 30_000):
        with pytest.raises(UnknownName) as caught:
            label_index(target, labels, "target")
        assert len(str(caught.value)) < 400 and len(caught.value.valid) > 30_000
