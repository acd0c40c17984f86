"""Agreement, answers and overlap against closed forms, scipy and scikit-learn."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

import nbsal
from nbsal import clouds
from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import (
    answer_recall_at,
    overlap,
    precision_at,
    rank_agreement,
    rationale_agreement,
    token_f1_at,
)
from nbsal.evaluation._agreement import average_precision, iou_f1, kendall
from nbsal.evaluation.bootstrap import bootstrap_weights, text_order
from tests import axioms, zoo
from tests.cases import cases
from tests.evaluation import toys
from tests.raising import refuses


def mean_of(results, measure):
    return results.mean().set_index("measure")["mean"][measure]


@cases("seed", range(5))
def test_kendall_and_average_precision_equal_scipy_and_sklearn(seed):
    generator = np.random.default_rng(seed)
    first, second = (generator.permutation(9).tolist() for _ in range(2))
    ranks = np.argsort(first), np.argsort(second)
    assert kendall(first, second) == pytest.approx(kendalltau(*ranks).statistic)
    marked = set(generator.choice(9, 3, replace=False).tolist())
    truth = average_precision_score(np.isin(np.arange(9), list(marked)), -ranks[0])
    assert average_precision(first, marked) == pytest.approx(truth)


def test_rank_agreement_in_closed_form():
    subject = toys.word_sum_subject({})
    scores = {"up": (1, 2, 3, 4), "same": (1, 2, 3, 4), "down": (4, 3, 2, 1), "flat": (0, 0, 0, 0)}
    words = ("a", "and", "the", "end")
    explainers = {name: toys.fixed_scores(subject, **dict(zip(words, s, strict=True))) for name, s in scores.items()}
    results = rank_agreement(explainers, ["a and the end", "end"], k=2, progress=False)
    assert results.notes == ("1 text",)  # a single token has no ranking
    frame = results.mean().pivot(index="explainer", columns="measure", values="mean")
    assert frame.loc["up ~ same"].tolist() == [1.0, 1.0]
    assert frame.loc["up ~ down"].tolist() == [0.0, -1.0]
    assert frame.loc["down ~ flat", "kendall"] == 1.0  # equal scores are ranked by position
    with refuses("texts"):
        rank_agreement(explainers, ["end"], progress=False)
    with refuses("explainers"):
        rank_agreement({"up": explainers["up"]}, ["a end"], progress=False)
    for k in (0, True, "2"):
        with refuses("k") as caught:
            rank_agreement(explainers, ["a end"], k=k, progress=False)
        assert caught.value.value is k
    numpy_k = rank_agreement(explainers, ["a and the end", "end"], k=np.int64(2), progress=False)
    assert numpy_k.measures == results.measures == ["kendall", "jaccard@2"]


def test_rationale_agreement_in_closed_form():
    assert iou_f1([1, 2, 8, 9], {1, 2, 3}) == pytest.approx(2 * 0.5 * 1.0 / 1.5)  # {1, 2} matches, {8} does not
    assert iou_f1([5, 6], {1, 2}) == 0.0
    assert iou_f1([5, 6], {5, 6}) == 1.0
    subject = toys.word_sum_subject({})
    explainers = {"right": toys.fixed_scores(subject, end=1), "wrong": toys.fixed_scores(subject, a=1)}
    texts = ["a and the end", "a"]
    for rationale in ([(10, 13)], [0, 0, 0, 1]):
        results = rationale_agreement(explainers, texts, [rationale, []], progress=False)
        frame = results.mean().pivot(index="explainer", columns="measure", values="mean")
        assert frame.loc["right"].tolist() == [1.0, 1.0]
        assert frame.loc["wrong"].tolist() == [1 / 4, 0.0]
        assert results.notes == ("1 of 2 texts",)
    too_few, too_short, empty = [[]], [[1], [1]], [[], []]
    for rationales, value in [(too_few, too_few), (too_short, [1]), (empty, empty)]:
        with refuses("rationales") as caught:
            rationale_agreement(explainers, texts, rationales, progress=False)
        assert caught.value.value == value


QUESTIONS = [("Who wrote it?", "The film is a joy."), ("What is a joy?", "A film, the end.")]
SPANS = [(4, 8), (2, 6)]


def count_hits(saliencies, spans, k, among):
    """Hits, answer tokens and selected tokens, counted by loops over characters."""
    counts = []
    for saliency, (start, end) in zip(saliencies, spans, strict=True):
        row = saliency.row
        content = [i for i in range(len(row)) if not row.special[i]]
        context = [i for i in content if row.segments[i] == 1]
        candidates = {"all": range(len(row)), "content": content, "context": context}[among]
        ranked = sorted(candidates, key=lambda i: (-saliency.scores[i], -saliency.tie_breaker[i], i))[:k]
        gold = [i for i in context if set(range(*row.offsets[i])) & set(range(start, end))]
        counts.append((len(set(ranked) & set(gold)), len(gold), len(ranked)))
    return np.array(counts, dtype=float).T


@pytest.mark.parametrize("among", ["context", "content", "all"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_answer_precision_and_recall_equal_counting_by_loops(load, k, among):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    hits, gold, selected = count_hits([explain(q) for q in QUESTIONS], SPANS, k, among)
    options = {"k": k, "among": among, "progress": False}
    precision = precision_at(explain, QUESTIONS, SPANS, **options)
    recall = answer_recall_at(explain, QUESTIONS, SPANS, **options)
    assert mean_of(precision, "answer precision") == np.mean(hits / selected)
    assert mean_of(recall, "answer recall") == np.mean(hits / gold)


def test_the_published_precision_is_a_ratio_of_means(load):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    truncated = {"text": ["film"], "answer_start": [400]}
    answers = [{"text": ["film"], "answer_start": [4]}, truncated]
    hits, gold, _ = count_hits([explain(q) for q in QUESTIONS], [(4, 8), (400, 404)], 3, "all")
    top = sorted(range(len(explain(QUESTIONS[1]).tokens)), key=lambda i: -explain(QUESTIONS[1]).scores[i])[:3]
    hits[1], gold[1] = float(0 in top), 1.0  # a truncated answer is replaced by the first token
    results = answer_recall_at(explain, QUESTIONS, answers, k=3, variant="published", progress=False)
    assert mean_of(results, "answer ratio") == pytest.approx(hits.sum() / gold.sum())
    with refuses("answers") as caught:
        answer_recall_at(explain, QUESTIONS, answers, k=3, progress=False)
    assert caught.value.value == truncated


def test_answer_evaluations_refuse_wrong_arguments(load):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    with refuses("among", UnknownName) as caught:
        precision_at(explain, QUESTIONS, SPANS, among="answer", progress=False)
    assert caught.value.valid == ("context", "content", "all")
    with refuses("variant", UnknownName) as caught:
        answer_recall_at(explain, QUESTIONS, SPANS, variant="old", progress=False)
    assert caught.value.valid == ("published",)
    with refuses("answers"):
        precision_at(explain, QUESTIONS, SPANS[:1], progress=False)
    with refuses("k"):
        precision_at(explain, QUESTIONS, SPANS, k=0, progress=False)
    no_answer = {"text": [], "answer_start": []}
    odd = [{"text": "joy", "answer_start": [3]}, {"text": ["joy"]}, {"text": [], "answer_start": 3}]
    for answer in (no_answer, *odd):
        with refuses("answers") as caught:
            precision_at(explain, QUESTIONS, [SPANS[0], answer], progress=False)
        assert caught.value.value == answer


def test_overlap_equals_the_overlap_of_the_clouds(load):
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    results = overlap(explainers, texts, [1, 5, 20], progress=False)
    for name, explain in explainers.items():
        cloud = clouds.rank(explain.map(texts, progress=False))
        assert len(cloud.labels) > 1
        shares = results.frame.set_index("explainer").loc[name, "value"].tolist()
        assert shares == [cloud.overlap(k) for k in (1, 5, 20)]
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = overlap(explainers, [texts[i] for i in order], [1, 5, 20], progress=False)
    assert shuffled.frame.equals(results.frame)


def test_bootstrap_draws_of_overlap_rank_the_tokens_of_the_sampled_texts(load, monkeypatch):
    """Every draw is compared with a cloud of the sampled texts themselves."""
    monkeypatch.setattr("nbsal.evaluation._overlap.DRAWS", 8)
    explain = nbsal.Explainer(load("bert", decoding=False), "simple")
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    draws = overlap({"ours": explain}, texts, [1, 4], progress=False).curves["ours", "overlap"].samples.T
    saliencies = explain.map(texts, progress=False)
    order = text_order(texts)
    for weights, draw in zip(bootstrap_weights(len(texts), 8), draws, strict=True):
        counts = np.rint(weights * len(texts)).astype(int)
        sample = [saliencies[at] for at, count in zip(order, counts, strict=True) for _ in range(count)]
        cloud, labels = clouds.rank(sample), clouds.rank(saliencies).labels
        for k, share in zip([1, 4], draw, strict=True):
            ranked = [cloud.top(label).query("weight > 0") if label in cloud.labels else None for label in labels]
            tops = [[] if frame is None else frame["token"].tolist()[:k] for frame in ranked]
            shares = [len({*a} & {*b}) / k for a, b in combinations(tops, 2)]
            assert share == pytest.approx(np.mean(shares))


def test_tokens_without_weight_are_not_shared():
    """All tokens but two have no weight; in alphabetical order they would be the same for both classes."""
    subject = toys.word_sum_subject({"end": 1.0, "the": -1.0})
    explain = toys.fixed_scores(subject, end=1, the=1)
    results = overlap(explain, ["a and end", "a and the"], [1, 2, 3], idf={}, progress=False)
    assert results.frame["value"].tolist() == [0.0, 0.0, 0.0]
    silent = overlap(toys.fixed_scores(subject), ["a and end", "a and the"], [2], progress=False)
    assert silent.frame["value"].item() == 0.0
    same = clouds.Cloud({"a": {"x": 1.0, "y": 0.0, "z": -1.0}, "b": {"x": 2.0, "y": 0.0, "z": -1.0}})
    assert same.overlap(3) == 1 / 3 and same.shared(3)["shared"].item() == 1
    fewer = clouds.Cloud({"a": {"x": 1.0, "y": 0.5, "z": 0.0}, "b": {"w": 3.0, "x": 2.0, "y": 1.0, "z": 0.0}})
    assert [fewer.overlap(k) for k in (1, 2, 3, 4)] == [0, 1 / 2, 2 / 3, 2 / 4]


def test_the_interval_of_an_overlap_is_around_its_value(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "simple")
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    results = overlap(
        {"ours": explain, "also": nbsal.Explainer(explain.subject, "gradcam", layer=0)}, texts, progress=False
    )
    frame = results.frame.dropna(subset="low")
    assert len(frame) and (frame["low"] < frame["value"]).all() and (frame["value"] < frame["high"]).all()
    assert frame["low"].min() >= 0 and frame["high"].max() <= 1
    assert results.paired("ours", "also")["p"].between(0, 1).all()
    subject = toys.word_sum_subject({"end": 1.0})
    few = overlap(toys.fixed_scores(subject, end=1, a=1), ["the end", "a and"], [1], progress=False).frame
    assert few["value"].item() == 0 and few[["low", "high"]].isna().all(axis=None)  # the same in every sample
    assert (
        results.paired("ours", "ours")["p_holm"].isna().all()
        and results.paired("ours", "ours").at[0, "comparisons"] == 0
    )


def test_overlap_needs_positive_counts_and_two_classes(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    with refuses("counts"):
        overlap(explain, ["A joy."], [0], progress=False)
    with pytest.raises(InputError):
        overlap(explain, ["A joy."], progress=False)


def test_rankings_of_different_tokens_are_refused(load):
    explainers = {name: nbsal.Explainer(load(name, decoding=False), "gradxact") for name in ("bert", "roberta")}
    with refuses("explainers"):
        rank_agreement(explainers, axioms.TEXTS[:1], progress=False)


def test_token_f1_counts_the_top_tokens_that_people_marked():
    subject = toys.word_sum_subject({"end": 1.0})
    explain = toys.fixed_scores(subject, end=3, the=2, a=1)
    results = token_f1_at(explain, ["a the end", "a and", "the end"], [[(2, 9)], [], [0, 1]], [1, 2], progress=False)
    frame = results.frame
    assert frame["k"].tolist() == [1, 2] and results.notes == ("2 of 3 texts",)  # one text has no rationale
    assert frame["value"].tolist() == pytest.approx([(2 / 3 + 1) / 2, (1 + 2 / 3) / 2])
    assert results.metric.better == {"token f1": "high"}
    with refuses("k"):
        token_f1_at(explain, ["a the end"], [[(2, 9)]], 0, progress=False)
    with refuses("rationales"):
        token_f1_at(explain, ["a the end"], [[]], progress=False)
