"""Compare a GPU with the CPU: `python -m tests.bench.gpu`.

Every method of the catalogue must give the same scores for demo/reviews on both. Without a GPU a single row says so.
"""

from collections.abc import Iterable

import numpy as np
import torch

import nbsal
from nbsal.methods import catalogue
from tests.bench import table
from tests.bench.table import Row, at_least, missing

TOLERANCE = 1e-4  # relative to a text's largest score
TEXTS = 8


def results(rounds: int = 1, quick: bool = False) -> list[Row]:
    """The row of the comparison, or one that says that there is no GPU."""
    if not torch.cuda.is_available():
        return [missing("a GPU compared with the CPU", "torch finds no CUDA device")]
    return list(methods(torch.device("cuda"), quick))


def methods(device: torch.device, quick: bool) -> Iterable[Row]:
    """The difference of each method's scores from those on the CPU, relative to a text's largest score."""
    subjects = [nbsal.load("demo/reviews", device=name) for name in ("cpu", device)]
    texts = nbsal.data.load("samples/reviews")["text"].tolist()[: 2 if quick else TEXTS]
    names = catalogue.names()[:: 8 if quick else 1]
    differences = {name: _difference(name, subjects, texts) for name in names}
    failed = {name: d for name, d in differences.items() if isinstance(d, str) or not d <= TOLERANCE}
    largest = max((d for d in differences.values() if not isinstance(d, str)), default=float("nan"))
    passed = len(names) - len(failed)
    failures = "".join(f"; {name}: {d if isinstance(d, str) else f'{d:.1e}'}" for name, d in failed.items())
    yield Row(
        f"{len(names)} methods on {len(texts)} reviews, largest difference from the scores on the CPU",
        ours=f"{largest:.1e}, {passed} of {len(names)} within {TOLERANCE:g}{failures}",
        **at_least(len(names), passed, " methods"),
    )


def _difference(name: str, subjects: list[nbsal.Subject], texts: list[str]) -> float | str:
    """The largest relative difference between two subjects' scores, or the text of an error."""
    try:
        both = [nbsal.Explainer(subject, name).map(texts, progress=False) for subject in subjects]
    except Exception as error:  # any error: the other methods can still be compared
        return f"{type(error).__name__}: {error}"
    return max(
        float(np.abs(first.scores - second.scores).max() / max(np.abs(first.scores).max(), 1e-30))
        for first, second in zip(*both, strict=True)
    )


if __name__ == "__main__":
    table.main(results, __doc__)
