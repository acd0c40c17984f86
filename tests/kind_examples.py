"""A tiny model of every kind that nbsal loads, built by its own library, and a text that it reads."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

import nbsal
from tests import wrapped, zoo
from tests.answers import writers
from tests.wrapped import PAIRS, TEXTS

MASKED = ["The film is a [MASK] joy.", "A [MASK] bore."]
REFERENCE = "The plot hardly moves."
IA3 = {
    "r": None, "init_lora_weights": None, "target_modules": ["query", "value", "output.dense"],
    "feedforward_modules": ["output.dense"],
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A subject and texts that it reads."""

    subject: nbsal.Subject
    texts: tuple[Any, ...] = tuple(TEXTS)
    reply: str = ""  # for a model that is explained by its replies: one of them


@dataclass(frozen=True)
class Kind:
    """How to build an example; `library` is the module that it needs."""

    library: str
    build: Callable[[Path], Example]


def lm(folder: Path, name: str = "bert", **settings: Any) -> Path:
    """The pretrained checkpoint whose LM head decodes."""
    return zoo.save(folder, name, zoo.lm_head(name), seed=1, **settings)


def read(folder: Path, model: Any, **settings: Any) -> Example:
    """A model with the tokenizer of BERT."""
    return Example(nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm=lm(folder), **settings))


def adapter(folder: Path, kind: str = "LoraConfig", **settings: Any) -> Example:
    return read(folder, wrapped.adapted(kind, **settings))


def adapter_folder(folder: Path) -> Example:
    zoo.model("bert", "sequence").save_pretrained(folder / "base")
    model, tokenizer = wrapped.adapted(), zoo.tokenizer("wordpiece")
    model.peft_config["default"].base_model_name_or_path = str(folder / "base")
    model.save_pretrained(folder / "adapter")
    for name in ("base", "adapter"):
        tokenizer.save_pretrained(folder / name)
    return Example(nbsal.load(folder / "adapter", lm=lm(folder)))


def pipeline(folder: Path, task: str, head: str, **settings: Any) -> Example:
    model = zoo.model("bert", head)
    if names := settings.pop("names", None):
        model.config.id2label = dict(enumerate(names))
        model.config.label2id = {name: i for i, name in enumerate(names)}
    pipe = transformers.pipeline(task, model=model, tokenizer=zoo.tokenizer("wordpiece"), **settings)
    if head == "masked":
        return Example(nbsal.load(pipe), tuple(MASKED))
    return Example(nbsal.load(pipe, lm=lm(folder)))


def reranker(folder: Path, name: str = "bert") -> Example:
    encoder = wrapped.cross_encoder(folder) if name == "bert" else wrapped.causal_reranker(folder)
    return Example(nbsal.load(encoder, lm=lm(folder, name)), tuple(PAIRS))


def sentence_transformer(folder: Path) -> Example:
    return Example(nbsal.load(wrapped.sentence_transformer(folder), similar_to=REFERENCE, lm=lm(folder)))


def setfit(folder: Path, kind: str, classes: int = 2) -> Example:
    return Example(nbsal.load(wrapped.setfit(folder, kind, classes), lm=lm(folder)))


class Pooled(nn.Module):
    """A classifier of a user around an encoder, which averages positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = zoo.model("bert", "sequence").base_model
        self.head = nn.Linear(32, 3)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any) -> torch.Tensor:
        states = self.body(input_ids=input_ids, attention_mask=attention_mask, **options).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        return self.head((states * mask).sum(1) / mask.sum(1))


def body(folder: Path) -> Example:
    return read(folder, zoo.model("bert", "sequence").base_model, similar_to=REFERENCE, pooling="mean")


def from_zoo(folder: Path, name: str, head: str) -> Example:
    tokenizer = zoo.tokenizer((zoo.ARCHITECTURES | zoo.OTHERS)[name][2])
    return Example(nbsal.load(zoo.model(name, head), tokenizer=tokenizer))


def encoder_decoder(folder: Path) -> Example:
    return Example(writers.load("t5", torch.float32), reply=" The company wrote it.")


def quantised(folder: Path, settings: Callable[[], Any]) -> Example:
    model, pretrained = wrapped.quantised(folder / "weights", settings()), {"hidden_size": 64, "intermediate_size": 64}
    return Example(nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm=lm(folder, **pretrained)))


def function(folder: Path) -> Example:
    model, tokenizer = zoo.model("bert", "sequence"), zoo.tokenizer("wordpiece")

    def ask(texts: list[str]) -> Any:
        with torch.no_grad():
            return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.softmax(-1).numpy()

    return Example(nbsal.load(ask))


CONTRADICTION = ["contradiction", "neutral", "entailment"]
ZERO_SHOT = {"names": CONTRADICTION, "candidate_labels": ["film", "price", "final"]}
KINDS = {
    "LoRA (peft)": Kind("peft", adapter),
    "IA3 (peft)": Kind("peft", partial(adapter, kind="IA3Config", **IA3)),
    "DoRA (peft)": Kind("peft", partial(adapter, use_dora=True)),
    "LoHa (peft)": Kind("peft", partial(adapter, kind="LoHaConfig", init_lora_weights=None)),
    "folder of an adapter (peft)": Kind("peft", adapter_folder),
    "pipeline: text classification": Kind("", partial(pipeline, task="text-classification", head="sequence")),
    "pipeline: token classification": Kind("", partial(pipeline, task="token-classification", head="token")),
    "pipeline: fill mask": Kind("", partial(pipeline, task="fill-mask", head="masked")),
    "pipeline: zero-shot classification": Kind(
        "", partial(pipeline, task="zero-shot-classification", head="sequence", **ZERO_SHOT)
    ),
    "CrossEncoder (sentence-transformers)": Kind("sentence_transformers", reranker),
    "causal reranker (sentence-transformers)": Kind("sentence_transformers", partial(reranker, name="llama")),
    "SentenceTransformer, similarity": Kind("sentence_transformers", sentence_transformer),
    "SetFit, torch head": Kind("setfit", partial(setfit, kind="torch", classes=3)),
    "SetFit, logistic head": Kind("setfit", partial(setfit, kind="logistic")),
    "SetFit, multi-output head": Kind("setfit", partial(setfit, kind="multi-output", classes=3)),
    "model without a head, similarity": Kind("", body),
    "module of a user": Kind("", lambda folder: read(folder, Pooled().eval())),
    "encoder-decoder that writes replies": Kind("", encoder_decoder),
    "encoder-decoder classifier": Kind("", partial(from_zoo, name="bart", head="sequence")),
    "mixture of experts": Kind("", partial(from_zoo, name="mixtral", head="causal")),
    "8-bit weights (bitsandbytes)": Kind("bitsandbytes", partial(quantised, settings=wrapped.bitsandbytes)),
    "8-bit weights (torchao)": Kind("torchao", partial(quantised, settings=wrapped.torchao)),
    "8-bit weights (optimum-quanto)": Kind("optimum.quanto", partial(quantised, settings=wrapped.quanto)),
    "function": Kind("", function),
}
