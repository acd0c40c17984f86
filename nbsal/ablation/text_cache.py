"""A key/value cache of one text, of which any leading part can stand before other tokens, as often as needed.

Unlike the caches of transformers it does not grow, so a batch leaves it as it was, also a batch that ran out of memory;
and it keeps every position of a layer with a sliding window, whose mask then hides those that are too far away.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class TextCache:
    """The keys and values of a text, which the model's first pass with this cache reads as a whole."""

    def __init__(self, depth: int, argument: str) -> None:
        self._argument = argument  # of the model's forward pass
        self._layers = [_TextLayer() for _ in range(depth)]
        self._cache = Cache(layers=self._layers)
        self._logits: Tensor | None = None

    def holds(self, size: int) -> bool:
        """Whether every layer has stored keys and values of that many positions."""
        return all(layer.holds(size) for layer in self._layers)

    def put_before(self, inputs: dict[str, Any], size: int) -> dict[str, Any]:
        """The inputs of tokens that follow the text's first `size` positions, to all of which they may attend."""
        for layer in self._layers:
            layer.size = size
        mask = inputs["attention_mask"]
        longer = torch.cat((mask.new_ones(len(mask), size), mask), 1)
        return inputs | {"attention_mask": longer, self._argument: self._cache}

    def with_text(self, logits: Tensor, size: int) -> Tensor:
        """Logits at all positions, [batch, position, ...], of tokens that follow the text's first `size` positions.

        The first call is that of the text itself.
        """
        if self._logits is None:
            self._logits = logits
        return torch.cat((self._logits[:, :size].expand(len(logits), -1, -1), logits), 1)


class _TextLayer(DynamicLayer):  # type: ignore[misc]
    """A layer that stores the keys and values of the first call, and puts some of them before those of later ones."""

    size = 0  # the positions that come before those of a call

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states, value_states
            return key_states, value_states
        return self._join(self.keys, key_states), self._join(self.values, value_states)

    def _join(self, stored: Tensor, states: Tensor) -> Tensor:
        before = stored[..., : self.size, :].expand(len(states), -1, -1, -1)
        return torch.cat((before, states), -2)

    def get_seq_length(self) -> int:
        return self.size

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.size + query_length, 0

    def holds(self, size: int) -> bool:
        shapes = [tuple(states.shape) for states in (self.keys, self.values) if states is not None]
        return len(shapes) == 2 and all(shape[0] == 1 and shape[2:-1] == (size,) for shape in shapes)
