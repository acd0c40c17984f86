"""What FlashTrace can do."""

import copy
import json
from unittest.mock import patch

import numpy as np
from flashtrace import FlashTrace
from flashtrace.baselines.attnlrp import LLMLRPAttribution
from transformers.models.llama import modeling_llama

from tests.bench.features import models
from tests.bench.features.registry import partly

METHODS = ("flashtrace", "ifr-span", "ifr-matrix")


def _model(build=models.writer):
    model, tokenizer = copy.deepcopy(build())  # it sets tokens of the tokenizer
    model.set_attn_implementation("eager")  # with others it raises "tuple index out of range"
    return model, tokenizer


def _trace(method="flashtrace", build=models.writer, prompt=models.PROMPT, **settings):
    return FlashTrace(*_model(build)).trace(prompt=prompt, target=models.REPLY, method=method, **settings)


def methods(folder):
    for method in METHODS:
        assert np.isfinite(_trace(method).scores).all()
    return f"{len(METHODS)}: {', '.join(METHODS)}; more in its modules"


def relevance_llama(folder):
    explain, name = LLMLRPAttribution(*_model()), "ALL_ATTENTION_FUNCTIONS"
    with patch.object(modeling_llama, name, getattr(modeling_llama, name)):  # it does not put them back as they were
        scores = explain.calculate_attnlrp(models.PROMPT, target=models.REPLY).attribution_matrix
    assert scores.isfinite().any() and scores.nan_to_num().abs().sum() > 0
    return "AttnLRP"


def reply(folder):
    result = _trace("ifr-span", output_span=(1, 2))
    assert len(result.scores) == len(result.prompt_tokens) and len(result.generation_tokens) > 3
    return partly(f"one span of the reply a call; {len(result.scores)} scores of the prompt")


def encoder_decoder(folder):
    _trace(build=models.translator)


def hops(folder):
    result = _trace(hops=2, reasoning_span=(0, 1), output_span=(2, 3))
    assert len(result.per_hop_scores) == 3
    return "through a span of the reply that the caller names; stop words are left out"


def save(folder):
    _trace().to_json(folder / "trace.json")
    assert json.loads((folder / "trace.json").read_text())["scores"] == _trace().scores
    return partly("JSON, which nothing loads")


def html(folder):
    _trace(prompt="<b>film").to_html(folder / "trace.html")
    page = (folder / "trace.html").read_text()
    assert "<script" not in page and "<b>film" not in page
    return "a page, escaped"
