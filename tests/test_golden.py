"""Our @published variants against the numbers of the authors' programs."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.passes import trace
from nbsal.passes.lrp import rules
from tests import golden
from tests.axioms import relative

EXACT, RELEVANCE, SCORE = 1e-12, 1e-5, 1e-6
KEYS = {
    "mlrp_GAE": ("transformer-attribution@published", {}, SCORE),
    "mlrp_MGAE_none": ("transformer-attribution@published", {}, SCORE),
    "chefer_ta_start0": ("transformer-attribution@chefer", {}, SCORE),
    "chefer_ta_startlast": ("transformer-attribution@chefer", {"start_layer": 3}, SCORE),
    **{f"mlrp_MGAE_{name}": ("mask-lrp@published", {"mask": mask}, SCORE) for name, mask in golden.MASKS.items()},
    "mlrp_LRP": ("lrp@published", {}, SCORE),
    "chefer_full_lrp_ours_rules": ("lrp@published", {}, SCORE),
    "mlrp_PartialLRP": ("partial-lrp@published", {}, SCORE),
    "chefer_partial_lrp_ours_rules": ("partial-lrp@published", {}, SCORE),
    "origlrp_full": ("lrp@chefer", {}, SCORE),
    "origlrp_partial": ("partial-lrp@chefer", {}, SCORE),
    "mlrp_RawAtt": ("raw-attention@published", {}, EXACT),
    "chefer_raw_attn": ("raw-attention@published", {}, EXACT),
    "mlrp_Rollout": ("rollout@published", {}, EXACT),
    "chefer_rollout": ("rollout@published", {}, EXACT),
    "mlrp_CAM": ("attention-cam@published", {}, EXACT),
    "mlrp_GradCAM": ("attention-gradcam@published", {}, EXACT),
    "chefer_attn_gradcam": ("attention-gradcam@published", {}, EXACT),
    "mlrp_AttCAT": ("attcat@published", {}, EXACT),
    "attcat_repo": ("attcat", {}, EXACT),
    "gae2021a": ("gae", {}, EXACT),
    "alti": ("alti", {}, EXACT),
    "alti_ln2": ("alti", {"second_norm": True}, EXACT),
}


@pytest.mark.some(14)
@pytest.mark.parametrize("case", golden.CASES)
@pytest.mark.parametrize("key", KEYS)
def test_scores(key, case):
    name, settings, limit = KEYS[key]
    truth = golden.BERT[f"{case}/{key}"]
    explain = nbsal.Explainer(golden.subject("bert_small"), name, **settings)
    scores = explain.ids(**golden.inputs(case), target=int(golden.BERT[f"{case}/target"])).scores
    if np.isnan(truth).any():  # 0/0 in the published program: all evidence was negative
        assert np.array_equal(np.isnan(scores), np.isnan(truth))
    else:
        assert relative(scores, truth) < limit


@pytest.mark.some(4)
@pytest.mark.parametrize("case", golden.CASES)
def test_traces_and_relevance(case):
    subject = golden.subject("bert_small")
    recorded = trace.record(
        subject, subject.encode_ids(**golden.inputs(case)), [int(golden.BERT[f"{case}/target"])], trace.NEEDS
    )
    stacked = lambda parts, keys: torch.stack([parts[key][0] for key in keys])  # noqa: E731
    published = recorded.relevance_maps(rules.PUBLISHED)
    chefer = recorded.relevance_maps(rules.CHEFER_RULES)
    results = {
        "logits": (recorded.logits, EXACT),
        "attn": (stacked(recorded.attention, range(4)), EXACT),
        "attn_grad": (stacked(recorded.attention_grad, range(4)), EXACT),
        "attn_cam": (stacked(published.attention, range(4)), RELEVANCE),
        "rel_out": (stacked(published.hidden, range(1, 5)), RELEVANCE),
        "rel_in0": (published.hidden[0][0], RELEVANCE),
        "origlrp_attn_cam": (stacked(chefer.attention, range(4)), RELEVANCE),
    }
    for key, (ours, limit) in results.items():
        assert relative(ours, golden.BERT[f"{case}/{key}"]) < limit, key


@pytest.mark.parametrize("case", golden.CASES)
@pytest.mark.parametrize("name", golden.MASKS)
def test_masked_relevance(case, name):
    subject = golden.subject("bert_small")
    method = nbsal.Explainer(subject, "mask-lrp@published", mask=golden.MASKS[name]).method
    encoded = subject.encode_ids(**golden.inputs(case))
    recorded = trace.record(subject, encoded, [int(golden.BERT[f"{case}/target"])], needs=set())
    maps = recorded.relevance_maps(rules.PUBLISHED, method.attention_filter(recorded))
    prefix = f"{case}/mlrp_MGAE_{name}"
    ours = torch.stack([maps.attention[block][0] for block in range(4)])
    assert relative(ours, golden.BERT[f"{prefix}_attn_cam"]) < RELEVANCE
    assert relative(maps.hidden[0][0], golden.BERT[f"{prefix}_rel_in0"]) < RELEVANCE
    out = torch.stack([maps.hidden[layer][0] for layer in range(1, 5)])
    assert relative(out, golden.BERT[f"{prefix}_rel_out"]) < RELEVANCE


SPANS = {
    "MGAE_none": ("transformer-attribution@published", {}),
    "MGAE_A": ("mask-lrp@published", {"mask": golden.MASKS["A"]}),
    "MGAE_ones": ("mask-lrp@published", {"mask": golden.MASKS["ones"]}),
    "AttCAT": ("attcat@published", {}),
    "RawAtt": ("raw-attention@published", {}),
    "Rollout": ("rollout@published", {}),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("key", SPANS)
def test_spans_are_the_sum_of_both_ends(key):
    name, settings = SPANS[key]
    explain = nbsal.Explainer(golden.subject("bertqa_small"), name, **settings)
    ids = golden.QA["bert/c1/input_ids"]
    start, end = golden.QA["bert/c1/logits"][0].argmax(0)
    truth = [golden.QA[f"bert/c1/{side}/{key}"] for side in ("start", "end")]
    assert relative(explain.ids(ids, target=(start, None)).scores, truth[0]) < SCORE
    assert relative(explain.ids(ids, target=(None, end)).scores, truth[1]) < SCORE
    assert relative(explain.ids(ids, target=(start, end)).scores, truth[0] + truth[1]) < SCORE


def test_without_evidence_scores_are_zero_with_a_warning():
    case = next(c for c in golden.CASES if np.isnan(golden.BERT[f"{c}/mlrp_GradCAM"]).any())
    explain = nbsal.Explainer(golden.subject("bert_small"), "attention-gradcam")
    with pytest.warns(UserWarning):
        saliency = explain.ids(**golden.inputs(case), target=int(golden.BERT[f"{case}/target"]))
    assert not saliency.scores.any()
