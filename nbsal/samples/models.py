"""Stock models with the base weights in their body."""

from typing import Any

import torch

from nbsal.samples import base


def blank(kind: str, **settings: Any) -> Any:
    """A `BertFor{kind}` whose body holds the base weights and whose head is fresh."""
    import transformers

    with torch.random.fork_rng(devices=[]):  # the fresh head draws numbers; the caller's generator stays as it was
        model = getattr(transformers, f"BertFor{kind}")(transformers.BertConfig(**base.CONFIG, **settings))
    missing, _ = model.bert.load_state_dict(base.weights(), strict=False)  # heads differ in whether they pool
    assert not missing, missing
    return model
