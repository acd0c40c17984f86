"""Memory: explainers asked about texts, and subjects about texts with tokens hidden, nothing of it twice.

A long call that is cancelled leaves its memory in the error's `partial`; handed to the next call as `memory`, what was
done is not done again. Calls that share a memory share what they have read, while the weights of their models stay:
what was said before a model learnt is forgotten.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbsal.errors import InputError, NbsalError
from nbsal.explainer import Explainer, explain_batch, length_batches
from nbsal.model import architecture
from nbsal.model.masking import MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter, Progress
from nbsal.saliency import Saliency
from nbsal.validation import Text, as_list, is_iterable, positive_number, text_list, whole_number

Explainers = Explainer | Sequence[Explainer] | Mapping[str, Explainer | Sequence[Explainer]]
Key = tuple[Subject, Hashable]
Coalitions = NDArray[np.bool_]  # [subset, token], true where a token stays


@dataclass(frozen=True, eq=False)
class Run:
    """Content tokens of every text from the most to the least important, as one explainer has them."""

    subject: Subject
    rows: Encoded
    orders: Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Cache:
    """What explainers and subjects have said already.

    >>> import nbsal
    >>> explain, cache = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), Cache()
    >>> _ = nbsal.evaluation.games(explain, ["A joy."], random=0, progress=False, cache=cache)
    >>> len(cache.saliencies[explain.subject, explain.method])
    1
    """

    saliencies: dict[Key, dict[tuple[Row, Any], Saliency]] = field(default_factory=dict)
    masked_models: dict[tuple[Subject, str | int], MaskedModel] = field(default_factory=dict)
    weights: dict[Subject, Any] = field(default_factory=dict)  # their stamps, when a subject was last explained

    def explain(
        self,
        explainers: Sequence[Explainer],
        rows: Mapping[Subject, Encoded],
        targets: Sequence[Any],
        batch_size: int,
        meter: Meter,
    ) -> list[list[Saliency]]:
        """Every explainer on every text of its subject; those of one subject share the trace of a batch.

        `meter` counts texts, once a subject.
        """
        for subject in rows:
            self._renew(subject)
        size = positive_number(batch_size, "batch_size")
        every = [self.saliencies.setdefault(_key(explainer), {}) for explainer in explainers]
        for subject, encoded in rows.items():
            keys = list(zip(encoded, targets, strict=True))
            lacking = [any(key not in known for key in keys) for known in every]
            members = {str(at): e for at, e in enumerate(explainers) if e.subject is subject and lacking[at]}
            missing = [i for i, key in enumerate(keys) if any(key not in every[int(at)] for at in members)]
            meter.step(len(encoded) - len(missing))
            waiting = encoded.select(missing)
            for places, batch in length_batches(members.values(), waiting, size) if members else ():
                wanted = [targets[missing[place]] for place in places]
                found = explain_batch(members, batch, wanted, meter.part(len(places), len(members)))
                for at, saliencies in found.items():
                    every[int(at)].update(zip(zip(batch, wanted, strict=True), saliencies, strict=True))
        return [
            [known[key] for key in zip(rows[explainer.subject], targets, strict=True)]
            for explainer, known in zip(explainers, every, strict=True)
        ]

    def read(
        self, runs: Sequence[Run], tables: Sequence[Sequence[Coalitions]], way: str | int, meter: Meter
    ) -> list[list[Tensor]]:
        """Logits of every text of every run under each of its subsets; `meter` counts subsets."""
        found: dict[int, list[Tensor]] = {}
        for subject in dict.fromkeys(run.subject for run in runs):
            members = [at for at, run in enumerate(runs) if run.subject is subject]
            rows = runs[members[0]].rows
            if (subject, way) not in self.masked_models:
                self.masked_models[subject, way] = MaskedModel(subject, way)
            stacked = [np.concatenate([tables[at][i] for at in members]) for i in range(len(rows))]
            logits = self.masked_models[subject, way].logits(list(rows), stacked, meter)
            sizes = [[len(tables[at][i]) for at in members] for i in range(len(rows))]
            parts = [torch.split(one, size) for one, size in zip(logits, sizes, strict=True)]
            found |= {at: [part[place] for part in parts] for place, at in enumerate(members)}
        return [found[at] for at in range(len(runs))]

    def _renew(self, subject: Subject) -> None:
        """Forget what is no longer so."""
        head = subject._lm_head
        now = architecture.weights_version(subject.model), head and head.stamp
        if self.weights.setdefault(subject, now) != now:
            self.weights[subject] = now
            for key in [key for key in self.saliencies if key[0] is subject]:
                del self.saliencies[key]


def _key(explainer: Explainer) -> Key:
    """Explainers of one key say the same; settings that cannot be compared make an explainer its own key."""
    try:
        hash(explainer.method)
    except TypeError:
        return explainer.subject, explainer
    return explainer.subject, explainer.method


@contextmanager
def cache_or_new(cache: Cache | None) -> Iterator[Cache]:
    """A call's memory, a new one where none is given; it is left with the error that ends the call."""
    cache = Cache() if cache is None else cache
    if not isinstance(cache, Cache):
        raise InputError(f"memory is an nbsal.evaluation.Memory, not {type(cache).__name__}.")
    try:
        yield cache
    except NbsalError as stopped:
        stopped.partial = cache
        raise


