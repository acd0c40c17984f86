"""NanoGuard as a function of texts, and as a module with a tokenizer of its own, which gradients reach."""

import importlib
from typing import Any

import torch
from torch.nn.functional import pad

import nbsal
from tests import real

LABELS = ["safe", "injection"]
LENGTH = 512  # tokens that the scanner pads each text to; its attention reads the padding


def scanner() -> Any:
    """The scanner, which opens its own files."""
    real.require("metatronnanoguard", "tiktoken")
    return importlib.import_module("nanoguard").NanoGuard(device="cpu")


def as_function(scan: Any) -> nbsal.Subject:
    """The scanner as a function from texts to probabilities."""

    def classify(texts: list[str]) -> list[list[float]]:
        scores = [result.injection_score for result in scan.scan_batch(list(texts))]
        return [[1 - score, score] for score in scores]

    return nbsal.load(classify, labels=LABELS)


class Tokens:
    """The scanner's tokens: those of tiktoken after the one that begins each text."""

    def __init__(self, tokenizer: Any, length: int) -> None:
        self.model_max_length = length
        self.encoding, self.n_vocab = tokenizer.enc, tokenizer.enc.n_vocab
        self.bos_token_id, self.pad_token_id = tokenizer.bos_token_id, tokenizer.pad_token_id
        self.decode_single_token_bytes = self.encoding.decode_single_token_bytes

    def encode(self, text: str) -> list[int]:
        return [self.bos_token_id, *self.encoding.encode_ordinary(text)]


def as_module(scan: Any, length: int = LENGTH) -> nbsal.Subject:
    """The scanner's network; texts are padded to `length` tokens, as the scanner does."""
    tokens = Tokens(scan.tokenizer, length)

    def read(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        rest = (0, length - inputs["input_ids"].shape[1])
        ids = pad(inputs["input_ids"], rest, value=tokens.pad_token_id)
        logits: torch.Tensor = model(ids, pad(inputs["attention_mask"], rest).bool())
        return logits

    return nbsal.load(scan.model, tokenizer=tokens, labels=LABELS, read=read)
