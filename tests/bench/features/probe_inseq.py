"""What inseq can do."""

import inseq
import torch

from tests.bench.features import models
from tests.bench.features.registry import partly

QUIET = {"show_progress": False}


def _explain(method="input_x_gradient", model=None):
    return inseq.load_model((model or models.writer())[0], method, tokenizer=(model or models.writer())[1])


def _reply(explain=None, **settings):
    text = models.PROMPT + models.REPLY
    return (explain or _explain()).attribute(models.PROMPT, text, **QUIET | settings).sequence_attributions[0]


def methods(folder):
    return f"{len(inseq.list_feature_attribution_methods()) - 1} names"


def batch(folder):
    texts = [models.SHORT.lower(), models.LONG.lower()]
    ends = [f"{text} warm film" for text in texts]
    both = _explain().attribute(texts, ends, **QUIET).sequence_attributions[0].target_attributions.sum(-1)
    alone = _explain().attribute(texts[:1], ends[:1], **QUIET).sequence_attributions[0].target_attributions.sum(-1)
    assert torch.allclose(both, alone, atol=1e-5, equal_nan=True)
    return "equal"


def layers(folder):
    model, tokenizer = models.writer()
    explain = inseq.load_model(model, "layer_gradient_x_activation", tokenizer=tokenizer, target_layer="model.layers.1")
    _reply(explain)
    return partly("one layer a run")


def words(folder):
    before, after = _explain_typed(), _explain_typed().aggregate("subwords", special_chars="##")
    assert len(after.target) < len(before.target)
    return partly("merged by the tokenizer's marks; no offsets")


def _explain_typed():
    return _explain().attribute("a film", "a film unforgettable film", **QUIET).sequence_attributions[0]


def contrast(folder):
    settings = {"contrast_targets": f"{models.PROMPT} warm film works here"}
    aligned = [(number, number) for number in range(9)]
    settings |= {"attributed_fn": "contrast_prob_diff", "contrast_targets_alignments": [aligned]}
    assert _reply(**settings).target_attributions.isfinite().any()
    return "a contrast text, aligned by hand or by a model"


def shapley(folder):
    _reply(_explain("lime"), n_samples=5)
    return partly("LIME; Shapley values by gradients only")


def reply(folder):
    scores = _reply().target_attributions
    assert scores.shape[1] == len(models.tokenizer(False)(models.REPLY)["input_ids"])
    return "of prompt and reply"


def encoder_decoder(folder):
    explain = _explain(model=models.translator())
    result = explain.attribute(models.SHORT, "a dull film", attribute_target=True, **QUIET).sequence_attributions[0]
    assert result.source_attributions is not None and result.target_attributions is not None
    return "source and reply"


def documents(folder):
    result = _reply().aggregate("spans", target_spans=[(0, 2), (2, 5)])
    return partly(f"spans of tokens, {len(result.target)} units; scores are added, nothing is left out")


def step_functions(folder):
    names = ["entropy", "probability"]
    assert set(_reply(step_scores=names).step_scores) == set(names)
    _reply(attributed_fn="entropy")
    return f"{len(inseq.list_step_functions())} functions, and one's own"


def save(folder):
    out = _explain().attribute(models.PROMPT, models.PROMPT + models.REPLY, **QUIET)
    out.save(str(folder / "out.json"))
    loaded = inseq.FeatureAttributionOutput.load(str(folder / "out.json"))
    before, after = (x.sequence_attributions[0].target_attributions for x in (out, loaded))
    assert torch.allclose(before, after, equal_nan=True)
    return "JSON"


def html(folder):
    out = _explain().attribute(models.PROMPT, models.PROMPT + models.REPLY, **QUIET)
    page = out.show(display=False, return_html=True)
    return partly("a page with scripts") if "<script" in page else "a table"


def progress(folder):
    _reply(show_progress=True)
    return partly("a bar; an interruption loses what is done")
