"""Train the embedded models: `python -m tests.training.train body|reviews|news|nli|answers`.

The body and its LM head are first adapted to masked-language modelling. Every task starts from that body, so that the
LM head matches it, and a small loss on unmasked tokens keeps the upper blocks decodable by the LM head. Rows come from
the folder NBSAL_DATA. Each run is seeded. It saves a running average of its weights from the checkpoint with the best
score on held-out training rows. If a task has several runs, the mean of their weights is saved.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nbsal import samples
from nbsal.samples import KINDS, LABELS, base, build_lm, delta, low_rank, weight_files
from nbsal.samples.models import blank
from tests.training.answers import answer_schedule, answers, span_f1, span_loss
from tests.training.corpora import Example, batches, encode, rows, shuffled, stack

WEIGHTS = Path(samples.__file__).parent / "weights"
SEED = 0
BATCH_TOKENS = 1024
WARM_UP = 30
CHECKPOINTS = 10
DECAY = 0.995  # of the running average of the weights, per step
CLS, SEP, MASK = 101, 102, 103
FIRST_WORD = 1000  # lower ids are [unused], special tokens and single symbols
WORDS = range(FIRST_WORD, base.CONFIG["vocab_size"])

Batch = Sequence[Example]
Rates = Callable[[int], float]  # step -> share of the recipe's rate


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of one run."""

    rank: int
    epochs: int
    rate: float
    head_rate: float
    dropout: float = 0.1
    decodable: float = 0.1  # weight of the loss on unmasked tokens
    seed: int = SEED
    made: int = 0  # questions made from text, which come before the real ones


# Several recipes are several runs, whose mean is saved.
RECIPES = {
    "body": [Recipe(rank=16, epochs=2, rate=2e-3, head_rate=2e-3, dropout=0.0, decodable=0.0)],
    "reviews": [
        Recipe(rank=16, epochs=3, rate=7e-4, head_rate=5e-4),
        Recipe(rank=8, epochs=3, rate=1e-3, head_rate=5e-4, dropout=0.0, decodable=0.0, seed=1),
        Recipe(rank=16, epochs=3, rate=7e-4, head_rate=5e-4, seed=1),
    ],
    "news": [Recipe(rank=8, epochs=3, rate=1e-3, head_rate=5e-4, dropout=0.0)],
    "nli": [Recipe(rank=16, epochs=3, rate=1.5e-3, head_rate=1e-3, dropout=0.0)],
    "answers": [
        Recipe(rank=16, epochs=2, rate=1e-3, head_rate=1e-3, dropout=0.0, made=24_000, seed=seed) for seed in (SEED, 1)
    ],
}
MEAN_RANKS = {"reviews": 24, "answers": 16}  # of the mean of several runs


# --- rows -> examples -------------------------------------------------------------------------------------------------


def passages(tokenizer: Any, width: int = 62) -> list[Example]:
    """Windows of running text for masked-language modelling, without the evaluation rows."""
    texts = [row["text"] for row in rows("ag_news", "train")]
    texts += [row["text"] for row in rows("wikitext2", "articles")[:-300]]
    texts += [row["sentence"] for row in rows("sst2", "train") if len(row["sentence"].split()) >= 16]
    texts += sorted({row["premise"] for row in rows("snli", "train")})
    examples = []
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
        pieces = (ids[i : i + width] for i in range(0, len(ids), width))
        examples += [Example([CLS, *piece, SEP], [0] * (len(piece) + 2)) for piece in pieces if len(piece) >= 12]
    return examples


