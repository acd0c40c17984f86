"""What gim-explain can do."""

import gim
import torch

from tests.bench.features import models
from tests.bench.features.registry import partly

UNCHANGED = {"softmax_temperature": 1.0, "freeze_norm": False, "v_scale": 1.0}  # settings that turn a change off


def _explain(build=models.writer, text=models.PROMPT, **settings):
    model, tokenizer = build()
    ids = tokenizer(text, return_tensors="pt", padding=True)["input_ids"]
    return gim.explain(model, ids, tokenizer=tokenizer, **settings)


def methods(folder):
    changed = [
        [
            name
            for name, value in UNCHANGED.items()
            if not torch.allclose(_explain(build), _explain(build, **{name: value}))
        ]
        for build in (models.writer, models.gpt2)
    ]
    assert changed == [["v_scale"], ["freeze_norm", "v_scale"]]
    return "1, GIM; of its changes, GPT-2 lacks that of softmax, and Llama those of softmax and norms"


def batch(folder):
    both, alone = _explain(text=[models.PROMPT, models.PROMPT]), _explain()
    assert torch.allclose(both, alone.expand_as(both), atol=1e-5), "only the first text of a batch has scores"


def contrast(folder):
    model, tokenizer = models.writer()
    embedded = model.get_input_embeddings()(tokenizer(models.PROMPT, return_tensors="pt")["input_ids"]).detach()
    embedded.requires_grad_()
    with gim.GIM(model):
        logits = model(inputs_embeds=embedded).logits[0, -1]
        (logits[9] - logits[11]).backward()
    assert embedded.grad.abs().sum() > 0
    return partly("through a backward pass that the caller writes")


def reply(folder):
    model, tokenizer = models.writer()
    ids = tokenizer(models.PROMPT + models.REPLY, return_tensors="pt")["input_ids"]
    for position in range(len(tokenizer(models.PROMPT)["input_ids"]) - 1, ids.shape[1] - 1):
        scores = gim.explain(model, ids, tokenizer=tokenizer, target_position=position)
        assert scores[position + 1 :].abs().sum() == 0
    return partly("one token a call, of which the caller passes the position")


def gradient_context(folder):
    model, tokenizer = models.writer()
    ids = tokenizer(models.PROMPT, return_tensors="pt")["input_ids"]
    gradients = []
    for scale in (1.0, 0.25):
        model.zero_grad()
        with gim.GIM(model, q_scale=scale):
            model(ids).logits[0, -1, 9].backward()
        gradients.append(model.model.layers[0].self_attn.q_proj.weight.grad.clone())
    model.zero_grad()
    assert not torch.allclose(*gradients)
    return "a context manager"
