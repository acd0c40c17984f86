"""Stock BERT models with the base weights in their body."""

from typing import Any

import torch

from nbsal.samples import base


def blank(kind: str, **settings: Any) -> Any:
    """Build a `BertFor{kind}` with the base weights in its body and a newly initialised head, for training."""
    with torch.random.fork_rng(devices=[]):  # initialising the head must not advance the caller's generator
        model = _class(kind)(_config(**settings))
    return _load_body(model)


def unfilled(kind: str, **settings: Any) -> Any:
    """Build the same with NaN in its head, for the caller to fill; it takes half the time of initialising weights."""
    with torch.device("meta"):
        model = _class(kind)(_config(**settings))
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
        # The two buffers of BERT's embeddings are not in its weights.
        model.bert.embeddings.position_ids.copy_(torch.arange(base.CONFIG["max_position_embeddings"])[None])
        model.bert.embeddings.token_type_ids.zero_()
    model.tie_weights()
    return _load_body(model)


def _class(kind: str) -> Any:
    import transformers

    return getattr(transformers, f"BertFor{kind}")


def _config(**settings: Any) -> Any:
    import transformers

    return transformers.BertConfig(**base.CONFIG, **settings)


def _load_body(model: Any) -> Any:
    missing, _ = model.bert.load_state_dict(base.weights(), strict=False)  # some heads have no pooler
    assert not missing, missing
    return model
