"""A tiny model of every kind that nbsal loads, built by its own library, with what that library itself returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

import nbsal
from tests import wrapped, zoo
from tests.answers import writers
from tests.wrapped import PAIRS, TEXTS

LABELS = ["film", "price", "final"]
MASKED = ["The film is a [MASK] joy.", "A [MASK] bore.", "The river and the [MASK]?"]
REFERENCE = "The plot hardly moves."
IA3 = {
    "r": None, "init_lora_weights": None, "target_modules": ["query", "value", "output.dense"],
    "feedforward_modules": ["output.dense"],
}  # fmt: skip
Truth = Callable[[Sequence[Any]], Any]


def logits(subject: nbsal.Subject, texts: Sequence[Any]) -> np.ndarray:
    """The logits of a batch."""
    with torch.no_grad():
        return subject.logits(subject.inputs(subject.encode(list(texts)))).float().numpy()


def probabilities(subject: nbsal.Subject, texts: Sequence[Any]) -> np.ndarray:
    """What explanations show as probabilities."""
    saliencies = nbsal.Explainer(subject, "random").map(list(texts), progress=False)
    return np.stack([saliency.probabilities for saliency in saliencies])


@dataclass(frozen=True)
class Example:
    """A subject, texts that it reads, and two functions of texts that must agree: the library's and ours."""

    subject: nbsal.Subject
    truth: Truth
    ours: Callable[[nbsal.Subject, Sequence[Any]], Any] = logits
    texts: Sequence[Any] = tuple(TEXTS)
    long: Any = wrapped.LONG  # None: the library cuts no text
    pairs: Sequence[Any] = ()
    continuous: bool = True  # False: a choice of experts jumps, so an integral of gradients does not complete
    reply: str = ""  # for a model that is explained by its replies: one of them
    coarse: bool = False  # weights of few bits, which round as the batch makes them


@dataclass(frozen=True)
class Kind:
    """How to build an example; `library` is the module that it needs."""

    library: str
    build: Callable[[Path], Example]


def lm(folder: Path, name: str = "bert") -> Path:
    """The pretrained checkpoint whose LM head decodes."""
    return zoo.save(folder, name, zoo.lm_head(name), seed=1)