def review_rows() -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Phrases of SST-2 to train on, and whole sentences to hold out, which neither contain a phrase nor are in one."""
    table = rows("sst2", "train")
    sentences = shuffled([row for row in table if len(row["sentence"].split()) >= 16], SEED)[:600]
    held = {row["sentence"]: row["label"] for row in sentences}
    joined = "\n".join(held)
    rest = [row for row in table if row["sentence"].strip() not in joined]
    return [row for row in rest if not any(text in row["sentence"] for text in held)], held


def reviews(tokenizer: Any) -> tuple[list[Example], list[Example]]:
    """The same as examples."""
    rest, held = review_rows()
    parts = [[row["sentence"] for row in rest], list(held)], [[row["label"] for row in rest], list(held.values())]
    train, check = (encode(tokenizer, texts, labels, 128) for texts, labels in zip(*parts, strict=True))
    return train, check


def split(examples: list[Example]) -> tuple[list[Example], list[Example]]:
    """All examples but a thousand to train on, and the thousand to hold out."""
    mixed = shuffled(examples, SEED)
    return mixed[1000:], mixed[:1000]


def news(tokenizer: Any) -> tuple[list[Example], list[Example]]:
    """Descriptions of AG News."""
    table = rows("ag_news", "train")
    return split(encode(tokenizer, [row["text"] for row in table], [row["label"] for row in table], 128))


def nli(tokenizer: Any) -> tuple[list[Example], list[Example]]:
    """Pairs of SNLI, premise and hypothesis."""
    table = [row for row in rows("snli", "train") if row["label"] >= 0]
    texts = [(row["premise"], row["hypothesis"]) for row in table]
    return split(encode(tokenizer, texts, [row["label"] for row in table], 96))


# --- losses and scores ------------------------------------------------------------------------------------------------


def masked(
    inputs: dict[str, Tensor], generator: torch.Generator, share: float = 0.25, words: range = WORDS, mask: int = MASK
) -> tuple[dict[str, Tensor], Tensor]:
    """Inputs with a share of the content tokens chosen, of which 70 % are masked, 10 % replaced, 20 % unchanged.

    More are unchanged than in BERT, because the LM head must also decode unmasked tokens of inner blocks.
    """
    ids = inputs["input_ids"]
    choice, fate = torch.rand(2, *ids.shape, generator=generator)
    chosen = (choice < share) & (ids >= words.start)
    swaps = torch.randint(words.start, words.stop, ids.shape, generator=generator)
    ids = torch.where(chosen & (fate < 0.7), torch.full_like(ids, mask), ids)
    ids = torch.where(chosen & (fate >= 0.7) & (fate < 0.8), swaps, ids)
    return inputs | {"input_ids": ids}, chosen


class MaskedLoss:
    """Cross-entropy of the chosen tokens over the whole vocabulary."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(SEED)

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        clean = stack(batch)
        inputs, chosen = masked(clean, self.generator)
        hidden = model.bert(**inputs).last_hidden_state[chosen]
        return functional.cross_entropy(model.cls(hidden).float(), clean["input_ids"][chosen])


class DecodableLoss:
    """Cross-entropy of the frozen LM head on unmasked tokens, at some positions of a random upper layer."""

    def __init__(self, seed: int) -> None:
        self.head = build_lm().cls
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, ids: Tensor, hidden: Sequence[Tensor], positions: int = 48) -> Tensor:
        layer = int(torch.randint(len(hidden) - 3, len(hidden), (), generator=self.generator))
        places = (ids >= FIRST_WORD).nonzero()
        few = places[torch.randperm(len(places), generator=self.generator)[:positions]]
        logits = self.head(hidden[layer][few[:, 0], few[:, 1]]).float()
        return functional.cross_entropy(logits, ids[few[:, 0], few[:, 1]])


def class_loss(output: Any, batch: Batch) -> Tensor:
    """Cross-entropy of the labels."""
    return functional.cross_entropy(output.logits.float(), torch.tensor([example.label for example in batch]))


class TaskLoss:
    """The loss of the task plus the weighted loss of decoding unmasked tokens."""

    def __init__(self, task_loss: Callable[[Any, Batch], Tensor], weight: float, seed: int) -> None:
        self.task_loss, self.weight, self.decodable_loss = task_loss, weight, DecodableLoss(seed)

    def __call__(self, model: Any, batch: Batch) -> Tensor:
        inputs = stack(batch)
        output = model(**inputs, output_hidden_states=True)
        decodable = self.decodable_loss(inputs["input_ids"], output.hidden_states)
        return self.task_loss(output, batch) + self.weight * decodable


@torch.no_grad()
def accuracy(model: Any, examples: Batch) -> float:
    """The share of labels that the model predicts."""
    correct = 0
    for batch in batches(examples, 4096, None):
        predicted = model(**stack(batch)).logits.argmax(-1).tolist()
        correct += sum(label == example.label for label, example in zip(predicted, batch, strict=True))
    return correct / len(examples)


# --- the loop ---------------------------------------------------------------------------------------------------------


def identity_start(model: Any) -> None:
    """Initialise the LM head's transform as the identity, so that unmasked tokens decode from the first step."""
    dense = model.cls.predictions.transform.dense
    with torch.no_grad():
        dense.weight += torch.eye(dense.out_features)


class Average:
    """A running average of weights, which generalises better than the last weights."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.values = [parameter.detach().clone() for parameter in parameters]

    def update(self, share: float) -> None:
        for value, parameter in zip(self.values, self.parameters, strict=True):
            value.lerp_(parameter.detach(), share)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights by their average within the block."""
        weights = [parameter.detach().clone() for parameter in self.parameters]
        self._put(self.values)
        yield
        self._put(weights)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)


