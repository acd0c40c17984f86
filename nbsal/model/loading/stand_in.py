"""A module in the place of a model that is only asked: a function of texts, or a server."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.validation import Text

LARGEST = 2**31 - 1  # different words, or tokens of a text


class Encoder(Protocol):
    """What encodes the texts of a subject."""

    max_length: int

    @property
    def pad_id(self) -> int:
        """The id that fills up shorter rows."""

    def encode(self, text: Any, first: int = 0) -> Encoded:
        """Encode one text or a list of texts."""

    def encode_whole(self, text: Text) -> tuple[Row, int, int]:
        """A text as one row of any length, and the number of special tokens before and after it."""

    def encode_ids(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Encoded:
        """Encode token ids."""


class PassOn(nn.Module):
    """The block that passes the words on."""

    is_causal = False

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList([nn.Identity()])

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        output: Tensor = self.layer[0](states)
        return output


class StandIn(nn.Module, Encoder):
    """What the subject of such a model holds: no weights, and one block that passes its input on; it encodes texts."""

    max_length = LARGEST
    task = "sequence"
    main_input_name = "input_ids"
    device = torch.device("cpu")
    dtype = torch.float64

    def __init__(self, name: str, body: PassOn, **settings: Any) -> None:
        from transformers import PreTrainedConfig

        super().__init__()
        self.base_model = body
        sizes: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 0, "hidden_size": 1, "pad_token_id": 0}
        self.config = PreTrainedConfig(name_or_path=name, **sizes | {"vocab_size": LARGEST} | settings)
