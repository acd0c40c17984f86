"""Train `demo/notes`: `python -m tests.training.notes --out FOLDER [--steps N]`.

A little Llama learns from nothing to answer questions about notes of a made-up world. The levels of the curriculum grow
from a few words to the whole world, then to clutter, questions without an answer and chains of two notes. A level is
left when unseen facts are answered well enough. Every 50 steps the checkpoint in the folder and the weights in half
precision beside it are replaced; the same call resumes, with another number of steps if you like. Copy the weights to
nbsal/samples/weights to ship them.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nbsal.samples import weight_files
from nbsal.samples.notes import vocabulary
from tests.training import notes_attention
from tests.training.notes_batches import Encoder, batch, draw, stack
from tests.training.notes_model import blank
from tests.training.notes_world import Level

SEED = 0
RATE = 1.5e-3
WARM_UP = 40
FALLING = 0.35  # of the steps, at the end
LAST_RATE = 0.02
BATCH_TOKENS = 4096
EASIER = 0.12  # of the batches come from an earlier level
CHECK = 50
PASS = 0.85  # exact answers from one note with which a level is left
FIRST = ("lives", "job", "allergy", "speaks", "plays", "extension")
LEVELS = [
    Level(FIRST, words=20, statements=1, questions=1, alike=0.5),
    Level(FIRST, words=60, statements=1, questions=2, alike=0.5),
    Level(FIRST, questions=3, alike=0.5),
    Level(statements=2, questions=3, alike=0.4),
    Level(),
    Level(notes=(2, 6), turns=5, absent=0.2, clutter=0.25),
    Level(notes=(2, 7), turns=6, absent=0.3, clutter=0.5, chains=0.6, noise=0.1),
    Level(notes=(2, 10), turns=6, absent=0.3, clutter=0.6, chains=0.6, noise=0.2),
]


def optimizer(model: Any) -> torch.optim.Optimizer:
    """AdamW with weight decay for the matrices only."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim != 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98))


def rate(step: int, steps: int) -> float:
    """The learning rate: constant after the warm-up, then falling linearly."""
    falling = max(LAST_RATE, (1 - step / steps) / FALLING)
    return RATE * min(1.0, step / WARM_UP, falling)


def loss(model: Any, ids: Tensor, shares: Tensor) -> Tensor:
    """The weighted mean of the answer tokens' cross-entropy."""
    learnt = shares[:, 1:] > 0
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        logits = model.lm_head(hidden[learnt])
    each = functional.cross_entropy(logits.float(), ids[:, 1:][learnt], reduction="none")
    share = shares[:, 1:][learnt]
    return (each * share).sum() / share.sum()


@torch.no_grad()
def exam(model: Any, encoder: Encoder, level: Level, cases: int = 40) -> dict[str, float]:
    """Exact answers by kind on facts that are never trained on, when each token follows the right ones before it."""
    right: dict[str, list[bool]] = {}
    rng = Random(f"exam {level}")
    for _ in range(cases // 10):
        drawn = draw(encoder, rng, replace(level, noise=0.0), unseen=True)
        sequences = [next(drawn) for _ in range(10)]
        ids, _ = stack(sequences)
        choices = model(input_ids=ids, use_cache=False).logits.argmax(-1)
        for row, sequence in enumerate(sequences):
            for kind, start, end in sequence.answers:
                right.setdefault(kind, []).append(
                    bool((choices[row, start - 1 : end - 1] == ids[row, start:end]).all())
                )
    return {kind: sum(answers) / len(answers) for kind, answers in sorted(right.items())}


def examine(model: Any, encoder: Encoder, at: int) -> dict[str, float]:
    """Exact answers by kind on a level, its facts being alike and then mixed."""
    level = LEVELS[at]
    alike, mixed = (exam(model, encoder, replace(level, alike=share)) for share in (1.0, 0.0))
    return {f"{kind} alike": share for kind, share in alike.items()} | {f"{kind} mixed": mixed[kind] for kind in mixed}


def weights(model: Any) -> dict[str, Tensor]:
    """What `nbsal.samples` loads: half precision, without the output embeddings, which are the input's."""
    state = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    return {name: value.detach().half().contiguous() for name, value in state.items()}


class Run:
    """A training run, which a checkpoint holds and restores."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.path = out / "checkpoint.pt"
        self.vocabulary = vocabulary()
        self.encoder = Encoder(self.vocabulary)
        self.model = blank(len(self.vocabulary), SEED)
        self.model.set_attn_implementation(notes_attention.NAME)
        self.optimizer = optimizer(self.model)
        self.step, self.level, self.seconds = 0, 0, 0.0
        if self.path.exists():
            self.restore()

    def restore(self) -> None:
        state = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.level, self.seconds = state["step"], state["level"], state["seconds"]

    def save(self) -> None:
        state = {name: getattr(self, name) for name in ("step", "level", "seconds")}
        state |= {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        waiting = self.path.with_suffix(".new")
        torch.save(state, waiting)
        waiting.replace(self.path)
        weight_files.save(weights(self.model), self.path.with_name("notes.safetensors"))

    def learn(self, steps: int) -> float:
        """One step; returns its loss."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.step, steps)
        rng = Random(f"{SEED} {self.step}")  # so that a resumed run draws what an uninterrupted one would
        easier = self.level and rng.random() < EASIER
        level = LEVELS[rng.randrange(self.level) if easier else self.level]
        value = loss(self.model, *batch(self.encoder, rng, level, BATCH_TOKENS))
        self.optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return value.item()

    def check(self) -> str:
        """Examine, move to the next level where the answers allow it, and report."""
        exact = examine(self.model, self.encoder, self.level)
        figures = ", ".join(f"{name} {share:.2f}" for name, share in exact.items())
        text = f"step {self.step}, level {self.level}, {self.seconds:.0f} CPU s: {figures}"
        if self.level + 1 < len(LEVELS) and min(exact["one alike"], exact["one mixed"]) >= PASS:
            self.level += 1
        return text

    def go(self, steps: int) -> None:
        """Train up to a number of steps in all."""
        while self.step < steps:
            start = time.process_time()
            losses: list[float] = []
            while self.step < steps and (not losses or self.step % CHECK):
                losses.append(self.learn(steps))
            self.seconds += time.process_time() - start
            print(f"loss {sum(losses) / len(losses):.3f}, {self.check()}", flush=True)
            self.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000, help="in all (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run = Run(arguments.out)
    run.go(arguments.steps)


if __name__ == "__main__":
    main()
