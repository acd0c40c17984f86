"""Stock BERT models with the base weights in their body."""

from typing import Any

import torch

from nbsal.samples import base
from nbsal.support.lazy import transformers


def blank(kind: str, **settings: Any) -> Any:
    """Build a `BertFor{kind}` with the base weights in its body and a newly initialised head, for training."""
    with torch.random.fork_rng(devices=[]):  # initialising the head must not advance the caller's generator
        model = _class(kind)(_config(**settings))
    return _load_body(model)


def unfilled(kind: str, **settings: Any) -> Any:
    """Build the same with NaN in its head, for the caller to fill; no weights are initialised or copied."""
    with torch.device("meta"):
        model = _class(kind)(_config(**settings))
    _load_body(model, assign=True)
    model.tie_weights()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                setattr(module, name, torch.nn.Parameter(torch.full_like(parameter, torch.nan, device="cpu")))
    model.tie_weights()  # of what was filled
    # The two buffers of BERT's embeddings are not in its weights.
    embeddings = model.bert.embeddings
    embeddings.position_ids = torch.arange(base.CONFIG["max_position_embeddings"])[None]
    embeddings.token_type_ids = torch.zeros_like(embeddings.position_ids)
    return model


def _class(kind: str) -> Any:
    return getattr(transformers, f"BertFor{kind}")


def _config(**settings: Any) -> Any:
    return transformers.BertConfig(**base.CONFIG, **settings)


def _load_body(model: Any, assign: bool = False) -> Any:
    missing, _ = model.bert.load_state_dict(base.weights(), strict=False, assign=assign)  # some heads have no pooler
    assert not missing, missing
    return model
