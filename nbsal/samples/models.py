"""Stock BERT models with the base weights in their body."""

from typing import Any

import torch

from nbsal.samples import base


def blank(kind: str, **settings: Any) -> Any:
    """Build a `BertFor{kind}` with the base weights in its body and a newly initialised head."""
    import transformers

    with torch.random.fork_rng(devices=[]):  # initialising the head must not advance the caller's generator
        model = getattr(transformers, f"BertFor{kind}")(transformers.BertConfig(**base.CONFIG, **settings))
    missing, _ = model.bert.load_state_dict(base.weights(), strict=False)  # some heads have no pooler
    assert not missing, missing
    return model
