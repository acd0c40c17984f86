"""What ecco can do."""

import ecco
import numpy as np
import torch
from ecco.attribution import ATTR_NAME_TO_CLASS

from tests.bench.features import models

CONFIG = {
    "embedding": "transformer.wte.weight",
    "type": "causal",
    "activations": [r"mlp\.c_fc"],
    "token_prefix": "",
    "partial_token_prefix": "##",
}


def _model(folder):
    path = models.saved(*models.gpt2(), folder)
    return ecco.from_pretrained(path, model_config=CONFIG, activations=True, gpu=False, verbose=False)


def _output(folder, **settings):
    torch.manual_seed(0)
    return _model(folder).generate(models.PROMPT, generate=3, do_sample=False, output_hidden_states=True, **settings)


def methods(folder):
    return f"{len(ATTR_NAME_TO_CLASS)}: {', '.join(ATTR_NAME_TO_CLASS)}"


def reply(folder):
    out = _output(folder, attribution=["grad_x_input"])
    return f"{len(out.attribution['grad_x_input'])} tokens, of prompt and reply"


def lens(folder):
    out = _output(folder)
    assert out.rankings(printJson=True)["rankings"].shape[0] == len(models.gpt2()[0].transformer.h)
    out.layer_predictions(position=5, printJson=True)
    return "tokens, and rankings of tokens, by layer"


def neurons(folder):
    out = _output(folder)
    return f"activations {tuple(next(iter(out.activations.values())).shape)} of the feed-forward layers"


def concepts(folder):
    factors = _output(folder).run_nmf(n_components=3)
    assert np.isfinite(factors.components).all()
    return "factors of the activations (NMF)"
