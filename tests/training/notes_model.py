"""The vocabulary of `demo/notes` and its model before training, whose attention is prepared for matching."""

import re
from typing import Any

import torch

from nbsal.samples import notes
from tests.training import notes_world
from tests.training.notes_relations import POOLS

LOOK_BACK = 12.5  # the logit by which a head of block 0 prefers its distance


def words() -> list[str]:
    """The tokens of the made-up world, those that begin with a letter also with a space before them."""
    texts = notes_world.phrases()
    texts += [f" {word}" for pool in POOLS.values() for word in pool]
    texts += [f"\n{word}" for word in (*POOLS["person"], "x")]  # a sender may begin a text
    tokens = {token: None for text in texts for token in re.findall(notes.TOKEN, text)}
    tokens |= {f" {token}": None for token in list(tokens) if token[0].isalnum()}
    return [*notes.SPECIAL, *tokens]


def blank(size: int, seed: int) -> Any:
    """A model with prepared attention and otherwise random weights."""
    torch.manual_seed(seed)
    model = notes.blank(size)
    prepare(model)
    return model


@torch.no_grad()
def prepare(model: Any) -> None:
    """Let block 0 look at neighbours and the upper blocks at equal tokens; nothing says which note to look at.

    Head h of block 0 begins by looking h + 1 tokens back, which the rotary embedding of its biases expresses. Without
    this start, a model of this size does not learn within hours which note a question is about.
    """
    first, *upper = (block.self_attn for block in model.model.layers)
    pairs = notes.WIDTH // notes.HEADS // 2
    angles = notes.ROPE_BASE ** (-torch.arange(pairs) / pairs)
    for head in range(notes.HEADS):
        dims = slice(head * 2 * pairs, (head + 1) * 2 * pairs)
        turned = (head + 1) * angles
        first.q_proj.bias[dims] = LOOK_BACK**0.5 * torch.cat([torch.ones(pairs), torch.zeros(pairs)])
        first.k_proj.bias[dims] = LOOK_BACK**0.5 * torch.cat([turned.cos(), turned.sin()])
    model.model.embed_tokens.weight.normal_(0, notes.WIDTH**-0.5)
    torch.nn.init.orthogonal_(first.v_proj.weight)
    torch.nn.init.orthogonal_(first.o_proj.weight, 0.1)
    for attention in upper:
        torch.nn.init.orthogonal_(attention.q_proj.weight, 0.7)
        attention.k_proj.weight.copy_(attention.q_proj.weight)
        torch.nn.init.orthogonal_(attention.v_proj.weight)
        attention.o_proj.weight.copy_(0.1 * attention.v_proj.weight.T)
