"""Agreement, answers and overlap against closed forms, scipy and scikit-learn."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

import nbsal
from nbsal.evaluation import (
    answer_recall_at,
    clouds,
    overlap,
    precision_at,
    rank_agreement,
    rationale_agreement,
    token_f1_at,
)
from nbsal.evaluation._agreement import average_precision, iou_f1
from nbsal.evaluation._overlap import bootstrap_weights
from nbsal.evaluation.curve import text_order
from nbsal.evaluation.rankings import kendall
from nbsal.support.errors import InputError, UnknownName
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


def test_rank_agreement_in_closed_form(load):
    subject = toys.word_sum_subject({})
    scores = {"up": (1, 2, 3, 4), "same": (1, 2, 3, 4), "down": (4, 3, 2, 1), "flat": (0, 0, 0, 0)}
    words = ("a", "and", "the", "end")
    explainers = {name: toys.fixed_scores(subject, **dict(zip(words, s, strict=True))) for name, s in scores.items()}
    results = rank_agreement(explainers, ["a and the end", "end"], k=np.int64(2), progress=False)
    assert results.notes == ("1 text",)  # a single token has no ranking
    assert results.measures == ["kendall", "jaccard@2"]
    frame = results.mean().pivot(index="explainer", columns="measure", values="mean")
    assert frame.loc["up ~ same"].tolist() == [1.0, 1.0]
    assert frame.loc["up ~ down"].tolist() == [0.0, -1.0]
    assert frame.loc["down ~ flat", "kendall"] == 1.0  # equal scores are ranked by position
    with refuses("texts"):
        rank_agreement(explainers, ["end"], progress=False)
    other = {name: nbsal.Explainer(load(name, decoding=False), "gradxact") for name in ("bert", "roberta")}
    for wrong in ({"up": explainers["up"]}, other):
        with refuses("explainers"):
            rank_agreement(wrong, axioms.TEXTS[:1], progress=False)
    for k in (0, True, "2"):
        with refuses("k"):
            rank_agreement(explainers, ["a end"], k=k, progress=False)


def test_rationale_agreement_in_closed_form():
    assert iou_f1([1, 2, 8, 9], {1, 2, 3}) == pytest.approx(2 * 0.5 * 1.0 / 1.5)  # {1, 2} matches, {8} does not
    assert iou_f1([5, 6], {1, 2}) == 0.0 and iou_f1([5, 6], {5, 6}) == 1.0
    subject = toys.word_sum_subject({})
    explainers = {"right": toys.fixed_scores(subject, end=1), "wrong": toys.fixed_scores(subject, a=1)}
    texts = ["a and the end", "a"]
    for rationale in ([(10, 13)], [0, 0, 0, 1]):
        results = rationale_agreement(explainers, texts, [rationale, []], progress=False)
        frame = results.mean().pivot(index="explainer", columns="measure", values="mean")
        assert frame.loc["right"].tolist() == [1.0, 1.0] and frame.loc["wrong"].tolist() == [1 / 4, 0.0]
        assert results.notes == ("1 of 2 texts",)
    for rationales in ([[]], [[1], [1]], [[], []]):
        with refuses("rationales"):
            rationale_agreement(explainers, texts, rationales, progress=False)


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


@cases("among, k", [("context", 1), ("context", 50), ("content", 3), ("all", 3)])
def test_answer_precision_and_recall_equal_counting_by_loops(load, k, among):
    explain = nbsal.Explainer(load("bert", "span", decoding=False), "gradxact")
    hits, gold, selected = count_hits([explain(q) for q in QUESTIONS], SPANS, k, among)
    options = {"k": k, "among": among, "progress": False}
    precision = precision_at(explain, QUESTIONS, SPANS, **options)
    recall = answer_recall_at(explain, QUESTIONS, SPANS, **options)
    assert mean_of(precision, "answer precision") == pytest.approx(np.mean(hits / selected))
    assert mean_of(recall, "answer recall") == pytest.approx(np.mean(hits / gold))


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
    with refuses("variant", UnknownName):
        answer_recall_at(explain, QUESTIONS, SPANS, variant="old", progress=False)
    with refuses("k"):
        precision_at(explain, QUESTIONS, SPANS, k=0, progress=False)
    odd = [{"text": "joy", "answer_start": [3]}, {"text": ["joy"]}, {"text": [], "answer_start": 3}]
    for answers in ([], *([answer] for answer in odd), [{"text": [], "answer_start": []}]):
        with refuses("answers"):
            precision_at(explain, QUESTIONS, [SPANS[0], *answers], progress=False)


def test_overlap_equals_the_overlap_of_the_clouds(load):
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    texts = [*axioms.TEXTS, *zoo.CORPUS]
    results = overlap(explainers, texts, [1, 5, 20], progress=False)
    for name, explain in explainers.items():
        cloud = clouds.rank(explain.map(texts, progress=False))
        shares = results.frame.set_index("explainer").loc[name, "value"].tolist()
        assert len(cloud.labels) > 1 and shares == pytest.approx([cloud.overlap(k) for k in (1, 5, 20)])
    assert overlap(explainers, texts[::-1], [1, 5, 20], progress=False).frame.equals(results.frame)
    frame = results.frame.dropna(subset="low")
    assert len(frame) and frame["value"].between(frame["low"], frame["high"]).all()
    assert frame["low"].min() >= 0 and frame["high"].max() <= 1
    same = results.paired("simple", "simple")
    assert same["p_holm"].isna().all() and (same["comparisons"] == 0).all()
    with refuses("counts"):
        overlap(explainers, texts, [0], progress=False)
    with pytest.raises(InputError):  # one class
        overlap(explainers, texts[:1], progress=False)
    # Tokens without weight would, in alphabetical order, be the same for both classes.
    explain = toys.fixed_scores(toys.word_sum_subject({"end": 1.0, "the": -1.0}), end=1, the=1)
    silent = overlap(explain, ["a and end", "a and the"], [1, 2, 3], idf={}, progress=False).frame
    assert silent["value"].tolist() == [0, 0, 0]
    fewer = clouds.Cloud({"a": {"x": 1.0, "y": 0.5, "z": 0.0}, "b": {"w": 3.0, "x": 2.0, "y": 1.0, "z": 0.0}})
    assert [fewer.overlap(k) for k in (1, 2, 3, 4)] == [0, 1 / 2, 2 / 3, 2 / 4]


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
