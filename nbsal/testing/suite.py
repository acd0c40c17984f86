"""Run every check on a method, on several models, and tabulate the results."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import nbsal
from nbsal.explain.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError, ModelError, NbsalError, UnknownName, WeightsError
from nbsal.support.validation import checked, is_iterable
from nbsal.testing import passes, promises, repeats, scores, state, tiny_models

CHECKS: dict[str, Callable[[Explainer], None]] = {
    "scores": scores.scores_are_numbers,
    "batch": scores.batches_equal_singles,
    "padding": scores.padding_is_invisible,
    "state": state.everything_is_restored,
    "promise": promises.promises_hold,
    "cost": passes.cost_is_true,
    "repeat": repeats.scores_repeat,
    "seed": repeats.seed_matters,
}
WIDTH = 100  # characters of a detail in the table


@dataclass(frozen=True)
class Result:
    """The outcome of one check on one model: "passed", "failed" or "skipped", and why.

    >>> Result("batch", "tiny bert", "passed").outcome
    'passed'
    """

    check: str
    subject: str
    outcome: str
    detail: str = ""


def default_subjects() -> list[Subject]:
    """Tiny random models, and `demo/reviews` if its base weights are installed.

    >>> [subject.name for subject in default_subjects()]
    ['tiny bert', 'tiny roberta', 'tiny llama', 'demo/reviews']
    """
    subjects = [tiny_models.load(name) for name in tiny_models.ARCHITECTURES]
    try:
        return [*subjects, nbsal.load("demo/reviews")]
    except WeightsError:
        return subjects


@checked
def check(
    method: str | Method, subjects: Any = None, *, only: Collection[str] | None = None, **settings: Any
) -> list[Result]:
    """Check a method, named or as an instance, and raise an AssertionError that says what differs.

    `subjects` is a model or several (default: tiny random models and demo/reviews), `only` names some of `CHECKS`.

    >>> import nbsal
    >>> [result.outcome for result in check(nbsal.GradCAM(layer=1), tiny_models.load("bert"), only=["batch"])]
    ['passed']
    """
    results = run(method, subjects, only=only, **settings)
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        raise AssertionError("\n".join(f"{item.check} on {item.subject}: {item.detail}" for item in failed))
    if all(result.outcome == "skipped" for result in results):
        raise AssertionError(f"No model could be explained. {results[0].detail}")
    return results


@checked
def run(
    method: str | Method, subjects: Any = None, *, only: Collection[str] | None = None, **settings: Any
) -> list[Result]:
    """The results of every check of a method on every model; a model that the method refuses is skipped.

    >>> results = run("gradcam", tiny_models.load("bert"), only=["batch", "padding"], layer=1)
    >>> [(result.check, result.outcome) for result in results]
    [('batch', 'passed'), ('padding', 'passed')]
    """
    names = list(CHECKS if only is None else only)
    if not names:
        raise InputError("only must name a check.", argument="only", value=only)
    for unknown in set(names) - set(CHECKS):
        raise UnknownName("only", unknown, CHECKS)
    instance = catalogue.as_method(method, **settings)
    return [result for subject in _every(subjects) for result in _run_on(subject, instance, names)]


def _every(subjects: Any) -> list[Subject]:
    """The models that were passed: one, several, their names, or by default some small ones."""
    if subjects is None:
        return default_subjects()
    several = list(subjects) if is_iterable(subjects) else [subjects]
    every = [nbsal.load(subject) if isinstance(subject, str) else subject for subject in several]
    if not every or not all(isinstance(subject, Subject) for subject in every):
        raise InputError("subjects must be a model or several, from nbsal.load.", argument="subjects", value=subjects)
    return every


def _run_on(subject: Subject, method: Method, names: Sequence[str]) -> Iterable[Result]:
    try:
        explain = Explainer(subject, method)
        changed = state.changes(subject, partial(explain, scores.TEXTS[0]))
    except (ModelError, InputError) as error:
        wrong = isinstance(error, ModelError) and error.part == "scores"
        yield Result("scores" if wrong else "all", subject.name, "failed" if wrong else "skipped", str(error))
        return
    except Exception as error:  # code of others
        yield Result("all", subject.name, "failed", f"{type(error).__name__}: {error}")
        return
    for name in names:
        if name == "state" and changed:  # later explanations may find it changed already
            yield Result(name, subject.name, "failed", f"changed by the first explanation: {changed}")
        else:
            yield Result(name, subject.name, *_outcome(CHECKS[name], explain))


def _outcome(check_explainer: Callable[[Explainer], None], explain: Explainer) -> tuple[str, str]:
    try:
        check_explainer(explain)
    except (AssertionError, NbsalError) as error:
        return "failed", str(error)
    except Exception as error:  # code of others
        return "failed", f"{type(error).__name__}: {error}"
    return "passed", ""


def write_table(results: Sequence[Result]) -> str:
    """The results as lines of a table, with the first line of what differs.

    >>> print(write_table([Result("batch", "tiny bert", "failed", "texts differ")]))
    tiny bert  batch  FAILED  texts differ
    """
    widths = [max(len(getattr(result, field)) for result in results) for field in ("subject", "check")]
    lines = []
    for result in results:
        detail = " ".join(result.detail.split())
        short = detail if len(detail) <= WIDTH or result.outcome == "failed" else f"{detail[: WIDTH - 3]}..."
        outcome = result.outcome.upper() if result.outcome == "failed" else result.outcome
        cells = [result.subject.ljust(widths[0]), result.check.ljust(widths[1]), outcome, short]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
