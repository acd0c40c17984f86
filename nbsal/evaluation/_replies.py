"""Evaluation of explained replies: whether hiding the best sources changes them more than hiding any."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation.cache import positive_numbers
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.explain.answer import Answer
from nbsal.explain.judgement import Judgement
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, plural

MEASURES: dict[str, Callable[[Judgement], float]] = {
    "mean drop": lambda judgement: judgement.drop,
    "above random orders": lambda judgement: judgement.drop - float(judgement.random_drops.mean()),
    "better than chance": lambda judgement: judgement.beats_chance,
    "rank correlation": lambda judgement: judgement.rank_correlation,
}


@checked
def answers(
    answers: Any,
    k: int | Sequence[int] = (1, 2, 3),
    *,
    unit: Any = None,
    random: int = 20,
    subsets: int = 48,
    seed: int = 0,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Judge many explained replies, each as `Answer.judge` does, and compare methods with random orders.

    `answers` has one list of answers for each method, to the same replies in the same order. Measures are the drop of a
    reply's log-probability without the best `k` units, its mean over all steps of hiding them best first, by how much
    that is more than in random orders, the share of replies for which it is more than in nearly all of them, and the
    rank correlation of scores with the log-probability under random subsets. Answers of one call of `nbsal.answer`
    share what is run.

    >>> import nbsal
    >>> notes, documents = nbsal.load("demo/notes"), ["Mara lives in Oslo.", "Boris lives in Rouen."]
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> settings = {"documents": documents, "unit": "document", "progress": False}
    >>> both = nbsal.answer(notes, question, method=["gae", "random"], **settings)
    >>> results = answers({name: [answer] for name, answer in both.items()}, random=5, progress=False)
    >>> results.measures
    ['drop', 'mean drop', 'above random orders', 'better than chance', 'rank correlation']
    """
    steps, lists = positive_numbers(k, "k"), _check_answers(answers)
    count = len(next(iter(lists.values())))
    judged: dict[str, list[Judgement]] = {name: [] for name in lists}
    with Meter(count * len(lists), progress, cancel) as meter:
        for i in range(count):  # methods that share what is run come one after the other
            for name, each in lists.items():
                meter.check()
                judged[name].append(each[i].judge(unit, [1], random, subsets, seed, progress=False, cancel=cancel))
                meter.step()
    first = next(iter(lists.values()))
    order = text_order([(answer.reading.prompt.text, answer.text) for answer in first])

    def curve(points: Sequence[int], values: Sequence[Any]) -> Curve:
        return Curve.from_values(points, np.array(values, dtype=float).reshape(count, -1).T[None], order)

    curves = {}
    for name, judgements in judged.items():
        curves[name, "drop"] = curve(steps, [_drops(j.curve, steps) for j in judgements])
        for measure, read in MEASURES.items():
            curves[name, measure] = curve([1], [read(judgement) for judgement in judgements])
    bounds = {"better than chance": (0, 1), "rank correlation": (-1, 1)}
    better = dict.fromkeys(("drop", *MEASURES), "high")
    replies = "1 reply" if count == 1 else f"{count:,} replies"
    notes = (replies, f"{plural(random, 'random order')} and {plural(subsets, 'subset')} for each")
    return Results(MetricInfo(point="k", better=better, bounds=bounds), curves, notes)


def _check_answers(answers: Any) -> dict[str, list[Answer]]:
    """One list of answers for each method, to the same replies."""
    rule = "answers must be a dict with a list of answers for each method"
    if not isinstance(answers, Mapping) or not answers:
        raise InputError(f"{rule}, not {answers!r:.60}.", argument="answers", value=answers)
    lists = {}
    for name, each in answers.items():
        if not isinstance(each, Sequence) or not each or not all(isinstance(answer, Answer) for answer in each):
            raise InputError(f"{rule}. That of {name!r:.40} is {each!r:.60}.", argument="answers", value=each)
        lists[str(name)] = list(each)
    rows = [[answer.reading.row.ids for answer in each] for each in lists.values()]
    if any(row != rows[0] for row in rows):
        message = "The answers of all methods must be to the same replies, in the same order."
        raise InputError(message, argument="answers", value=answers)
    return lists


def _drops(curve: Any, steps: Sequence[int]) -> list[float]:
    """By how much a hiding curve has dropped after each number of steps; it ends when everything is hidden."""
    return [float(curve[0] - curve[min(step, len(curve) - 1)]) for step in steps]
