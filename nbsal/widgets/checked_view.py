"""Views whose first sentence is checked by hiding words, once their result is on display."""

from functools import partial
from typing import Any

import traitlets

from nbsal.explain.decision_facts import PASSES, budget
from nbsal.explain.explanation import Explanation
from nbsal.explain.lazy import Explainer, checking
from nbsal.explain.sentence import Statement
from nbsal.methods.lazy import MaskedModel
from nbsal.support.errors import Cancelled
from nbsal.support.progress import Meter
from nbsal.widgets.base import View
from nbsal.widgets.page import jobs
from nbsal.widgets.page.last_value import LastValue
from nbsal.widgets.page.page_messages import error_text
from nbsal.widgets.page.slow_methods import wait_for_pause

PAUSE = 0.1  # seconds without a new text before its words are hidden
AUTO = "auto"


class CheckedView(View):
    """A view of an explanation that hides the strongest words to check what its first sentence says.

    `check` is "auto" (if that takes less than half a second), True, False, or a number of forward passes.
    """

    check = traitlets.Any(AUTO).tag(sync=True)
    _statements = traitlets.List(traitlets.Dict()).tag(sync=True)  # what is said of each row of scores
    _checking = traitlets.Dict().tag(sync=True)  # of the check that runs or is offered

    def __init__(self, source: Any, **settings: Any) -> None:
        self._masked_model = LastValue()
        self._check_job: jobs.Job | None = None
        super().__init__(source, **settings)

    @property
    def target_probability(self) -> float | None:
        """The probability of what is explained, if it is one of the outcomes listed."""
        raise NotImplementedError

    @property
    def checked_row(self) -> int:
        """The row of scores that the sentence on display is about."""
        return 0

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

    def handle_check(self) -> str:
        """Answer a page whose reader wants the sentence checked, however long that takes."""
        self._start_check(True if self.check is False or self.check == AUTO else self.check)
        return "checking"

    def cancel(self) -> None:
        """Cancel the current request or check; the previous result stays on display, and its check is offered."""
        with self._lock:
            if self._check_job is not None:
                self._checking = {"state": "offered", "passes": PASSES}
            super().cancel()

    @traitlets.validate("check")
    def _valid_check(self, proposal: Any) -> Any:
        value = proposal["value"]
        if value is not False and not (isinstance(value, str) and value == AUTO):
            budget(value)
        return value

    def checking_state(self, result: Any) -> dict[str, Any]:
        """Whether a new result is going to be checked, or can be."""
        if not self._can_check(result) or result.checks:
            return {}
        return {"state": "offered", "passes": PASSES} if self.check is False else {"state": "waiting"}

    def _can_check(self, result: Any) -> bool:
        is_whole = isinstance(result, Explanation) and result.provenance.get("windows", 1) == 1
        return is_whole and self.plain_result is None

    def _is_done(self) -> bool:
        return super()._is_done() and self._check_job is None

    def _start_follow_up(self, result: Any) -> None:
        if self.check is not False:
            self._start_check(self.check)

    def _start_check(self, passes: Any) -> None:
        """Let the worker check the result on display, if there is something to check."""
        result, row, inputs = self.result, self.checked_row, dict(self._requested)
        with self._lock:
            self._end_follow_up()
            if self._can_check(result) and row not in result.checks:
                work = partial(self._run_check, result, row, inputs, passes)
                self._check_job = self._worker.submit((id(self), "check"), work)

    def _end_follow_up(self) -> None:
        if self._check_job is not None:
            self._worker.withdraw(self._check_job)
            self._check_job = None
            self._lock.notify_all()

    def _run_check(self, result: Any, row: int, inputs: dict[str, Any], passes: Any, job: jobs.Job) -> None:
        """Check a result on the worker."""
        limit = budget(True if passes == AUTO else passes)
        meter = Meter(limit, lambda done, _: self._show_checking(job, done, limit), job.cancel)
        try:
            if passes == AUTO:
                wait_for_pause(job, self._worker, lambda: False, PAUSE)
            explainer = self.explainer_for(inputs)
            way, most_seconds = checking.way_of(explainer.method), checking.QUICK if passes == AUTO else None
            masked_model = self._masked_model.get(way, lambda: MaskedModel(self.subject, way))
            masked_model.keep_only(result.row)  # a view would remember every text that was ever typed
            saliency = result.rows()[row]
            check = checking.check(saliency, masked_model, inputs["target"], limit, meter, most_seconds)
            self._end_check(job, {}, result, result.with_check(check, row))
        except checking.TooSlow as slow:
            self._end_check(job, {"state": "offered", "passes": limit, "seconds": slow.seconds})
        except Cancelled:
            self._end_check(job, {"state": "offered", "passes": limit})
        except BaseException as error:  # an interrupt too, or others would wait forever
            self._end_check(job, {"state": "failed", "why": error_text(error)})

    def _show_checking(self, job: jobs.Job, done: int, total: int) -> None:
        self._worker.run_waiting()  # a newer text need not wait for the end
        with self._try_lock() as locked:
            if locked and self._check_job is job:
                self._checking = {"state": "checking", "done": done, "passes": total}

    def _end_check(self, job: jobs.Job, state: dict[str, Any], before: Any = None, checked: Any = None) -> None:
        """Show how a check ended, unless a newer result is on display."""
        with self._lock:
            if self._check_job is not job:
                return
            with self.hold_sync():
                self._checking = state
                if checked is not None and self.result is before:
                    self.replace_result(checked)
                    self._statements = [statement.to_json() for statement in self.statements(checked)]
            self._end_follow_up()
        self._snapshots.refresh()
