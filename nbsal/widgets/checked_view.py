"""Views whose first sentence is checked by hiding words, once their result is on display."""

from collections.abc import Callable
from typing import Any

import traitlets

from nbsal.explain import checking
from nbsal.explain.explainer import Explainer
from nbsal.explain.explanation import Explanation
from nbsal.explain.sentence import Statement
from nbsal.model.running.masking import MaskedModel
from nbsal.support.errors import Cancelled, NbsalError
from nbsal.support.progress import Meter
from nbsal.widgets import jobs
from nbsal.widgets.base import View
from nbsal.widgets.last_value import LastValue
from nbsal.widgets.slow_methods import wait_for_pause

PAUSE = 0.15  # seconds without a new text before its words are hidden
AUTO = "auto"


class CheckedView(View):
    """A view of an explanation that hides the strongest words to check what its first sentence says.

    `check` is "auto" (if that takes less than half a second), True, False, or a number of forward passes.
    """

    check = traitlets.Any(AUTO).tag(sync=True)
    _said = traitlets.List(traitlets.Dict()).tag(sync=True)  # what is said of each row of scores
    _checking = traitlets.Dict().tag(sync=True)  # of the check that runs or is offered

    def __init__(self, source: Any, **settings: Any) -> None:
        self._masked_model = LastValue()
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
    def said(self) -> Statement:
        """What is said of the row of scores on display."""
        return self.statements(self.result)[self.checked_row]

    def replace_result(self, result: Any) -> None:
        """Put the result on display in place of the same one without its check."""
        self._computed = result

    def follow_up(self, result: Any) -> Callable[[jobs.Job], None] | None:
        return None if self.check is False else self._check_job(AUTO if self.check == AUTO else self.check)

    def handle_check(self) -> str:
        """Answer a page whose reader wants the sentence checked, however long that takes."""
        self._submit_follow_up(self._check_job(True if self.check in (AUTO, False) else self.check))
        return "checking"

    @traitlets.validate("check")
    def _valid_check(self, proposal: Any) -> Any:
        if proposal["value"] not in (AUTO, False):
            checking.budget(proposal["value"])
        return proposal["value"]

    def checking_state(self, result: Any) -> dict[str, Any]:
        """Whether a new result is going to be checked, or can be."""
        if not self._can_check(result) or result.checks:
            return {}
        return {"state": "offered", "passes": checking.PASSES} if self.check is False else {"state": "waiting"}

    def _can_check(self, result: Any) -> bool:
        is_whole = isinstance(result, Explanation) and result.provenance.get("windows", 1) == 1
        return is_whole and self.plain_result is None

    def _check_job(self, passes: Any) -> Callable[[jobs.Job], None] | None:
        """The job that checks the result on display; None if there is nothing to check, or it is checked already."""
        result, row, inputs = self.result, self.checked_row, dict(self._requested)
        if not self._can_check(result) or row in result.checks:
            return None

        def run(job: jobs.Job) -> None:
            if passes == AUTO:
                wait_for_pause(job, self._worker, lambda: False, PAUSE)
            explainer, limit = self.explainer_for(inputs), checking.budget(True if passes == AUTO else passes)
            way = checking.way_of(explainer.method)
            masked_model = self._masked_model.get([inputs["text"], way], lambda: MaskedModel(self.subject, way))
            most_seconds = checking.QUICK if passes == AUTO else None
            meter = Meter(limit, lambda done, _: self._show_checking(job, done, limit), job.cancel)
            try:
                check = checking.check(result.rows()[row], masked_model, inputs["target"], limit, meter, most_seconds)
            except checking.TooSlow as slow:
                self._end_check(job, {"state": "offered", "passes": limit, "seconds": slow.seconds})
            except Cancelled:
                self._end_check(job, {"state": "offered", "passes": limit})
            except NbsalError as error:
                self._end_check(job, {"state": "failed", "why": str(error)})
            else:
                self._end_check(job, {}, result, result.with_check(check, row))

        return run

    def _show_checking(self, job: jobs.Job, done: int, total: int) -> None:
        self._worker.run_waiting()  # a newer text need not wait for the end
        with self._try_lock() as locked:
            if locked and self._follow_up is job:
                self._checking = {"state": "checking", "done": done, "passes": total}

    def _end_check(self, job: jobs.Job, state: dict[str, Any], before: Any = None, checked: Any = None) -> None:
        """Show how a check ended, unless a newer result is on display."""
        with self._lock:
            if self._follow_up is not job:
                return
            with self.hold_sync():
                self._checking = state
                if checked is not None and self.result is before:
                    self.replace_result(checked)
                    self._said = [said.to_json() for said in self.statements(checked)]
        self._snapshots.refresh()
