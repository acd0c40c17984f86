"""Views whose first sentence is checked by hiding words: three passes with each answer, the whole check afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import traitlets

from nbsal.explain.explained import Explanation
from nbsal.explain.lazy import Explainer, HiddenWords, checking
from nbsal.explain.sentences.decision_facts import PASSES, Check, Search, budget
from nbsal.explain.sentences.outcomes import Outcome
from nbsal.explain.sentences.statement import Statement
from nbsal.methods.lazy import Ablation, Subject
from nbsal.support.errors import Cancelled
from nbsal.support.progress import Meter
from nbsal.widgets.base import View
from nbsal.widgets.page import jobs
from nbsal.widgets.page.last_value import LastValue
from nbsal.widgets.page.page_messages import error_text
from nbsal.widgets.page.slow_methods import wait_for_pause

PAUSES = 0.1, 0.5  # seconds without a new text before the whole check begins: as many as it will take, within bounds
LONGEST = 2.0  # seconds that it may take without being asked for
AUTO = "auto"


class CheckedView(View):
    """A view of an explanation that hides words to check what its first sentence says.

    Each answer comes with a first check: the strongest word, the strongest words together, and as many random words are
    hidden. The whole check follows in a pause. `check` is "auto" (if that takes less than two seconds), True, a number
    of forward passes, or False, which hides nothing unasked.
    """

    rows_checked: ClassVar[int] = 1  # by one check of a result

    check = traitlets.Any(AUTO).tag(sync=True)
    _statements = traitlets.List(traitlets.Dict()).tag(sync=True)  # what is said of each row of scores
    _checking = traitlets.Dict().tag(sync=True)  # of the check that runs or is offered

    def __init__(self, source: Any, **settings: Any) -> None:
        self._ablation = LastValue()
        self._pass_seconds = 0.0  # that a pass of the last first check took
        self._check_job: jobs.Job | None = None
        self._pressed: Any = None  # the result whose whole check was asked for
        super().__init__(source, **settings)

    @property
    def target_probability(self) -> float | None:
        """The probability of what is explained, if it is one of the outcomes listed."""
        raise NotImplementedError

    def row_of(self, result: Any) -> int:
        """The row of scores that is shown of a result."""
        return 0

    @property
    def checked_row(self) -> int:
        """The row of scores that the sentence on display is about."""
        return self.row_of(self.result)

    def explainer_for(self, inputs: dict[str, Any]) -> Explainer:
        """The explainer of a result that was computed for these inputs."""
        raise NotImplementedError

    def statements(self, result: Explanation) -> list[Statement]:
        """What is said of each row of scores of the result on display."""
        return [saliency.statement(self.target_probability) for saliency in result.rows()]

    @property
    def statement(self) -> Statement:
        """What is said of the row of scores on display."""
        return self.statements(self.result)[self.checked_row]

    def replace_result(self, result: Any) -> None:
        """Put the result on display in place of the same one without its check."""
        self._computed = result

    def with_first_check(self, result: Any, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """A new result with the first check of its sentence, if words can be hidden."""
        if self.check is False or not self._can_check(result) or result.checks:
            return result
        try:
            return self._first_checked(result, self.row_of(result), explainer, inputs, job)
        except Cancelled:
            raise
        except Exception:  # the whole check says why words cannot be hidden
            return result

    def handle_check(self) -> str:
        """Answer a page whose reader wants the whole check, however long that takes."""
        self._pressed = self.result
        self._start_check(self._asked_passes())
        return "checking"

    def handle_search(self) -> str:
        """Answer a page whose reader wants further sets of words to be tried."""
        self._start(self._run_search)
        return "searching"

    def cancel(self) -> None:
        """Cancel the current request or check; the previous result stays on display, and its check is offered."""
        with self._lock:
            self._pressed = None
            if self._check_job is not None:
                self._checking = {} if self._is_checked(self.result) else self._offered()
            super().cancel()

    @traitlets.validate("check")
    def _valid_check(self, proposal: Any) -> Any:
        value = proposal["value"]
        if value is not False and not (isinstance(value, str) and value == AUTO):
            budget(value)
        return value

    def checking_state(self, result: Any) -> dict[str, Any]:
        """Whether a new result is going to be checked, or can be."""
        if not self._can_check(result) or self._is_checked(result):
            return {}
        return self._offered() if self.check is False else {"state": "waiting", "note": "checking\u2026"}

    def _can_check(self, result: Any) -> bool:
        is_whole = isinstance(result, Explanation) and result.provenance.get("windows", 1) == 1
        return is_whole and self.plain_result is None

    def _is_checked(self, result: Any) -> bool:
        """Whether the whole check of the row on display was made."""
        check = result.checks.get(self.row_of(result))
        return check is not None and not check.first

    def _offered(self, passes: int = PASSES) -> dict[str, Any]:
        return offered(passes * self.rows_checked)

    def _asked_passes(self) -> Any:
        return True if self.check is False or self.check == AUTO else self.check

    def _is_done(self) -> bool:
        return super()._is_done() and self._check_job is None

    def _start_follow_up(self, result: Any) -> None:
        if self._pressed is self.result:
            self._start_check(self._asked_passes())
        elif self.check is not False:
            self._start_check(self.check)

    def _start_check(self, passes: Any) -> None:
        """Let the worker check the result on display, if there is something to check."""
        with self._lock:
            self._end_follow_up()
            if self._can_check(self.result) and not self._is_checked(self.result):
                self._start(partial(self._run_check, passes))

    def _start(self, run: Callable[[Any, int, dict[str, Any], jobs.Job], None]) -> None:
        """Let the worker hide words of the result on display."""
        with self._lock:
            self._end_follow_up()
            work = partial(run, self.result, self.checked_row, dict(self._requested))
            self._check_job = self._worker.submit((id(self), "check"), work)

    def _end_follow_up(self) -> None:
        if self._check_job is not None:
            self._worker.withdraw(self._check_job)
            self._check_job = None
            self._lock.notify_all()

    def _run_check(self, passes: Any, result: Any, row: int, inputs: dict[str, Any], job: jobs.Job) -> None:
        offer = self._offered(budget(True if passes == AUTO else passes))
        limit = offer["passes"]
        with self._ending(job, offer):
            explainer = self.explainer_for(inputs)
            if row not in result.checks:  # of another layer, or it failed
                before, result = result, self._first_checked(result, row, explainer, inputs, job)
                self._show_check(job, before, result)
            seconds = limit * self._pass_seconds
            if passes == AUTO and seconds > LONGEST:
                self._end_check(job, offered(limit, seconds))
                return
            if passes == AUTO:
                wait_for_pause(job, self._worker, lambda: False, min(max(seconds, PAUSES[0]), PAUSES[1]))
            meter = Meter(limit, lambda done, _: self._show_checking(job, done, limit), job.cancel)
            self._end_check(job, {}, result, self._whole_checked(result, row, explainer, inputs, meter))

    def _run_search(self, result: Any, row: int, inputs: dict[str, Any], job: jobs.Job) -> None:
        """Search on the worker for a set of words that turns the decision."""
        from nbsal.ablation.decision import DecisionText  # imports torch
        from nbsal.evaluation.audit.flips import FlipSearch, find_flip

        with self._ending(job, {}):
            saliency = result.rows()[row]
            wanted = self.subject.labels.index(saliency.target) if saliency.contrary else None
            meter = Meter(None, lambda done, _: self._show_checking(job, done, 0), job.cancel)
            way = checking.way_of(self.explainer_for(inputs).method)
            ablation = self._ablation_for(result, self.subject)
            decision = DecisionText(ablation.subject, saliency.row, way=way)
            flip = find_flip(FlipSearch(decision, ablation, wanted, meter), saliency)
            outcome = Outcome(saliency.display_name(flip.after), flip.confidence)
            search = Search(flip.words, outcome, flip.tried, flip.exact)
            self._end_check(job, {}, result, result.with_check(replace(result.checks[row], search=search), row))

    def _first_checked(self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        start = perf_counter()
        words = self._words_of(result, row, explainer, inputs, recorded=False)
        check: Check = checking.first_check(words, Meter(None, cancel=job.cancel))
        self._pass_seconds = (perf_counter() - start) / checking.FIRST
        return result.with_check(check, row)

    def _whole_checked(self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], meter: Meter) -> Any:
        words, limit = self._words_of(result, row, explainer, inputs), (meter.total or 0) // self.rows_checked
        return result.with_check(checking.check(words, limit, meter), row)

    def _words_of(
        self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], recorded: bool = True
    ) -> HiddenWords:
        ablation, way = self._ablation_for(result, explainer.subject), checking.way_of(explainer.method)
        words: HiddenWords = checking.words_of(result.rows()[row], ablation, way, inputs["target"], recorded)
        return words

    def _ablation_for(self, result: Any, subject: Subject) -> Ablation:
        """What hides the words of a result, without what it has run on texts that were typed before."""
        ablation: Ablation = self._ablation.get(subject, lambda: Ablation(subject))
        ablation.keep_only(result.row.ids)
        return ablation

    @contextmanager
    def _ending(self, job: jobs.Job, cancelled: dict[str, Any]) -> Iterator[None]:
        """Show that hiding words was cancelled, or why it failed."""
        try:
            yield
        except Cancelled:
            self._end_check(job, cancelled)
        except BaseException as error:  # an interrupt too, or others would wait forever
            self._end_check(job, {"state": "failed", "note": f"could not be checked: {error_text(error)}"})

    def _show_checking(self, job: jobs.Job, done: int, total: int) -> None:
        self._worker.run_waiting()  # a newer text need not wait for the end
        with self._try_lock() as locked:
            if locked and self._check_job is job:
                note = f"checking: {done} of {total} passes" if total else f"searching: {done} sets"
                self._checking = {"state": "checking", "passes": total, "note": note}

    def _show_check(self, job: jobs.Job, before: Any, checked: Any) -> None:
        """Show a result with its check in place of the same one without, unless a newer one is on display."""
        with self._lock, self.hold_sync():
            if self._check_job is job and self.result is before:
                self.replace_result(checked)
                self._statements = [statement.to_json() for statement in self.statements(checked)]

    def _end_check(self, job: jobs.Job, state: dict[str, Any], before: Any = None, checked: Any = None) -> None:
        """Show how a check ended, unless a newer result is on display."""
        with self._lock:
            if self._check_job is not job:
                return
            with self.hold_sync():
                self._checking = state
                if checked is not None:
                    self._show_check(job, before, checked)
            self._end_follow_up()
        self._snapshots.refresh()


def offered(passes: int, seconds: float | None = None) -> dict[str, Any]:
    """The state of a check that may be asked for, with what it costs."""
    note = f"{passes} passes" if seconds is None else f"{passes} passes, about {seconds:.0f} s"
    return {"state": "offered", "passes": passes, "note": note}
