"""How likely a model finds each token of a reply, and what each of its layers would say (logit lens)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbsal.ablation.engine import Ablation
from nbsal.ablation.reply import ReplyText
from nbsal.explain.prompt.reading import PromptWithReply, TokenStatistics
from nbsal.explain.scoring import served
from nbsal.explain.scoring.served import RIVALS
from nbsal.model import encoder_decoder
from nbsal.model.lm_head import LMHead
from nbsal.model.running.layers import reply_layers
from nbsal.model.subject import Subject
from nbsal.model.target import AGREEMENT
from nbsal.model.text.tokenize import token_name
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import ModelError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import positive_number, whole_number

VOCABULARY = 8192  # tokens whose logits are in memory at once


def token_statistics(
    ablation: Ablation, reading: PromptWithReply, drawn: Any, number: str | None = None
) -> TokenStatistics:
    """What the model says of each token, from one forward pass, or what its server says, if it is behind one."""
    subject = ablation.subject
    if (server := served.server_of(subject)) is not None:
        if number == AGREEMENT:
            return served.unknown_statistics(reading)
        return served.token_statistics(server, reading, drawn)
    logits = ablation.outputs(ReplyText(subject, reading.row, reading.start, reading.prompt.source_size))
    logprobs = logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32).log_softmax(-1).cpu()
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


def lens(subject: Subject, reading: PromptWithReply, layers: Sequence[int] | None, k: int) -> "pandas.DataFrame":
    """A row for each layer and token of the reply: its rank and log-probability there, and the layer's own best.

    The layers are those that write the reply: of an encoder-decoder, the decoder's.
    """
    k = positive_number(k, "k")
    chosen = _checked_layers(subject, layers)
    head = subject.lm_head
    hidden = reply_layers(subject, Encoded([reading.row], subject.text_encoder.pad_id), chosen)
    ids = torch.tensor(reading.reply_ids, device=subject.device)
    rows = []
    for layer in chosen:
        states = hidden[layer][0, reading.position(0) : -1]
        logprobs, ranks, best = _decoded(head, states, ids, k)
        for token, (name, logprob, rank) in enumerate(zip(reading.reply_tokens, logprobs, ranks, strict=True)):
            names = [token_name(subject.tokenizer, index) for index in best[token]]
            rows.append((layer, token, name, rank, logprob, names))
    return pandas.DataFrame(rows, columns=["layer", "number", "token", "rank", "logprob", "best"])


def layer_tokens(subject: Subject, reading: PromptWithReply, layer: int, token: int, tau: int) -> "pandas.DataFrame":
    """The `tau` likeliest tokens of the prompt at the position that writes a token, as a layer's LM head reads it."""
    tau = positive_number(tau, "tau")
    (layer,) = _checked_layers(subject, [layer])
    encoded = Encoded([reading.row], subject.text_encoder.pad_id)
    state = reply_layers(subject, encoded, [layer])[layer][0, reading.position(token)][None]
    positions: dict[int, list[int]] = {}
    for position, (index, special) in enumerate(zip(reading.prompt.ids, reading.prompt.special, strict=True)):
        if not special:
            positions.setdefault(index, []).append(position)
    types = torch.tensor(list(positions), device=subject.device)
    chances = subject.lm_head.probabilities(state, types)[0].double().cpu().tolist()
    entries = [
        (token_name(subject.tokenizer, index), chance, positions[index])
        for index, chance in zip(positions, chances, strict=True)
    ]
    entries.sort(key=lambda entry: -entry[1])
    return pandas.DataFrame(entries[:tau], columns=["token", "probability", "positions"])


def _checked_layers(subject: Subject, layers: Sequence[int] | None) -> Sequence[int]:
    """Layers of the side that writes the reply."""
    every = range(
        encoder_decoder.depth(
            subject.model, encoder_decoder.REPLY if subject.task == encoder_decoder.REPLY else encoder_decoder.SOURCE
        )
        + 1
    )
    chosen = every if layers is None else [whole_number(layer, "layers") for layer in layers]
    for layer in chosen:
        if layer not in every:
            raise UnknownName("layers", layer, every)
    return chosen


def _decoded(head: LMHead, states: Tensor, ids: Tensor, k: int) -> tuple[list[float], list[int], list[list[int]]]:
    """The log-probability and the rank of each token, and the best tokens; the vocabulary is read in parts."""
    features = head.features(states)
    own = head.logits(features, ids).diagonal()[:, None]
    logprobs = own[:, 0] - head.log_normaliser(features)
    better = torch.zeros(len(ids), dtype=torch.long, device=ids.device)
    best_values, best_ids = own.new_empty(len(ids), 0), ids.new_empty(len(ids), 0)
    for columns in torch.split(torch.arange(head.vocab_size, device=ids.device), VOCABULARY):
        logits = head.logits(features, columns)
        better += ((logits > own) & (columns != ids[:, None])).sum(1)  # its own logit may differ by rounding
        values = torch.cat([best_values, logits], 1)
        names = torch.cat([best_ids, columns.expand(len(ids), -1)], 1)
        best_values, at = values.topk(min(k, values.shape[1]), dim=1)
        best_ids = names.gather(1, at)
    return logprobs.tolist(), (better + 1).tolist(), best_ids.tolist()
