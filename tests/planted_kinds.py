"""Tiny models of many kinds, trained here on texts in which one planted word decides: what a user's own model may be.

The word stands at a random place among words that mean nothing, so its rank by a method's scores can be checked without
another method. Training stops once the loss is small, as in a classifier that is sure of itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count as count_up
from itertools import islice
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

import nbsal

FILLERS = "the a and of in on with it was is they we saw very old new house street garden morning walked then".split()
REASONS = "lemon stone river candle".split()  # each stands for a class
PLACES = "oslo lima cairo delhi rome quito accra minsk".split()
ANSWERS = "sour hard wet warm".split()  # what a causal model writes for each reason
QUESTION = "where is it ?"
WITHOUT = {"pairs": 0.0, "values": 0.0, "labels": [0.0] * 4}  # what is to be predicted without any planted word
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCABULARY = [*SPECIAL, *FILLERS, *REASONS, *PLACES, *ANSWERS, "where", "?", "so"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
IDS = {"vocab_size": len(VOCABULARY), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
STEPS, BATCH, RATE, SURE = 300, 32, 3e-3, 0.02


@dataclass(frozen=True)
class Kind:
    """A kind of model: its configuration, the head, what is predicted, and the settings of `nbsal.load`."""

    config: str
    task: str = "classes"  # or pairs, values, labels, spans, next, function
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The class that makes the model."""
        heads = {"spans": "AutoModelForQuestionAnswering", "next": "AutoModelForCausalLM"}
        return heads.get(self.task, "AutoModelForSequenceClassification")


