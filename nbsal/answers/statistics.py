"""How likely a model finds each token of a reply, and which other tokens it finds likely."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.answers.hiding import logits_at
from nbsal.answers.reading import Reading
from nbsal.model.running import architecture, batching, restore
from nbsal.model.subject import Subject
from nbsal.model.text.tokenize import token_name
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import ModelError

RIVALS = 5  # other tokens that are listed for each token of a reply
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TokenStatistics:
    """What the model itself says of each token of a reply, without the settings of `generate`."""

    logprob: Floats
    rank: NDArray[np.int64]  # 1 for the likeliest token
    entropy: Floats  # nats
    rivals: tuple[tuple[tuple[str, float], ...], ...]  # other tokens with their probabilities
    drawn: Floats | None = None  # the probability after the settings of `generate`


def token_statistics(subject: Subject, reading: Reading, drawn: Any) -> TokenStatistics:
    """What the model says of each token, from one forward pass."""
    encoded = Encoded([reading.row], subject.text_encoder.pad_id)

    def run() -> torch.Tensor:
        with batching.memory_errors(), torch.inference_mode(), architecture.eval_mode(subject.model):
            places = reading.position(0) + np.arange(len(reading.reply_ids))
            logits = logits_at(subject, subject.inputs(encoded), places[None])[0]
            return logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32).log_softmax(-1).cpu()

    logprobs = restore.exclusively(subject.model, run)
    if bool(logprobs.isnan().any()):
        message = f"The logits of {subject.name} for this reply are NaN or infinite. Load it with dtype='float32'."
        raise ModelError(message, part="logits")
    ids = torch.tensor(reading.reply_ids)[:, None]
    chosen = logprobs.gather(1, ids)
    best, tokens = logprobs.topk(min(RIVALS + 1, logprobs.shape[1]), dim=1)
    return TokenStatistics(
        logprob=chosen[:, 0].double().numpy(),
        rank=((logprobs > chosen).sum(1) + 1).numpy(),
        entropy=-(logprobs.exp() * logprobs).nan_to_num().sum(1).double().numpy(),
        rivals=tuple(
            _rivals(subject, reading.reply_ids[i], best[i].exp().tolist(), tokens[i].tolist()) for i in range(len(ids))
        ),
        drawn=drawn,
    )


def _rivals(
    subject: Subject, token: int, chances: Sequence[float], tokens: Sequence[int]
) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens other than the one in the reply."""
    others = [(index, chance) for index, chance in zip(tokens, chances, strict=True) if index != token]
    return tuple((token_name(subject.tokenizer, index), chance) for index, chance in others[:RIVALS])
