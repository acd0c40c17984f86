"""The model of a subject that is behind a server: no layers, and no outputs but the log-probabilities of replies."""

from typing import Any, ClassVar, NoReturn

from nbsal.model.loading.stand_in import LARGEST, PassOn, StandIn
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.server import Server
from nbsal.support.errors import ModelError


class _Body(PassOn):
    is_causal = True


class Served(StandIn):
    """A language model whose replies can be scored, and that may write them; nothing else is known of it.

    It refuses texts without a reply; the server knows how long they may be.
    """

    task = "next-token"
    methods: ClassVar[list[str]] = []  # that only hide: each puts its name here when it is registered

    def __init__(self, endpoint: Endpoint, tokenizer: Any = None) -> None:
        size = LARGEST if tokenizer is None else len(tokenizer)
        super().__init__(endpoint.model, _Body(), vocab_size=size)
        self.server = Server(endpoint, tokenizer)
        self.served = endpoint.model  # identifies a corpus of its replies; the address may change

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Refused."""
        raise self.refusal("What is asked for")

    @property
    def pad_id(self) -> int:
        return int(getattr(self.server.tokenizer, "pad_token_id", None) or 0)

    def encode(self, text: Any, first: int = 0) -> NoReturn:
        """Refused."""
        raise self.refusal("Explaining a text without a reply")

    def encode_whole(self, text: Any) -> NoReturn:
        """Refused."""
        self.encode(text)

    def encode_ids(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> NoReturn:
        """Refused."""
        self.encode(input_ids)

    def refusal(self, feature: str) -> ModelError:
        """The error for what a server cannot do."""
        names = ", ".join(self.methods) or "one that only hides"  # whose names are known once methods are imported
        return ModelError(
            f"{feature} needs the model itself, and {self.server.description} shows only how likely replies are. "
            f"Explain its replies with nbsal.answer(subject, messages, method=...): {names}.",
            part="model",
        )

    def __deepcopy__(self, memo: Any) -> "Served":
        return self  # there are no weights that a copy could change