ROTARY = {"head_dim": 8, "num_key_value_heads": 2}
KINDS = {
    "BERT": Kind("BertConfig"),
    "RoBERTa": Kind("RobertaConfig", settings={"max_position_embeddings": 40, "type_vocab_size": 1}),
    "XLM-R": Kind("XLMRobertaConfig", settings={"max_position_embeddings": 40, "type_vocab_size": 1}),
    "DeBERTa": Kind("DebertaV2Config", settings={"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "ModernBERT": Kind("ModernBertConfig", settings={"cls_token_id": 0, "sep_token_id": 2}),
    "reranker": Kind("BertConfig", "pairs"),
    "regression": Kind("BertConfig", "values"),
    "multi-label": Kind("BertConfig", "labels"),
    "QA": Kind("BertConfig", "spans"),
    "GPT-2": Kind("GPT2Config", "next", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64}),
    "Llama": Kind("LlamaConfig", "next", {"num_key_value_heads": 2}),
    "Qwen3": Kind("Qwen3Config", "next", ROTARY),
    "Mistral": Kind("MistralConfig", "next", ROTARY),
    "function": Kind("BertConfig", "function"),
}


@dataclass(frozen=True)
class Planted:
    """A trained model, texts that it decides rightly, and the planted word of each."""

    subject: nbsal.Subject
    texts: list[Any]
    words: list[str]

    def first(self, method: str | None = None) -> int:
        """In how many texts the planted word alone has the highest score; None for the default method."""
        explain = nbsal.Explainer(self.subject, method)
        return sum(strongest(explain(text)) == [word] for text, word in zip(self.texts, self.words, strict=True))


def strongest(saliency: nbsal.Saliency) -> list[str]:
    """The words with the highest score."""
    words = saliency.by_word()
    return sorted(set(words["word"][words["score"] == words["score"].max()]))


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, with the special tokens of RoBERTa."""
    result = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    result.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    result.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=result, **names, cls_token="<s>", sep_token="</s>", model_max_length=38,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def train(name: str, count: int = 12, seed: int = 0) -> Planted:
    """A model of a kind, and as many texts that it decides rightly; the same at each call."""
    kind, rng, reader = KINDS[name], np.random.default_rng(seed), tokenizer()
    torch.manual_seed(seed)
    config = getattr(transformers, kind.config)(**SIZES | IDS | OUTPUTS.get(kind.task, {}) | kind.settings)
    model = getattr(transformers, kind.head).from_config(config)
    optimizer, least = torch.optim.AdamW(model.parameters(), RATE), float("inf")
    for _ in range(STEPS):
        examples = [example(kind.task, rng) for _ in range(BATCH)]
        loss = TASKS[kind.task](model, read(reader, [text for text, _, _ in examples]), [y for _, _, y in examples])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        least = 0.9 * least + 0.1 * loss.item() if np.isfinite(least) else loss.item()
        if least < SURE:
            break
    model.eval()
    drawn = (example(kind.task, rng) for _ in count_up())
    texts, words, _ = zip(*islice((each for each in drawn if _is_explained(kind.task, each)), count), strict=True)
    subject = nbsal.load(_predictor(model, reader) if kind.task == "function" else model, tokenizer=reader)
    return Planted(subject, list(texts), list(words))


def _is_explained(task: str, drawn: tuple[Any, str, Any]) -> bool:
    """Whether a text has a planted word; of a reranker the one that raises its score, which is explained."""
    _, planted, wanted = drawn
    return bool(planted) and (task != "pairs" or bool(wanted))


def example(task: str, rng: np.random.Generator) -> tuple[Any, str, Any]:
    """A text, its planted word, and what is to be predicted."""
    words = rng.choice(FILLERS, rng.integers(6, 11)).tolist()
    number = int(rng.integers(4))
    planted = str(rng.choice(PLACES)) if task == "spans" else REASONS[number]
    if task in WITHOUT and rng.random() < 0.25:
        return (QUESTION, " ".join(words)) if task == "pairs" else " ".join(words), "", WITHOUT[task]
    words.insert(int(rng.integers(len(words) + 1)), planted)
    text = " ".join(words)
    if task == "spans":
        return (QUESTION, text), planted, len(QUESTION.split()) + 2 + words.index(planted)
    if task == "pairs":
        return (QUESTION, text), planted, float(number == 0)
    if task == "next":
        return f"{text} so", planted, VOCABULARY.index(ANSWERS[number])
    if task == "values":
        return text, planted, number + 1.0
    if task == "labels":
        return text, planted, [float(i == number) for i in range(4)]
    return text, planted, number


def read(reader: PreTrainedTokenizerFast, texts: Sequence[Any]) -> dict[str, torch.Tensor]:
    """Texts or pairs as a model reads them."""
    parts = zip(*texts, strict=True) if isinstance(texts[0], tuple) else [texts]
    return dict(reader(*map(list, parts), padding=True, return_tensors="pt"))


def _classes(model: Any, inputs: Any, wanted: Sequence[int]) -> torch.Tensor:
    return functional.cross_entropy(model(**inputs).logits, torch.tensor(wanted))


def _pairs(model: Any, inputs: Any, wanted: Sequence[float]) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(model(**inputs).logits[:, 0], torch.tensor(wanted))


def _values(model: Any, inputs: Any, wanted: Sequence[float]) -> torch.Tensor:
    return functional.mse_loss(model(**inputs).logits[:, 0], torch.tensor(wanted))


def _labels(model: Any, inputs: Any, wanted: Sequence[list[float]]) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(model(**inputs).logits, torch.tensor(wanted))


def _spans(model: Any, inputs: Any, wanted: Sequence[int]) -> torch.Tensor:
    output = model(**inputs)
    ends = torch.cat([output.start_logits, output.end_logits])
    return functional.cross_entropy(ends, torch.tensor([*wanted, *wanted]))


def _next(model: Any, inputs: Any, wanted: Sequence[int]) -> torch.Tensor:
    last = inputs["attention_mask"].sum(1) - 1
    return functional.cross_entropy(model(**inputs).logits[range(len(last)), last], torch.tensor(wanted))


TASKS: dict[str, Callable[..., torch.Tensor]] = {
    "classes": _classes, "function": _classes, "pairs": _pairs, "values": _values, "labels": _labels,
    "spans": _spans, "next": _next,
}  # fmt: skip
NAMES = {"id2label": dict(enumerate(ANSWERS)), "label2id": {name: i for i, name in enumerate(ANSWERS)}}
OUTPUTS = {
    "classes": NAMES, "function": NAMES, "labels": NAMES | {"problem_type": "multi_label_classification"},
    "pairs": {"num_labels": 1}, "values": {"num_labels": 1, "problem_type": "regression"},
}  # fmt: skip


def _predictor(model: Any, reader: PreTrainedTokenizerFast) -> Callable[[list[str]], Any]:
    """A model as a function from texts to probabilities."""

    def predict(texts: list[str]) -> Any:
        with torch.no_grad():
            return model(**read(reader, texts)).logits.softmax(-1).numpy()

    return predict
