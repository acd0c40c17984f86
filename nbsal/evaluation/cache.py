"""Cache of explanations and masked forward passes, shared between evaluation calls.

A cancelled call leaves its cache in the error's `partial`; pass it to the next call as `cache` to resume. Cached
explanations are dropped when their model has changed.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nbsal.ablation import experiment, tables
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.explain.batches import batches_for, explain_rows
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, as_list, checked, is_iterable, positive_number, text_list, whole_number

Explainers = Explainer | Sequence[Explainer] | Mapping[str, Explainer | Sequence[Explainer]]
Key = tuple[Subject, Hashable]
Tokens = Sequence[int]


@dataclass(frozen=True, eq=False)
class RankedTexts:
    """One run of an explainer: for each text, its content tokens from most to least important."""

    subject: Subject
    rows: Encoded
    orders: Sequence[Tokens]


@dataclass(frozen=True, eq=False)
class Cache:
    """Cache of explanations and masked forward passes.

    >>> import nbsal
    >>> explain, cache = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), Cache()
    >>> _ = nbsal.evaluation.games(explain, ["A joy."], random=0, progress=False, cache=cache)
    >>> len(cache.saliencies[explain.subject, explain.method])
    1
    """

    saliencies: dict[Key, dict[tuple[Row, Any], Saliency]] = field(default_factory=dict)
    ablations: dict[Subject, Ablation] = field(default_factory=dict)
    weights: dict[Subject, Any] = field(default_factory=dict)  # version of each subject when last explained

    def explain(
        self,
        explainers: Sequence[Explainer],
        rows: Mapping[Subject, Encoded],
        targets: Sequence[Any],
        batch_size: int,
        meter: Meter,
    ) -> list[list[Saliency]]:
        """Explain every text with every explainer; explainers of one subject share the trace of a batch.

        `meter` counts texts, once per subject.
        """
        for subject in rows:
            self._drop_outdated(subject)
        size = positive_number(batch_size, "batch_size")
        caches = [self.saliencies.setdefault(_key(explainer), {}) for explainer in explainers]
        for subject, encoded in rows.items():
            keys = list(zip(encoded, targets, strict=True))
            incomplete = [any(key not in cached for key in keys) for cached in caches]
            members = {str(at): e for at, e in enumerate(explainers) if e.subject is subject and incomplete[at]}
            missing = [i for i, key in enumerate(keys) if any(key not in caches[int(at)] for at in members)]
            meter.step(len(encoded) - len(missing))
            if members:
                pending, pending_targets = encoded.select(missing), [targets[place] for place in missing]

                def store(at: str, place: int, saliency: Saliency) -> None:
                    caches[int(at)][pending[place], pending_targets[place]] = saliency  # noqa: B023

                batches = batches_for(members, pending, size)
                explain_rows(members, pending, pending_targets, store, meter, batches, numbers=missing)
        return [
            [cached[key] for key in zip(rows[explainer.subject], targets, strict=True)]
            for explainer, cached in zip(explainers, caches, strict=True)
        ]

    @checked
    def keep(self, explainer: Explainer, saliencies: Iterable[Saliency]) -> None:
        """Store what an explainer said of texts, so that it is not run on them again."""
        self._drop_outdated(explainer.subject)
        cached = self.saliencies.setdefault(_key(explainer), {})
        cached |= {(saliency.row, None): saliency for saliency in saliencies}

    def logits_without(
        self, runs: Sequence[RankedTexts], hidden: Sequence[Sequence[Sequence[Tokens]]], way: str | int, meter: Meter
    ) -> list[list[Tensor]]:
        """Logits of every text of every run without each of some sets of tokens; `meter` counts sets."""
        run_logits: dict[int, list[Tensor]] = {}
        for subject in dict.fromkeys(run.subject for run in runs):
            members = [at for at, run in enumerate(runs) if run.subject is subject]
            rows = runs[members[0]].rows
            sets = [list(chain.from_iterable(hidden[at][i] for at in members)) for i in range(len(rows))]
            experiments = [self.experiment(subject, row, [(i,) for i in range(len(row))], way) for row in rows]
            left = [tables.without(len(row), *some) for row, some in zip(rows, sets, strict=True)]
            logits = experiment.run(experiments, left, meter)
            sizes = [[len(hidden[at][i]) for at in members] for i in range(len(rows))]
            parts = [torch.split(text_logits, size) for text_logits, size in zip(logits, sizes, strict=True)]
            run_logits |= {at: [part[place] for part in parts] for place, at in enumerate(members)}
        return [run_logits[at] for at in range(len(runs))]

    @checked
    def experiment(self, subject: Subject, row: Row, units: Sequence[Tokens], way: str | int) -> Experiment:
        """The experiment that hides units of a text in that way, and reads the logits."""
        ablation = self.ablations.setdefault(subject, Ablation(subject))
        return Experiment(ablation, DecisionText(subject, row, way=way), units)

    def _drop_outdated(self, subject: Subject) -> None:
        """Drop the subject's explanations if its model has changed since they were computed."""
        version = subject.version
        if self.weights.setdefault(subject, version) != version:
            self.weights[subject] = version
            for key in [key for key in self.saliencies if key[0] is subject]:
                del self.saliencies[key]


def _key(explainer: Explainer) -> Key:
    """Explainers with equal keys give equal scores; an explainer with unhashable settings is its own key."""
    try:
        hash(explainer.method)
    except TypeError:
        return explainer.subject, explainer
    return explainer.subject, explainer.method


