"""Check that scores depend on the text, the settings and the seed alone."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nbsal.explain.explainer import Explainer
from nbsal.testing.scores import TEXTS, require


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed the global random generators of PyTorch (on the CPU), numpy and Python, and restore them afterwards."""
    states = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed accelerators and not restore them
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(states[0])
            random.setstate(states[1])


def scores_repeat(explain: Explainer, texts: Sequence[str] = TEXTS) -> None:
    """The same text has the same scores again, whatever was explained before and however generators are seeded."""
    runs = []
    for seed in (1, 2):
        with global_seed(seed):
            runs.append({text: explain(text).scores for text in texts[:: 1 if seed == 1 else -1]})
    for text in texts:
        first, second = (run[text] for run in runs)
        problem = f"{text!r} has the scores {first.round(4)} and then {second.round(4)}: use text_rng(seed, row)"
        require(np.array_equal(first, second), problem)


def seed_matters(explain: Explainer, texts: Sequence[str] = TEXTS) -> None:
    """A method that promises seeded scores takes a seed, and another seed gives other scores; others take none."""
    method: Any = explain.method
    takes, promises = "seed" in method.parameters(), "seeded" in method.promise
    require(takes is promises, f"the setting 'seed' {'exists' if takes else 'is missing'}: promise 'seeded' or not")
    if takes:
        other = Explainer(explain.subject, replace(method, seed=method.seed + 1))
        same = all(np.array_equal(explain(text).scores, other(text).scores) for text in texts)
        require(not same, f"seeds {method.seed} and {method.seed + 1} give the same scores")
