"""A module of plain torch that reads token ids: its embeddings are the only layer that nbsal knows."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from nbsal.model.loading.composite import Read
from nbsal.model.running.hooks import hooks
from nbsal.support.errors import ModelError

# What modules call the maximum number of tokens in their own configuration, in the order of preference.
LENGTHS = ("max_position_embeddings", "sequence_len", "max_seq_len", "block_size", "context_length")


class PlainModule(PreTrainedModel):  # type: ignore[misc]
    """A module in the form of a model of transformers, whose one block passes the embeddings on.

    The layers before and after that block are what the module's embedding table returns, so that methods which begin
    there explain it; other states and attention are not read. `reader` calls the module in another way.
    """

    config_class = PreTrainedConfig
    is_causal = False  # nothing is known of its attention

    def __init__(self, module: nn.Module, reader: Read | None = None, pad_id: int = 0) -> None:
        path, table = _token_table(module)
        own = getattr(module, "config", None)
        longest = next((value for name in LENGTHS if isinstance(value := getattr(own, name, None), int)), 0)
        sizes = {"vocab_size": table.num_embeddings, "hidden_size": table.embedding_dim, "num_hidden_layers": 1}
        ids = {"pad_token_id": pad_id, "bos_token_id": None, "eos_token_id": None}
        limits = {"num_attention_heads": 0, "max_position_embeddings": longest}
        super().__init__(PreTrainedConfig(name_or_path=type(module).__name__, **sizes, **ids, **limits))
        self.module, self.table, self.reader = module, path, reader
        self.blocks = nn.ModuleList([nn.Identity()])

    def get_input_embeddings(self) -> Any:
        return self.module.get_submodule(self.table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """What the module returns."""
        size = input_ids.shape[1]

        def pass_on(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
            ids = args[0][:, :size]
            if ids.shape != input_ids.shape or bool(((ids != input_ids) & attention_mask.bool()).any()):
                message = f"{type(self.module).__name__} embeds other ids than those of the text. Append padding only."
                raise ModelError(message, part="embeddings")
            states: Tensor = self.blocks[0](output[:, :size])
            return states if output.shape[1] == size else torch.cat([states, output[:, size:]], 1)

        with hooks([self.get_input_embeddings()], after=pass_on):
            if self.reader is not None:
                return self.reader(self.module, {"input_ids": input_ids, "attention_mask": attention_mask})
            masked = "attention_mask" in inspect.signature(self.module.forward).parameters
            return self.module(input_ids, **({"attention_mask": attention_mask} if masked else {}))


def _token_table(module: nn.Module) -> tuple[str, nn.Embedding]:
    """The embedding table of tokens, which is the largest one, and its path."""
    tables = [(path, part) for path, part in module.named_modules() if isinstance(part, nn.Embedding)]
    if not tables:
        message = (
            f"{type(module).__name__} has no nn.Embedding for tokens. Pass a function from texts to probabilities."
        )
        raise ModelError(message, part="embeddings")
    return max(tables, key=lambda pair: pair[1].num_embeddings)