def named_explainers(explainers: Explainers) -> dict[str, list[Explainer]]:
    """Explainers by name; a name may stand for several runs of one that draws at random."""
    if isinstance(explainers, Explainer):
        explainers = [explainers]
    if not isinstance(explainers, Mapping):
        given = as_list(explainers, "explainers", "must be an Explainer, a list of them or a dict that names them")
        for one in given:
            if not isinstance(one, Explainer):
                raise InputError(f"explainers holds {one!r:.60}, which is no nbsal.Explainer.")
        explainers = {e.method.name: e for e in given}
        if len(explainers) < len(given):
            raise InputError("Give explainers with methods of different names, or name them: {'layer 3': ..., ...}.")
    found = {str(name): list(one) if isinstance(one, Sequence) else [one] for name, one in explainers.items()}
    if not found or not all(found.values()):
        raise InputError("There is no explainer to evaluate: give at least one.")
    for name, runs in found.items():
        if not all(isinstance(run, Explainer) for run in runs):
            raise InputError(f"{name} is no nbsal.Explainer, nor a list of them.")
        if len({run.subject for run in runs}) > 1:
            raise InputError(f"The runs of {name} explain different models: name them apart.")
    return found


def positive_numbers(values: Any, name: str) -> list[int]:
    """Numbers of tokens, or one alone, as a list.

    >>> positive_numbers(5, "k"), positive_numbers([1, 2], "k")
    ([5], [1, 2])
    """
    given = list(values) if is_iterable(values) else [values]
    found = [int(one) for one in given if isinstance(one, int | np.integer) and not isinstance(one, bool) and one > 0]
    if not found or len(found) < len(given):
        raise InputError(f"{name} is a number of tokens from 1, or a list of such numbers, not {values!r:.60}.")
    return found


def encode_texts(explainers: Iterable[Explainer], texts: Iterable[Text]) -> dict[Subject, Encoded]:
    """What each subject reads of the texts."""
    many = list(text_list(texts))
    found = {}
    for explainer in explainers:
        if explainer.subject not in found:
            found[explainer.subject] = explainer.subject.encode(many)
        if explainer.long == "window" and any(row.dropped for row in found[explainer.subject]):
            raise InputError(
                "A text is longer than the model reads, and tokens are hidden in one reading only: "
                'use explainers with long="truncate", or shorter texts.'
            )
    return found


def token_order(found: Sequence[Saliency], name: str) -> list[Sequence[int]]:
    """The orders of content tokens, or the sentence that says why there is none."""
    for saliency in found:
        if not np.isfinite(saliency.scores[list(saliency.row.content)]).all():
            raise InputError(
                f"{name} scored a token of {saliency.text!r:.80} with NaN or infinity: it cannot be ranked. Leave the "
                "text or the explainer out."
            )
    return [saliency.order for saliency in found]


def explain_texts(
    explainers: Explainers,
    texts: Iterable[Text],
    batch_size: int,
    cache: Cache | None,
    progress: Progress,
    cancel: Event | None,
) -> dict[str, list[list[Saliency]]]:
    """What every run of every explainer says of the texts, by name."""
    members = named_explainers(explainers)
    flat = list(chain.from_iterable(members.values()))
    rows = encode_texts(flat, texts)
    size = len(next(iter(rows.values())))
    with cache_or_new(cache) as cache, Meter(size * len(rows), progress, cancel) as meter:
        found = iter(cache.explain(flat, rows, [None] * size, batch_size, meter))
    each = {name: [next(found) for _ in runs] for name, runs in members.items()}
    for name, runs in each.items():
        for one in runs:
            token_order(one, name)
    return each


def random_explainers(explainers: Mapping[str, Sequence[Explainer]], count: int) -> dict[str, list[Explainer]]:
    """Explainers that score by chance, `count` for each subject; none where one is given."""
    if whole_number(count, "random") < 0:
        raise InputError(f"random must be at least 0, not {count}.")
    subjects = list(dict.fromkeys(run.subject for runs in explainers.values() for run in runs))
    names = ["random"] if len(subjects) == 1 else [f"random, {subject.name}" for subject in subjects]
    return {
        name: [Explainer(subject, "random", seed=seed) for seed in range(count)]
        for name, subject in zip(names, subjects, strict=True)
        if count and name not in explainers
    }


def rank_tokens(
    explainers: Mapping[str, Sequence[Explainer]],
    rows: Mapping[Subject, Encoded],
    targets: Sequence[Any],
    batch_size: int,
    cache: Cache,
    meter: Meter,
) -> dict[str, list[Run]]:
    """The runs of every explainer."""
    found = iter(cache.explain(list(chain.from_iterable(explainers.values())), rows, targets, batch_size, meter))
    return {
        name: [Run(run.subject, rows[run.subject], token_order(next(found), name)) for run in members]
        for name, members in explainers.items()
    }


def truncated_count(rows: Iterable[Row]) -> tuple[str, ...]:
    """A note where texts were cut to the model's length."""
    count = sum(1 for row in rows if row.dropped)
    return (f"{count} cut to the model's length",) if count else ()
