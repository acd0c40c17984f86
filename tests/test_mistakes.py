"""Arguments of the wrong kind are sentences wherever texts, methods, explainers, tables and masks are asked for."""

import numpy as np
import pandas
import pytest

import nbsal
from nbsal import clouds, corpus, data, evaluation, heads
from nbsal.errors import InputError, NbsalError, UnknownName
from nbsal.heads import HeadMask, Parse, discover, study
from tests import axioms

TEXTS = axioms.TEXTS[:2]
LONG = "A joy " * 12
PARSE = Parse.from_lists(["big", "dog"], [1, -1], ["amod", "root"])
MASK = HeadMask.from_array([[1, 0], [0, 1]])
QUIET = {"progress": False}
# Whoever takes texts, given a subject and an explainer of it.
TAKERS = {
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
@pytest.mark.parametrize("taker", TAKERS)
def test_what_holds_no_texts_is_refused(explain, taker, kind):
    if (taker, kind) == ("compare", "pair"):
        assert len(TAKERS[taker](explain, NO_TEXTS[kind])) == 1  # one text, as it says
        return
    with pytest.raises(InputError, match=r"list of texts|Text \d must be a str"):
        TAKERS[taker](explain, NO_TEXTS[kind])


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("taker", TAKERS)
def test_columns_and_arrays_are_texts(explain, taker, kind):
    told = TAKERS[taker](explain, COLUMNS[kind]())
    truth = TAKERS[taker](explain, TEXTS)
    if isinstance(told, evaluation.Results):
        told, truth = told.frame.to_dict(), truth.frame.to_dict()
    elif taker in ("map", "compare"):
        told, truth = ([one.text for one in found] for found in (told, truth))
    assert repr(told) == repr(truth)


@pytest.mark.parametrize("kind", ["series", "array", "index"])
def test_columns_are_sources_of_a_corpus(explain, kind, tmp_path):
    found = corpus.explain(explain, COLUMNS[kind](), tmp_path / "out", **QUIET)
    assert [one.text for one in found] == TEXTS


ODD = [None, 42, 1.5, b"gradcam", {"a": 1}, [1], np.array([1.0]), pandas.DataFrame({"a": [7]})]
# Each takes something odd in the place of what it asks for; the words are those of its sentence.
ASKED = {
    "a subject": (lambda e, odd: nbsal.Explainer(odd, "gradcam"), "Explain a subject"),
    "a method": (lambda e, odd: nbsal.Explainer(e.subject, odd), "catalogue name or an instance"),
    "a method among others": (lambda e, odd: nbsal.compare(e.subject, [odd], TEXTS, **QUIET), "catalogue name or an"),
    "a named method": (lambda e, odd: nbsal.compare(e.subject, {"x": odd}, TEXTS, **QUIET), "catalogue name or an"),
    "a layer method": (lambda e, odd: nbsal.Decoded(odd), "layer method"),
    "explainers": (lambda e, odd: evaluation.games(odd, TEXTS, **QUIET), "explainers|Explainer"),
    "explainers to judge": (lambda e, odd: evaluation.faithfulness([odd], TEXTS, **QUIET), "explainers holds"),
    "explainers for a corpus": (lambda e, odd: corpus.explain(odd, TEXTS, "never", **QUIET), "explainers|Explainer"),
    "an explainer": (lambda e, odd: evaluation.best_layer(odd, TEXTS, **QUIET), "nbsal.Explainer"),
    "saliencies": (lambda e, odd: clouds.rank(odd), "sequence of Saliency"),
    "a saliency": (lambda e, odd: clouds.rank([odd]), "sequence of Saliency"),
    "a subject to study": (lambda e, odd: study(odd, [PARSE], **QUIET), "Study a subject"),
    "parses": (lambda e, odd: discover(e.subject, odd, **QUIET), "parse"),
    "a mask to join": (lambda e, odd: MASK | odd, "joined with another"),
    "a mask": (lambda e, odd: HeadMask.from_array(odd), "0 and 1"),
    "relations of a mask": (lambda e, odd: HeadMask([[1]], odd), "relations|0 and 1"),
    "a saved saliency": (lambda e, odd: nbsal.Saliency.load(odd), "saved Saliency"),
    "a saved mask": (lambda e, odd: HeadMask.load(odd), "saved head mask"),
    "a table": (lambda e, odd: data.load(odd), "table"),
    "a table's name": (lambda e, odd: data.labels(odd), "table"),
    "answers": (
        lambda e, odd: evaluation.precision_at(e, [("Who?", "Ada did.")], [odd], **QUIET),
        "An answer is a span",
    ),
}


@pytest.mark.parametrize("asked", ASKED)
def test_odd_things_are_refused(explain, asked):
    call, words = ASKED[asked]
    for odd in ODD:
        with pytest.raises(NbsalError, match=words):
            call(explain, odd)


WRONG = [
    (lambda e: nbsal.Decoded("gradcam"), "layer method"),
    (lambda e: nbsal.Decoded(nbsal.Decoded()), "layer method"),
    (lambda e: nbsal.Decoded(nbsal.GradCAM), "layer method"),
    (lambda e: nbsal.compare(e.subject, "gradcam", TEXTS), "methods is a list"),
    (lambda e: nbsal.compare(e.subject, 42, TEXTS), "methods is a list"),
    (lambda e: nbsal.Explainer(e.subject, "gradcam", layer="x"), "layer must be a whole number"),
    (lambda e: nbsal.compare(e.subject, [nbsal.GradCAM(layer="x")], TEXTS), "layer must be a whole number"),
    (lambda e: nbsal.Explainer(e.subject, "decoded-gradcam", lair=1), "settings"),
    (lambda e: e("A joy.", target=1.5), "no label 1.5"),
    (lambda e: e.map(TEXTS, targets={"a": 1}, **QUIET), "no label"),
    (lambda e: e.map(TEXTS, cancel=42), "threading.Event"),
    (lambda e: evaluation.games(e, TEXTS, 42, **QUIET), "labels is a list"),
    (lambda e: evaluation.faithfulness(e, TEXTS, "positive", **QUIET), "labels is a list"),
    (lambda e: evaluation.games(e, TEXTS, fractions="x", **QUIET), "fractions are shares"),
    (lambda e: evaluation.games(e, TEXTS, fractions=None, **QUIET), "fractions are shares"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions=42, **QUIET), "fractions are shares"),
    (lambda e: evaluation.games(e, TEXTS, fractions="1", **QUIET), "fractions are shares .*, not '1'"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions="1", **QUIET), "fractions are shares .*, not '1'"),
    (lambda e: evaluation.games(e, TEXTS, fractions=iter([2.5]), **QUIET), r"not \[2.5\]"),
    (lambda e: evaluation.faithfulness(e, TEXTS, fractions=iter([2.5]), **QUIET), r"not \[2.5\]"),
    (lambda e: evaluation.games(e, TEXTS, random="x", **QUIET), "random must be"),
    (lambda e: evaluation.games(e, TEXTS, random=-1, **QUIET), "random must be at least 0, not -1"),
    (lambda e: evaluation.faithfulness(e, TEXTS, random=-1, **QUIET), "random must be at least 0, not -1"),
    (lambda e: evaluation.games(e, TEXTS, batch_size=None, **QUIET), "batch_size must be"),
    (lambda e: evaluation.games(e, TEXTS, cache=42, **QUIET), "memory is an nbsal.evaluation.Memory"),
    (lambda e: evaluation.games(e, TEXTS, cache={}, **QUIET), "memory is an nbsal.evaluation.Memory"),
    (lambda e: evaluation.faithfulness(e, TEXTS, cache={}, **QUIET), "memory is an nbsal.evaluation.Memory"),
    (lambda e: evaluation.published.deletion(e, [LONG], [0], cache={}, **QUIET), "memory is an nbsal.evaluation.Mem"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)] * 2, cache={}, **QUIET), "memory is an nbsal.evaluation.M"),
    (lambda e: evaluation.overlap(e, TEXTS, "x", **QUIET), "counts is a number of tokens"),
    (lambda e: evaluation.overlap(e, TEXTS, [0], **QUIET), "counts is a number of tokens from 1"),
    (lambda e: evaluation.precision_at(e, TEXTS, None, **QUIET), "answers is a list"),
    (lambda e: evaluation.precision_at(e, TEXTS, [(0, 1)] * 2, None, **QUIET), "k is a number of tokens"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, None, **QUIET), "rationales is a list"),
    (lambda e: evaluation.rationale_agreement(e, TEXTS, [None, None], **QUIET), "A rationale is a list"),
    (lambda e: clouds.rank(e.map(TEXTS, **QUIET), 42), "idf is a dict"),
    (lambda e: study(e.subject, [PARSE], relations=42, **QUIET), "relations is a list of names"),
    (lambda e: study(e.subject, [PARSE], batch_size="x", **QUIET), "batch_size must be"),
    (lambda e: discover(e.subject, [PARSE], synt="x", **QUIET), "synt must be a number"),
    (lambda e: discover(e.subject, [PARSE], pos=True, **QUIET), "pos must be a number"),
    (lambda e: MASK.corrupted("x", 0), "rate is a share"),
    (lambda e: MASK.corrupted(True, 0), "rate is a share"),
    (lambda e: corpus.explain(e, TEXTS, 42, **QUIET), "A corpus lies in a folder"),
    (lambda e: corpus.explain(e, b"A joy.", "never", **QUIET), "A source is"),
    (lambda e: corpus.open(None), "A corpus lies in a folder"),
    (lambda e: data.load("samples/reviews", shortest="x"), "shortest is a number"),
    (lambda e: data.load("samples/reviews", shortest=3, tokenizer=42), "pass tokenizer="),
    (lambda e: data.texts(None), "A table is a frame"),
    (lambda e: nbsal.load("demo/reviews", tokenizer=42), "tokenizer is a folder"),
    (lambda e: nbsal.load("demo/reviews", labels=42), "labels is a list"),
    (lambda e: nbsal.load("demo/reviews", device=[1]), "cannot be used here"),
]


@pytest.mark.parametrize(("mistake", "sentence"), WRONG)
def test_what_is_wrong_is_said(explain, mistake, sentence):
    with pytest.raises(NbsalError, match=sentence):
        mistake(explain)


def test_one_relation_may_be_named_alone(reviews):
    assert list(heads.study(reviews, [PARSE], relations="amod", **QUIET).cases) == ["amod"]


def test_numbers_of_numpy_are_numbers(explain):
    assert len(evaluation.overlap(explain, TEXTS, np.arange(1, 3), **QUIET).frame) == 2
    assert len(explain.map(TEXTS, batch_size=np.int64(1), **QUIET)) == 2
    with pytest.raises(UnknownName, match="label"):
        explain("A joy.", target=np.int64(5))