def fit(
    model: Any,
    recipe: Recipe,
    schedule: Sequence[Batch],
    rate: Rates,
    loss: Callable[[Any, Batch], Tensor],
    score: Callable[[Any], float] | None,
) -> dict[str, Tensor]:
    """Train the low-rank factors and the head, or without a rank all weights that require gradients.

    Returns the delta of the best checkpoint, or without `score` the last.
    """
    torch.manual_seed(recipe.seed)
    if recipe.rank:
        low_rank.attach(model.bert, recipe.rank)
        if model.bert.pooler is not None:
            model.bert.pooler.requires_grad_(True)
    factors = [p for n, p in model.named_parameters() if n.endswith((".A", ".B"))]
    others = [p for n, p in model.named_parameters() if p.requires_grad and not n.endswith((".A", ".B"))]
    optimiser = torch.optim.AdamW(
        [{"params": factors, "lr": recipe.rate}, {"params": others, "lr": recipe.head_rate}], weight_decay=0.0
    )
    decay = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / WARM_UP) * max(0.02, rate(step))
    )
    average, best_score, best_delta = Average(factors + others), -math.inf, dict[str, Tensor]()
    start, seen, running = time.time(), 0, 0.0
    model.train()
    for step, batch in enumerate(schedule, 1):
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(model, batch)
        optimiser.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(factors + others, 1.0)
        optimiser.step()
        decay.step()
        average.update(max(1 - DECAY, 1 / step))
        seen += sum(len(example.ids) for example in batch)
        running = value.item() if step == 1 else 0.98 * running + 0.02 * value.item()
        if step % 100 == 0:
            spent = time.time() - start
            print(f"{step}/{len(schedule)} loss {running:.4f}, {spent:.0f} s, {seen / spent:.0f} tokens/s", flush=True)
        if score and step % max(1, len(schedule) // CHECKPOINTS) == 0:
            with average.applied():
                held_out_score = score(model.eval())
                model.train()
                print(f"{step}/{len(schedule)} held-out {held_out_score:.4f}", flush=True)
                if held_out_score > best_score:
                    best_score, best_delta = held_out_score, low_rank.collect(model)
    return best_delta or low_rank.collect(model)


def epochs_of(examples: Batch, recipe: Recipe) -> tuple[list[list[Example]], Rates]:
    """Batches of all examples, once an epoch, with a rate that falls to zero."""
    epochs = range(recipe.epochs)
    schedule = [batch for epoch in epochs for batch in batches(examples, BATCH_TOKENS, 1000 * recipe.seed + epoch)]
    return schedule, falling(len(schedule))


def falling(steps: int) -> Rates:
    """A rate that falls to zero."""
    return lambda step: 1 - step / steps


SOURCES = {"reviews": reviews, "news": news, "nli": nli, "answers": answers}


def train_model(name: str, recipe: Recipe) -> dict[str, Tensor]:
    """Run one recipe of an embedded model and return its delta."""
    torch.manual_seed(SEED)  # all runs start from the same head
    tokenizer = base.tokenizer()
    dropout = {"hidden_dropout_prob": recipe.dropout, "attention_probs_dropout_prob": recipe.dropout}
    if name == "body":
        model = blank("MaskedLM", **dropout)
        identity_start(model)
        return fit(model, recipe, *epochs_of(shuffled(passages(tokenizer), SEED), recipe), MaskedLoss(), None)
    settings = {"num_labels": len(LABELS[name])} if name in LABELS else {}
    model = blank(KINDS[name], **dropout, **settings)
    low_rank.merge(model, delta("body"))
    examples, held = SOURCES[name](tokenizer)
    schedule, rate = (
        answer_schedule(tokenizer, recipe.epochs, recipe.seed, recipe.made)
        if name == "answers"
        else epochs_of(examples, recipe)
    )
    print(f"seed {recipe.seed}: {len(schedule)} batches, {len(held)} examples held out", flush=True)
    task_loss, score = (
        (span_loss, lambda m: span_f1(m, held)) if name == "answers" else (class_loss, lambda m: accuracy(m, held))
    )
    return fit(model, recipe, schedule, rate, TaskLoss(task_loss, recipe.decodable, recipe.seed), score)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.training.train", description=__doc__)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--made", type=int, help="questions made from text, for answers; 0 shows what they add")
    parser.add_argument("--seed", type=int, help="the only seed to run")
    options = parser.parse_args()
    start = time.time()
    changes = {key: value for key in ("made", "seed") if (value := getattr(options, key)) is not None}
    recipes = RECIPES[options.name][: None if options.seed is None else 1]
    runs = [train_model(options.name, replace(recipe, **changes)) for recipe in recipes]
    weights = runs[0] if len(runs) == 1 else low_rank.averaged(runs, MEAN_RANKS[options.name])
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}.safetensors"
    weight_files.save(weights, path)
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB after {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
