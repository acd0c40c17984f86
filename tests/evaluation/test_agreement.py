"""Agreement, answers and overlap: in closed form, and against scipy and scikit-learn."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

import nbsal
from nbsal import clouds
from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import answer_recall_at, overlap, precision_at, rank_agreement, rationale_agreement
from nbsal.evaluation._agreement import average_precision, iou_f1, kendall
from tests import axioms, zoo
from tests.evaluation import known


def value(found, measure):
    frame = found.mean().set_index("measure")["mean"]
    return frame[measure]


@pytest.mark.parametrize("seed", range(5))
def test_rankings_agree_as_scipy_and_sklearn_say(seed):
    generator = np.random.default_rng(seed)
    one, other = (generator.permutation(9).tolist() for _ in range(2))
    ranks = np.argsort(one), np.argsort(other)
    assert kendall(one, other) == pytest.approx(kendalltau(*ranks).statistic)
    marked = set(generator.choice(9, 3, replace=False).tolist())
    truth = average_precision_score(np.isin(np.arange(9), list(marked)), -ranks[0])
    assert average_precision(one, marked) == pytest.approx(truth)


def test_pairs_of_explainers_agree_in_closed_form():
    subject = known.counting({})
    scores = {"up": (1, 2, 3, 4), "same": (1, 2, 3, 4), "down": (4, 3, 2, 1), "flat": (0, 0, 0, 0)}
    words = ("a", "and", "the", "end")
    explainers = {name: known.scoring(subject, **dict(zip(words, s, strict=True))) for name, s in scores.items()}
    found = rank_agreement(explainers, ["a and the end", "end"], k=2, progress=False)
    assert found.notes == ("1 texts",)  # one token has no ranking
    frame = found.mean().pivot(index="explainer", columns="measure", values="mean")
    assert frame.loc["up ~ same"].tolist() == [1.0, 1.0]
    assert frame.loc["up ~ down"].tolist() == [0.0, -1.0]
    assert frame.loc["down ~ flat", "kendall"] == 1.0  # equal scores are ranked by position
    with pytest.raises(InputError, match="no ranking"):
        rank_agreement(explainers, ["end"], progress=False)
    with pytest.raises(InputError, match="at least two"):
        rank_agreement({"up": explainers["up"]}, ["a end"], progress=False)
    for k, sentence in [(0, "k must be at least 1"), (True, "k must be a whole number"), ("2", "k must be a whole")]:
        with pytest.raises(InputError, match=sentence):
            rank_agreement(explainers, ["a end"], k=k, progress=False)
    again = rank_agreement(explainers, ["a and the end", "end"], k=np.int64(2), progress=False)
    assert again.measures == found.measures == ["kendall", "jaccard@2"]


def test_rationales_in_closed_form():
    assert iou_f1([1, 2, 8, 9], {1, 2, 3}) == pytest.approx(2 * 0.5 * 1.0 / 1.5)  # {1, 2} matches, {8} does not
    assert iou_f1([5, 6], {1, 2}) == 0.0
    assert iou_f1([5, 6], {5, 6}) == 1.0
    subject = known.counting({})
    explainers = {"right": known.scoring(subject, end=1), "wrong": known.scoring(subject, a=1)}
    texts = ["a and the end", "a"]
    for marked in ([(10, 13)], [0, 0, 0, 1]):
        found = rationale_agreement(explainers, texts, [marked, []], progress=False)
        frame = found.mean().pivot(index="explainer", columns="measure", values="mean")
        assert frame.loc["right"].tolist() == [1.0, 1.0]
        assert frame.loc["wrong"].tolist() == [1 / 4, 0.0]
        assert found.notes == ("1 of 2 texts",)
    for rationales, sentence in [([[]], "1 rationales for 2"), ([[1], [1]], "spans"), ([[], []], "nothing to agree")]:
        with pytest.raises(InputError, match=sentence):
            rationale_agreement(explainers, texts, rationales, progress=False)


QUESTIONS = [("Who wrote it?", "The film is a joy."), ("What is a joy?", "A film, the end.")]
SPANS = [(4, 8), (2, 6)]


def literally(saliencies, spans, k, among):
    """Hits, answer tokens and tokens taken, by loops over characters."""
    found = []
    for saliency, (start, end) in zip(saliencies, spans, strict=True):
        row = saliency.row
        content = [i for i in range(len(row)) if not row.special[i]]
        context = [i for i in content if row.segments[i] == 1]
        context = {"all": range(len(row)), "content": content, "context": context}[among]
        ranked = sorted(context, key=lambda i: (-saliency.scores[i], -saliency.tie_breaker[i], i))[:k]
        gold = [
            i
            for i in range(len(row))
            if not row.special[i] and row.segments[i] == 1 and set(range(*row.offsets[i])) & set(range(start, end))
        ]
        found.append((len(set(ranked) & set(gold)), len(gold), len(ranked)))
    return np.array(found, dtype=float).T


@pytest.mark.parametrize("among", ["context", "content", "all"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_answers_are_found_as_often_as_loops_say(load, k, among):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    hits, gold, taken = literally([explain(q) for q in QUESTIONS], SPANS, k, among)
    options = {"k": k, "among": among, "progress": False}
    assert value(precision_at(explain, QUESTIONS, SPANS, **options), "answer precision") == np.mean(hits / taken)
    assert value(answer_recall_at(explain, QUESTIONS, SPANS, **options), "answer recall") == np.mean(hits / gold)


def test_the_published_precision_is_a_ratio_of_means(load):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    answers = [{"text": ["film"], "answer_start": [4]}, {"text": ["film"], "answer_start": [400]}]
    hits, gold, _ = literally([explain(q) for q in QUESTIONS], [(4, 8), (400, 404)], 3, "all")
    first = sorted(range(len(explain(QUESTIONS[1]).tokens)), key=lambda i: -explain(QUESTIONS[1]).scores[i])[:3]
    hits[1], gold[1] = float(0 in first), 1.0  # an answer that was cut off is the first token
    found = answer_recall_at(explain, QUESTIONS, answers, k=3, variant="published", progress=False)
    assert value(found, "answer ratio") == pytest.approx(hits.sum() / gold.sum())
    with pytest.raises(InputError, match="cut off"):
        answer_recall_at(explain, QUESTIONS, answers, k=3, progress=False)


def test_answers_refuse_what_they_cannot_count(load):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    with pytest.raises(UnknownName, match="context, content, all"):
        precision_at(explain, QUESTIONS, SPANS, among="answer", progress=False)
    with pytest.raises(UnknownName, match="published"):
        answer_recall_at(explain, QUESTIONS, SPANS, variant="old", progress=False)
    with pytest.raises(InputError, match="1 answers for 2"):
        precision_at(explain, QUESTIONS, SPANS[:1], progress=False)
    with pytest.raises(InputError, match="from 1"):
        precision_at(explain, QUESTIONS, SPANS, k=0, progress=False)
    with pytest.raises(InputError, match="no answer"):
        precision_at(explain, QUESTIONS, [SPANS[0], {"text": [], "answer_start": []}], progress=False)
    for odd in ({"text": "joy", "answer_start": [3]}, {"text": ["joy"]}, {"text": [], "answer_start": 3}):
        with pytest.raises(InputError, match="An answer is a span"):
            precision_at(explain, QUESTIONS, [SPANS[0], odd], progress=False)


def test_overlap_is_that_of_the_clouds(load):
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    found = overlap(explainers, texts, [1, 5, 20], progress=False)
    for name, explain in explainers.items():
        cloud = clouds.rank(explain.map(texts, progress=False))
        assert len(cloud.labels) > 1
        shares = found.frame.set_index("explainer").loc[name, "value"].tolist()
        assert shares == [cloud.overlap(k) for k in (1, 5, 20)]
    order = np.random.default_rng(0).permutation(len(texts))
    again = overlap(explainers, [texts[i] for i in order], [1, 5, 20], progress=False)
    assert again.frame.equals(found.frame)


def test_drawn_overlaps_rank_the_tokens_of_the_drawn_texts(load, monkeypatch):
    """Every draw against a cloud made of the drawn texts themselves."""
    monkeypatch.setattr("nbsal.evaluation._overlap.DRAWS", 8)
    explain = nbsal.Explainer(load("bert", decoding=False), "simple")
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    found = overlap({"ours": explain}, texts, [1, 4], progress=False).curves["ours", "overlap"].draws
    saliencies = explain.map(texts, progress=False)
    again = nbsal.evaluation.bootstrap.Resampling(texts, 8)
    for weights, ours in zip(again.weights, found, strict=True):
        counts = np.rint(weights * len(texts)).astype(int)
        drawn = [saliencies[at] for at, count in zip(again.order, counts, strict=True) for _ in range(count)]
        cloud, labels = clouds.rank(drawn), clouds.rank(saliencies).labels
        for k, share in zip([1, 4], ours, strict=True):
            tops = [set(cloud.top(label, k)["token"]) if label in cloud.labels else set() for label in labels]
            pairs = list(combinations(tops, 2))
            assert share == pytest.approx(sum(len(a & b) for a, b in pairs) / (len(pairs) * k))


def test_overlap_needs_counts_and_classes(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    with pytest.raises(InputError, match="from 1"):
        overlap(explain, ["A joy."], [0], progress=False)
    with pytest.raises(InputError, match="texts of two classes"):
        overlap(explain, ["A joy."], progress=False)


def test_rankings_of_other_tokens_are_refused(load):
    explainers = {name: nbsal.Explainer(load(name, decoding=False), "gradxact") for name in ("bert", "roberta")}
    with pytest.raises(InputError, match="the same tokens"):
        rank_agreement(explainers, axioms.TEXTS[:1], progress=False)
