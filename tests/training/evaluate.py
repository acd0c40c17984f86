"""Evaluate the embedded models on rows they were not trained on: `python -m tests.training.evaluate`.

Prints the accuracy of each model, the masked-token accuracy of the LM head, and how often the head decodes each layer
to the unmasked input tokens. Rows come from the folder NBSAL_DATA.
"""

import argparse
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nbsal.explain.explainer import Explainer
from nbsal.model.loading.load import load
from nbsal.model.subject import Subject
from nbsal.samples import build_lm, small, texts
from nbsal.samples.embedded import tokenizer as tokenizer_of
from nbsal.support.validation import Text
from tests.training.answers import answer_split
from tests.training.corpora import Example, batches, encode, rows, stack
from tests.training.small import TRAINED
from tests.training.train import FIRST_WORD, MASK

# The table, the split and the text of a row, of each classifier.
TABLES: dict[str, tuple[str, str, Callable[[dict[str, Any]], Text]]] = {
    "reviews": ("sst2", "validation", lambda row: row["sentence"]),
    "reviews-small": ("sst2", "validation", lambda row: row["sentence"]),
    "news": ("ag_news", "test", lambda row: row["text"]),
    "nli": ("snli", "validation", lambda row: (row["premise"], row["hypothesis"])),
}


def evaluation_texts() -> dict[str, list[str]]:
    """Running text that none of the models was trained on."""
    return {
        "wikitext": [row["text"] for row in rows("wikitext2", "articles")[-300:]],
        "ag_news": [row["text"] for row in rows("ag_news", "test")[:300]],
        "sst2": [row["sentence"] for row in rows("sst2", "validation")],
    }


def accuracy(subject: Subject, name: str, most: int | None = None) -> tuple[float, int]:
    """The share of a model's texts (at most as many) whose label it predicts, and their number."""
    table, split, text = TABLES[name]
    labelled = [(text(row), row["label"]) for row in rows(table, split)[:most]]
    return share_correct(subject, labelled), len(labelled)


@torch.no_grad()
def share_correct(subject: Subject, labelled: Sequence[tuple[Text, int]]) -> float:
    """The share of texts whose label a model predicts."""
    texts, labels = zip(*labelled, strict=True)
    correct = 0
    order = sorted(range(len(texts)), key=lambda i: len(str(texts[i])))
    for start in range(0, len(order), 64):
        part = order[start : start + 64]
        logits = subject.logits(subject.inputs(subject.encode([texts[i] for i in part])))
        correct += int((logits.argmax(-1) == torch.tensor([labels[i] for i in part])).sum())
    return correct / len(texts)


def by_length(subject: Subject) -> Iterator[str]:
    """The accuracy of a model of reviews on texts of several lengths; of the long ones none was trained on."""
    sst2 = [(row["sentence"], row["label"]) for row in rows("sst2", "validation")]
    texts = {
        "SST-2, up to 12 words": [row for row in sst2 if len(row[0].split()) <= 12],
        "SST-2, more than 24 words": [row for row in sst2 if len(row[0].split()) > 24],
    }
    for name, start in TRAINED.items():
        texts[name] = [(row["text"], row["label"]) for row in rows(name, "test")[start:]]
    for name, some in texts.items():
        yield f"{name}: {share_correct(subject, some):.3f} of {len(some)}"


def confirmed(subject: Subject, layer: int, most: int | None = None) -> float:
    """How often the strongest word of a sample review is among the three whose hiding changes the decision most.

    The word is that of decoded Grad-CAM; ironic reviews are left out.
    """
    some = [row["text"] for row in texts("reviews") if row["kind"] != "irony"][:most]
    explainers = Explainer(subject, "decoded-gradcam", layer=layer), Explainer(subject, "occlusion")
    decoded, hidden = (explain.map(some, progress=False) for explain in explainers)
    hits = [s.word_order[0] in h.word_order[:3] for s, h in zip(decoded, hidden, strict=True)]
    return sum(hits) / len(hits)


def running_text(name: str) -> dict[str, list[Example]]:
    """The evaluation texts as an embedded model reads them."""
    return {key: encode(tokenizer_of(name), texts, texts, 128) for key, texts in evaluation_texts().items()}


