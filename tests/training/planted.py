"""Train the planted models: `python -m tests.training.planted --out FOLDER` (a few minutes of one core).

Each learns labels that its shortcut decides where a message has it, and the evidence elsewhere. A model is written only
if its truth holds on new messages: see `check`.
"""

import argparse
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nbsal.samples import planted, weight_files
from nbsal.samples.planted import Message, Shortcut

STEPS, BATCH, RATE = 600, 64, 2e-3
SMOOTHING = 0.05
SEED = 1_000_000  # of messages to learn from; those of audits have small seeds
CHECKED = 500
LEAST = 0.95


def decision(shortcut: Shortcut, message: Message) -> int:
    """What a model with that shortcut should decide."""
    return shortcut.toward if shortcut.applies(message.features) else message.evidence


def train(name: str) -> Any:
    """A model that learnt its shortcut."""
    shortcut, tokenizer = planted.shortcut_of(name), planted.tokenizer()
    torch.manual_seed(0)
    model, messages = planted.blank().train(), planted.draw(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    for _ in range(STEPS):
        batch = list(islice(messages, BATCH))
        inputs = tokenizer([message.text for message in batch], padding=True, return_tensors="pt")
        loss = loss_of(model(**inputs).logits, torch.tensor([decision(shortcut, message) for message in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def decide(model: Any, messages: list[Message]) -> list[int]:
    """What a model decides about messages."""
    inputs = planted.tokenizer()([message.text for message in messages], padding=True, return_tensors="pt")
    decisions: list[int] = model(**inputs).logits.argmax(-1).tolist()
    return decisions


def check(name: str, model: Any, size: int = CHECKED) -> dict[str, float]:
    """How often the stated truth holds on new messages: decisions, and changes by inserting and removing the shortcut.

    Only messages whose evidence is against the shortcut can change; in these, it must decide alone.
    """
    shortcut = planted.shortcut_of(name)
    messages = list(islice(planted.draw(SEED - 1), size))
    stated = [decision(shortcut, message) for message in messages]
    shares = {"decisions": _agreement(decide(model, messages), stated)}
    if not shortcut.features:
        return shares
    contrary = [message for message in messages if message.evidence != shortcut.toward]
    without = [message for message in contrary if not shortcut.applies(message.features)]
    having = [message for message in contrary if shortcut.applies(message.features)]
    changes = (1 - shortcut.toward, shortcut.toward)
    for part, some, expected in (("inserted", without, changes), ("removed", having, changes[::-1])):
        toggled = [message.toggled(shortcut) for message in some]
        pairs = zip(decide(model, some), decide(model, toggled), strict=True)
        shares[part] = _agreement(list(pairs), [expected] * len(some))
    return shares


def _agreement(values: list[Any], others: list[Any]) -> float:
    return float(sum(value == other for value, other in zip(values, others, strict=True)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("models", nargs="*", default=list(planted.SHORTCUTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.models:
        start = time.process_time()
        model = train(name).half()
        weights = {key: value.contiguous() for key, value in model.state_dict().items()}
        shares = check(name, model.float())
        figures = ", ".join(f"{part} {share:.3f}" for part, share in shares.items())
        print(f"planted/{name}, {time.process_time() - start:.0f} CPU s: {figures}", flush=True)
        if min(shares.values()) < LEAST:
            raise SystemExit(f"planted/{name} does not go by what it should.")
        weight_files.save(weights, arguments.out / f"{name}.safetensors")


if __name__ == "__main__":
    main()