def called(model: Any, tokenizer: Any) -> Truth:
    """The logits of a model or module that is called as its library shows."""

    def truth(texts: Sequence[Any]) -> np.ndarray:
        parts = [list(part) for part in zip(*texts, strict=True)] if isinstance(texts[0], tuple) else [list(texts)]
        inputs = tokenizer(*parts, padding=True, truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            output = model(**inputs)
        return (output.logits if hasattr(output, "logits") else output).float().numpy()

    return truth


def adapter(folder: Path, kind: str = "LoraConfig", **settings: Any) -> Example:
    model, tokenizer = wrapped.adapted(kind, **settings), zoo.tokenizer("wordpiece")
    subject = nbsal.load(model, tokenizer=tokenizer, lm=lm(folder))
    return Example(subject, called(model, tokenizer), pairs=PAIRS)


def adapter_folder(folder: Path) -> Example:
    plain, tokenizer = zoo.model("bert", "sequence"), zoo.tokenizer("wordpiece")
    plain.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    model = wrapped.adapted()
    model.peft_config["default"].base_model_name_or_path = str(folder / "base")
    model.save_pretrained(folder / "adapter")
    tokenizer.save_pretrained(folder / "adapter")
    subject = nbsal.load(folder / "adapter", lm=lm(folder))
    return Example(subject, called(model, tokenizer), pairs=PAIRS)


def pipeline(task: str, head: str, **settings: Any) -> Any:
    model = zoo.model("bert", head)
    if names := settings.pop("names", None):
        model.config.id2label = dict(enumerate(names))
        model.config.label2id = {name: i for i, name in enumerate(names)}
    return transformers.pipeline(task, model=model, tokenizer=zoo.tokenizer("wordpiece"), **settings)


def text_pipeline(folder: Path) -> Example:
    pipe = pipeline("text-classification", "sequence", truncation=True, max_length=40)

    def truth(texts: Sequence[str]) -> np.ndarray:
        answers = pipe(list(texts), top_k=None)
        return np.array([[score["score"] for score in sorted(each, key=lambda s: s["label"])] for each in answers])

    return Example(nbsal.load(pipe, lm=lm(folder)), truth, probabilities)


def token_pipeline(folder: Path) -> Example:
    pipe = pipeline("token-classification", "token")

    def truth(texts: Sequence[str]) -> np.ndarray:
        answers = [pipe(text, ignore_labels=[]) for text in texts]
        return np.array([token["score"] for answer in answers for token in answer])

    def ours(subject: nbsal.Subject, texts: Sequence[str]) -> np.ndarray:
        encoded = subject.encode(list(texts))
        scores = torch.from_numpy(logits(subject, texts)).softmax(-1).amax(-1).numpy()
        return np.concatenate([scores[i, list(encoded[i].content)] for i in range(len(encoded))])

    return Example(nbsal.load(pipe, lm=lm(folder)), truth, ours, long=None)


def mask_pipeline(folder: Path) -> Example:
    pipe = pipeline("fill-mask", "masked")

    def truth(texts: Sequence[str]) -> np.ndarray:
        size = len(pipe.tokenizer)
        answers = [sorted(pipe(text, top_k=size), key=lambda answer: answer["token"]) for text in texts]
        return np.array([[answer["score"] for answer in each] for each in answers])

    return Example(nbsal.load(pipe), truth, probabilities, texts=MASKED, long=None)


def zero_shot_pipeline(folder: Path) -> Example:
    names = ["contradiction", "neutral", "entailment"]
    pipe = pipeline("zero-shot-classification", "sequence", names=names, candidate_labels=LABELS)

    def truth(texts: Sequence[str]) -> np.ndarray:
        answers = [pipe(text) for text in texts]
        return np.array([[dict(zip(a["labels"], a["scores"], strict=True))[name] for name in LABELS] for a in answers])

    return Example(nbsal.load(pipe, lm=lm(folder)), truth, probabilities)


def cross_encoder(folder: Path) -> Example:
    encoder = wrapped.cross_encoder(folder)
    identity = nn.Identity()
    truth = lambda texts: encoder.predict(list(texts), activation_fn=identity).reshape(-1, 1)  # noqa: E731
    return Example(nbsal.load(encoder, lm=lm(folder)), truth, texts=PAIRS, long=(TEXTS[0], wrapped.LONG))


def causal_reranker(folder: Path) -> Example:
    encoder = wrapped.causal_reranker(folder)
    identity = nn.Identity()
    truth = lambda texts: encoder.predict(list(texts), activation_fn=identity).reshape(-1, 1)  # noqa: E731
    return Example(nbsal.load(encoder, lm=lm(folder, "llama")), truth, texts=PAIRS, long=(TEXTS[0], wrapped.LONG))


def sentence_transformer(folder: Path) -> Example:
    model = wrapped.sentence_transformer(folder)
    subject = nbsal.load(model, similar_to=REFERENCE, lm=lm(folder))
    truth = lambda texts: model.similarity(model.encode(list(texts)), model.encode([REFERENCE])).numpy()  # noqa: E731
    return Example(subject, truth)


def setfit(folder: Path, kind: str, classes: int = 2) -> Example:
    model = wrapped.setfit(folder, kind, classes)

    def truth(texts: Sequence[str]) -> np.ndarray:
        answers = np.asarray(model.predict_proba(list(texts)))
        return answers[..., 1] if answers.ndim == 3 else answers

    return Example(nbsal.load(model, lm=lm(folder)), truth, probabilities)


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


def module(folder: Path) -> Example:
    model, tokenizer = Pooled().eval(), zoo.tokenizer("wordpiece")
    return Example(nbsal.load(model, tokenizer=tokenizer, lm=lm(folder)), called(model, tokenizer), pairs=PAIRS)


def body(folder: Path) -> Example:
    model, tokenizer = zoo.model("bert", "sequence").base_model, zoo.tokenizer("wordpiece")

    def embed(text: str) -> torch.Tensor:
        with torch.no_grad():
            inputs = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
            return model(**inputs).last_hidden_state.mean(1)

    def truth(texts: Sequence[str]) -> np.ndarray:
        reference = embed(REFERENCE)
        return torch.stack([nn.functional.cosine_similarity(embed(text), reference) for text in texts]).numpy()

    subject = nbsal.load(model, tokenizer=tokenizer, similar_to=REFERENCE, pooling="mean", lm=lm(folder))
    return Example(subject, truth)


def from_zoo(folder: Path, name: str, head: str) -> Example:
    model, tokenizer = zoo.model(name, head), zoo.tokenizer((zoo.ARCHITECTURES | zoo.OTHERS)[name][2])
    subject = nbsal.load(model, tokenizer=tokenizer)
    return Example(subject, called(model, tokenizer), pairs=PAIRS, continuous=name != "mixtral")


def encoder_decoder(folder: Path) -> Example:
    subject, reply = writers.load_sides("t5", torch.float32), " The company wrote it."

    def truth(texts: Sequence[str]) -> list[list[float]]:
        model, tokenizer, start = subject.model, subject.tokenizer, subject.model.config.decoder_start_token_id
        labels = tokenizer(reply, add_special_tokens=False, return_tensors="pt").input_ids
        begins = torch.cat([torch.tensor([[start]]), labels[:, :-1]], 1)
        with torch.no_grad():
            logits = [
                model(tokenizer(t, return_tensors="pt").input_ids, decoder_input_ids=begins).logits for t in texts
            ]
        return [each.log_softmax(-1).gather(-1, labels[..., None])[0, :, 0].tolist() for each in logits]

    def ours(subject: nbsal.Subject, texts: Sequence[str]) -> list[list[float]]:
        answers = [nbsal.answer(subject, text, reply, method="random", progress=False) for text in texts]
        return [answer.statistics.logprob.tolist() for answer in answers]

    return Example(subject, truth, ours, long=None, reply=reply)


def quantised(folder: Path, settings: Callable[[], Any]) -> Example:
    model, tokenizer = wrapped.quantised(folder / "weights", settings()), zoo.tokenizer("wordpiece")
    pretrained = zoo.save(folder, "bert", "masked", seed=1, hidden_size=64, intermediate_size=64)
    subject = nbsal.load(model, tokenizer=tokenizer, lm=pretrained)
    return Example(subject, called(model, tokenizer), pairs=PAIRS, coarse=True)


def function(folder: Path) -> Example:
    model, tokenizer = zoo.model("bert", "sequence"), zoo.tokenizer("wordpiece")
    call = called(model, tokenizer)

    def ask(texts: Sequence[Any]) -> np.ndarray:
        return torch.from_numpy(call([text or "." for text in texts])).softmax(-1).numpy()

    return Example(nbsal.load(ask), ask, probabilities)


KINDS = {
    "LoRA (peft)": Kind("peft", adapter),
    "IA3 (peft)": Kind("peft", partial(adapter, kind="IA3Config", **IA3)),
    "DoRA (peft)": Kind("peft", partial(adapter, use_dora=True)),
    "LoHa (peft)": Kind("peft", partial(adapter, kind="LoHaConfig", init_lora_weights=None)),
    "folder of an adapter (peft)": Kind("peft", adapter_folder),
    "pipeline: text classification": Kind("", text_pipeline),
    "pipeline: token classification": Kind("", token_pipeline),
    "pipeline: fill mask": Kind("", mask_pipeline),
    "pipeline: zero-shot classification": Kind("", zero_shot_pipeline),
    "CrossEncoder (sentence-transformers)": Kind("sentence_transformers", cross_encoder),
    "causal reranker (sentence-transformers)": Kind("sentence_transformers", causal_reranker),
    "SentenceTransformer, similarity": Kind("sentence_transformers", sentence_transformer),
    "SetFit, torch head": Kind("setfit", partial(setfit, kind="torch", classes=3)),
    "SetFit, logistic head": Kind("setfit", partial(setfit, kind="logistic")),
    "SetFit, multi-output head": Kind("setfit", partial(setfit, kind="multi-output", classes=3)),
    "model without a head, similarity": Kind("", body),
    "module of a user": Kind("", module),
    "encoder-decoder that writes replies": Kind("", encoder_decoder),
    "encoder-decoder classifier": Kind("", partial(from_zoo, name="bart", head="sequence")),
    "mixture of experts": Kind("", partial(from_zoo, name="mixtral", head="causal")),
    "8-bit weights (bitsandbytes)": Kind("bitsandbytes", partial(quantised, settings=wrapped.bitsandbytes)),
    "8-bit weights (torchao)": Kind("torchao", partial(quantised, settings=wrapped.torchao)),
    "8-bit weights (optimum-quanto)": Kind("optimum.quanto", partial(quantised, settings=wrapped.quanto)),
    "function": Kind("", function),
}
