"""The model `demo/reviews-small`: a BERT of a million weights of our own, which needs no other package; see README.md.

Its files hold what it is: weights in 8 bits, embeddings in 4, as a live page reads them, so that the copy in a page is
the model itself.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbsal.samples.base import class_settings
from nbsal.support.lazy import torch, transformers
from nbsal.support.rounding import rounded_weights, unpacked

NAME = "demo/reviews-small"
VOCABULARY = Path(__file__).parent / "small_vocabulary.json"
LABELS = ("negative", "positive")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST = 256  # tokens
WIDTH, INNER, BLOCKS, HEADS = 128, 256, 3, 4
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"
DEFAULT_LAYER = 0  # hiding confirms its strongest words more often than those of other layers


def vocabulary() -> dict[str, int]:
    pieces = json.loads(VOCABULARY.read_text(encoding="utf-8"))
    return {piece: number for number, piece in enumerate(pieces)}


def tokenizer() -> Any:
    """The uncased WordPiece tokenizer, whose pieces were learnt from reviews."""
    return transformers.BertTokenizer(vocab=vocabulary(), do_lower_case=True, model_max_length=LONGEST)


def blank(kind: str) -> Any:
    """The stock `BertFor{kind}` with random weights."""
    config = transformers.BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=LONGEST,
        **class_settings("reviews", LABELS),
    )
    return getattr(transformers, f"BertFor{kind}")(config)


def build(kind: str, stored: Mapping[str, Any]) -> Any:
    """The stock `BertFor{kind}` with those of the stored weights that it has."""
    with torch.random.fork_rng(devices=[]):  # weights that are replaced must not advance the caller's generator
        model = blank(kind)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(restored(stored[name], parameter))
    return model


def rounded(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights as they are stored: matrices in few bits, as bytes, and vectors and the classifier in half precision."""

    def stored(name: str, weight: Any) -> Any:
        if not _is_rounded(name, weight):
            return weight.half()
        packed = rounded_weights(weight.float().numpy(), 4 if name == EMBEDDINGS else 8).packed()
        return torch.frombuffer(bytearray(packed), dtype=torch.uint8)

    return {name: stored(name, weight.detach()) for name, weight in weights.items()}


def _is_rounded(name: str, weight: Any) -> bool:
    """Whether live pages read it in few bits too."""
    return weight.ndim == 2 and not name.startswith(("classifier", "bert.embeddings.token_type"))


def restored(stored: Any, like: Any) -> Any:
    """A weight as the model has it, of that shape."""
    if stored.dtype != torch.uint8:
        return stored
    return torch.from_numpy(unpacked(stored.numpy().tobytes(), tuple(like.shape)))