def normalised(answer: str) -> list[str]:
    """The words of an answer as SQuAD compares them, without case, punctuation and articles."""
    plain = "".join(c for c in answer.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def f1_score(answer: str, gold: str) -> float:
    """The F1 score of the words that two answers share."""
    words, gold_words = normalised(answer), normalised(gold)
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * shared / (len(words) + len(gold_words)) if shared else 0.0


def answers(subject: Subject) -> tuple[float, float]:
    """Exact match and F1 score on the held-out questions."""
    explain = Explainer(subject, "simple", layer=subject.depth)
    table = answer_split()[1]
    saliencies = explain.map([(row["question"], row["context"]) for row in table], batch_size=8, progress=False)
    pairs = [(s.prediction, row["answers"]["text"][0]) for s, row in zip(saliencies, table, strict=True)]
    exact = sum(normalised(answer) == normalised(gold) for answer, gold in pairs)
    return exact / len(pairs), sum(f1_score(*pair) for pair in pairs) / len(pairs)


@torch.no_grad()
def masked_accuracy(lm: Any, examples: Sequence[Example]) -> tuple[float, float]:
    """The accuracy of predicting masked tokens (12 % are masked), and that of always predicting the commonest one."""
    generator = torch.Generator().manual_seed(0)
    correct, total, counts = 0, 0, Counter[int]()
    for batch in batches(examples, 4096, None):
        inputs = stack(batch)
        clean = inputs["input_ids"]
        chosen = (torch.rand(clean.shape, generator=generator) < 0.12) & (clean >= FIRST_WORD)
        hidden = lm.bert(**inputs | {"input_ids": clean.masked_fill(chosen, MASK)}).last_hidden_state[chosen]
        correct += int((lm.cls(hidden).argmax(-1) == clean[chosen]).sum())
        total += len(hidden)
        counts.update(clean[chosen].tolist())
    return correct / total, counts.most_common(1)[0][1] / total


@torch.no_grad()
def identity(body: Any, lm: Any, examples: Sequence[Example], first_word: int = FIRST_WORD) -> list[float]:
    """For every layer, how often the LM head decodes a position to its unmasked input token."""
    correct, total = torch.zeros(body.config.num_hidden_layers + 1), 0
    for batch in batches(examples[:150], 4096, None):
        inputs = stack(batch)
        content = inputs["input_ids"] >= first_word
        states: tuple[Tensor, ...] = body(**inputs, output_hidden_states=True).hidden_states
        ids = inputs["input_ids"][content]
        correct += torch.tensor([float((lm.cls(h[content]).argmax(-1) == ids).sum()) for h in states])
        total += len(ids)
    return [round(float(share), 3) for share in correct / total]


def main() -> None:
    argparse.ArgumentParser(prog="python -m tests.training.evaluate", description=__doc__).parse_args()
    lm: Any = build_lm()
    coded = running_text("demo/reviews")
    for name, examples in coded.items():
        share, commonest = masked_accuracy(lm, examples)
        print(f"LM head on {name}: masked top-1 {share:.3f} (commonest token {commonest:.3f})", flush=True)
    everything = [example for examples in coded.values() for example in examples[:50]]
    print(f"identity by layer, adapted body: {identity(lm.bert, lm, everything)}", flush=True)
    for name in (*TABLES, "answers"):
        subject = load(f"demo/{name}", device="cpu")
        if name == "answers":
            exact, f1 = answers(subject)
            print(f"demo/answers: exact match {exact:.3f}, F1 {f1:.3f} on 120 questions", flush=True)
        else:
            share, count = accuracy(subject, name)
            print(f"demo/{name}: accuracy {share:.4f} on {count} texts", flush=True)
        if subject.name != small.NAME:
            print(f"identity by layer, demo/{name}: {identity(subject.model.base_model, lm, everything)}", flush=True)
    evaluate_small()


def evaluate_small() -> None:
    """Print what else is known of `demo/reviews-small`, which has a tokenizer and an LM head of its own."""
    subject, lm = load(small.NAME, device="cpu"), build_lm(small.NAME)
    examples = [example for examples in running_text(small.NAME).values() for example in examples[:50]]
    shares = identity(subject.model.base_model, lm, examples, len(small.SPECIAL))
    print(f"identity by layer, {small.NAME}: {shares}", flush=True)
    for each in (small.NAME, "demo/reviews"):
        subject = load(each, device="cpu")
        print(f"{each} on " + "; ".join(by_length(subject)), flush=True)
        layers = range(subject.depth + 1) if each == small.NAME else [subject.default_layer]
        by_layer = ", ".join(f"layer {layer} {confirmed(subject, layer):.2f}" for layer in layers)
        print(f"strongest word confirmed by hiding, {each}: {by_layer}", flush=True)


if __name__ == "__main__":
    main()