class RunOptions(NamedTuple):
    """How an evaluation runs its texts; see `nbsal.evaluation.games`."""

    batch_size: int = 32
    cache: Cache | None = None
    progress: Progress = True
    cancel: Event | None = None

    @contextmanager
    def running(self, total: int) -> Iterator[tuple[Cache, Meter]]:
        """The cache and the meter of a call that counts to `total`."""
        with cache_or_new(self.cache) as cache, Meter(total, self.progress, self.cancel) as meter:
            yield cache, meter


@contextmanager
def cache_or_new(cache: Cache | None) -> Iterator[Cache]:
    """The cache of a call, a new one for None; an error that ends the call carries it as `partial`."""
    cache = Cache() if cache is None else cache
    try:
        yield cache
    except NbsalError as error:
        error.partial = cache
        raise


def named_explainers(explainers: Explainers) -> dict[str, list[Explainer]]:
    """Explainers by name, each as a list of runs; a stochastic explainer may have several.

    A dict has its names; a single explainer and those of a list have the names of their methods.
    """
    if not isinstance(explainers, Mapping):
        many = [explainers] if isinstance(explainers, Explainer) else explainers
        values = as_list(many, "explainers", "must be an Explainer, a list of them or a dict that names them")
        explainers = {explainer.method.name: explainer for explainer in values}
        if len(explainers) < len(values):
            message = "Several explainers have the same method name. Name them: {'layer 3': ..., 'layer 4': ...}."
            raise InputError(message, argument="explainers", value=many)
    runs_by_name = {
        str(name): list(runs) if isinstance(runs, Sequence) else [runs] for name, runs in explainers.items()
    }
    if not runs_by_name or not all(runs_by_name.values()):
        message = "explainers contains no explainer to evaluate. Pass at least one."
        raise InputError(message, argument="explainers", value=explainers)
    for name, runs in runs_by_name.items():
        if len({run.subject for run in runs}) > 1:
            message = f"The runs of {name!r} explain different models. Give each model its own name."
            raise InputError(message, argument="explainers", value=runs)
    return runs_by_name


def positive_numbers(values: Any, name: str) -> list[int]:
    """One number of tokens or several, as a list."""
    values = list(values) if is_iterable(values) else [values]
    numbers = [int(v) for v in values if isinstance(v, int | np.integer) and not isinstance(v, bool) and v > 0]
    if not numbers or len(numbers) < len(values):
        message = f"{name} must be a whole number of at least 1, or a list of such numbers, not {values!r:.60}."
        raise InputError(message, argument=name, value=values)
    return numbers


def encode_texts(explainers: Iterable[Explainer], texts: Iterable[Text]) -> dict[Subject, Encoded]:
    """The texts as encoded by each subject."""
    many = list(text_list(texts))
    rows: dict[Subject, Encoded] = {}
    for explainer in explainers:
        if explainer.subject not in rows:
            rows[explainer.subject] = explainer.subject.encode(many)
        if explainer.long == "window" and any(row.dropped for row in rows[explainer.subject]):
            raise InputError(
                "A text is longer than the model's limit, and tokens cannot be hidden across several windows. Use "
                'explainers with long="truncate", or shorter texts.',
                argument="texts",
                value=texts,
            )
    return rows


def token_order(saliencies: Sequence[Saliency], name: str) -> list[Sequence[int]]:
    """The order of content tokens in each explanation; refuses scores that cannot be ranked."""
    for saliency in saliencies:
        if not np.isfinite(saliency.scores[list(saliency.row.content)]).all():
            raise InputError(
                f"{name} scored a token of {saliency.text!r:.80} with NaN or infinity, which cannot be ranked. Leave "
                "out this text or this explainer.",
                argument="explainers",
                value=name,
            )
    return [saliency.order for saliency in saliencies]


def explain_texts(
    explainers: Explainers,
    texts: Iterable[Text],
    batch_size: int,
    cache: Cache | None,
    progress: Progress,
    cancel: Event | None,
) -> dict[str, list[list[Saliency]]]:
    """The explanations of all texts by every run of every explainer, by name."""
    members = named_explainers(explainers)
    flat = list(chain.from_iterable(members.values()))
    rows = encode_texts(flat, texts)
    size = len(next(iter(rows.values())))
    with RunOptions(batch_size, cache, progress, cancel).running(size * len(rows)) as (used, meter):
        results = iter(used.explain(flat, rows, [None] * size, batch_size, meter))
    saliencies = {name: [next(results) for _ in runs] for name, runs in members.items()}
    for name, runs in saliencies.items():
        for run in runs:
            token_order(run, name)
    return saliencies


def random_explainers(explainers: Mapping[str, Sequence[Explainer]], count: int) -> dict[str, list[Explainer]]:
    """The random baseline: `count` random orders for each subject, unless an explainer has its name already."""
    if whole_number(count, "random") < 0:
        raise InputError(f"random must be at least 0, not {count}.", argument="random", value=count)
    subjects = list(dict.fromkeys(run.subject for runs in explainers.values() for run in runs))
    names = ["random"] if len(subjects) == 1 else [f"random, {subject.name}" for subject in subjects]
    return {
        name: [Explainer(subject, "random", seed=seed) for seed in range(count)]
        for name, subject in zip(names, subjects, strict=True)
        if count and name not in explainers
    }
