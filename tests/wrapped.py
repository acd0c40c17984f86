"""Tiny models of other libraries, built from the models of the zoo and saved by the libraries themselves."""

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests import zoo

TEXTS = [
    "The film is a warm and funny joy.",
    "A dull bore.",
    "Prices fell on Monday after the company reported a loss.",
]
PAIRS = [("Who wrote the book?", "The company."), ("A dull bore.", "The striker scored twice, and the visitors won.")]
LONG = " ".join(TEXTS * 6)


def peer(name: str) -> Any:
    """A library of the extra `peers`; without it the test is skipped, or fails if NBSAL_REQUIRE names the extra."""
    if "peers" in os.environ.get("NBSAL_REQUIRE", ""):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason="needs the extra peers")


def adapted(kind="LoraConfig", name="bert", head="sequence", seed=3, **settings):
    """A PeftModel of a tiny model, with adapters that are not zero."""
    peft = peer("peft")
    settings = {"target_modules": ["query", "value", "dense"], "r": 4, "init_lora_weights": False} | settings
    tasks = {"sequence": "SEQ_CLS", "token": "TOKEN_CLS", "causal": "CAUSAL_LM"}
    settings = {key: value for key, value in settings.items() if value is not None}
    torch.manual_seed(seed)
    config = getattr(peft, kind)(task_type=tasks[head], **settings)
    model = peft.get_peft_model(zoo.model(name, head), config)
    with torch.no_grad():
        for parameter in (part for key, part in model.named_parameters() if "lora_" in key or "ia3_" in key):
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def body(folder: Path) -> Path:
    """The folder of a tiny encoder without a head."""
    path = folder / "body"
    if not path.exists():
        zoo.model("bert", "sequence").bert.save_pretrained(path)
        zoo.tokenizer("wordpiece").save_pretrained(path)
    return path


def sentence_transformer(folder: Path, pooling="mean", normalize=False, **settings):
    """A SentenceTransformer, saved by its library and loaded back."""
    library = peer("sentence_transformers")
    from sentence_transformers import models

    parts = [models.Transformer(str(body(folder)))]
    parts.append(models.Pooling(parts[0].get_embedding_dimension(), pooling_mode=pooling))
    parts += [models.Normalize()] if normalize else []
    library.SentenceTransformer(modules=parts, device="cpu", **settings).save(str(folder / "st"))
    return library.SentenceTransformer(str(folder / "st"), device="cpu")


def cross_encoder(folder: Path, labels=1, types=True):
    """A CrossEncoder, with a tokenizer that gives token types or not."""
    library = peer("sentence_transformers")
    path = folder / f"pairs-{labels}-{types}"
    zoo.model("bert", "sequence", num_labels=labels).save_pretrained(path)
    tokenizer = zoo.tokenizer("wordpiece")
    names = tokenizer.model_input_names
    try:
        tokenizer.model_input_names = names if types else ["input_ids", "attention_mask"]
        tokenizer.save_pretrained(path)
    finally:
        tokenizer.model_input_names = names
    return library.CrossEncoder(str(path), device="cpu")


def setfit(folder: Path, kind: str, classes=2, normalize=False):
    """A SetFit model whose head is "torch", "logistic", "multi-output", "one-vs-rest" or "forest"."""
    library = peer("setfit")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier

    model = sentence_transformer(folder)
    rng = np.random.default_rng(0)
    embeddings, targets = model.encode(TEXTS * 3), np.arange(9) % classes
    if kind == "torch":
        head = library.SetFitHead(embeddings.shape[1], classes, device="cpu")
    elif kind == "logistic":
        head = LogisticRegression().fit(embeddings, targets)
    elif kind == "forest":
        head = RandomForestClassifier(3).fit(embeddings, targets)
    else:
        several = rng.integers(0, 2, (9, classes))
        several[:2] = [[0] * classes, [1] * classes]
        kinds = {"multi-output": MultiOutputClassifier, "one-vs-rest": OneVsRestClassifier}
        head = kinds[kind](LogisticRegression()).fit(embeddings, several)
    names = [f"class {i}" for i in range(classes)]
    return library.SetFitModel(model_body=model, model_head=head, labels=names, normalize_embeddings=normalize)


def causal_reranker(folder: Path, false_token=True):
    """A CrossEncoder that reads the logits of two answers from a causal model."""
    library = peer("sentence_transformers")
    from sentence_transformers.cross_encoder.modules import LogitScore
    from sentence_transformers.models import Transformer

    zoo.model("llama", "causal").save_pretrained(folder)
    zoo.tokenizer("pieces").save_pretrained(folder)
    parts = Transformer(str(folder), transformer_task="text-generation"), LogitScore(9, 12 if false_token else None)
    return library.CrossEncoder(modules=list(parts), device="cpu")


def quantised(folder: Path, settings):
    """A tiny classifier whose rows the libraries can divide into blocks."""
    zoo.model("bert", "sequence", hidden_size=64, intermediate_size=64).save_pretrained(folder)
    model = transformers.BertForSequenceClassification.from_pretrained(folder, quantization_config=settings)
    return model.eval()


def bitsandbytes(**settings):
    """Settings of bitsandbytes, by default for 8 bits."""
    peer("bitsandbytes")
    return transformers.BitsAndBytesConfig(**settings or {"load_in_8bit": True})


def quanto():
    """Settings of optimum-quanto for 8 bits."""
    peer("optimum.quanto")
    return transformers.QuantoConfig(weights="int8")


def torchao():
    """Settings of torchao for 8 bits."""
    quantization = peer("torchao.quantization")
    return transformers.TorchAoConfig(quantization.Int8WeightOnlyConfig())
