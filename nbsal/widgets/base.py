'''View, the base class of all views: an anywidget that shows the result of a computation in Python.

To write a view, subclass `View`. Name in `inputs` the traits whose change requests a new result. `compute` computes
the result on a background worker; it reads the values in its argument `inputs`, never the traits. `publish` returns
the traits that show the result; the base class sets them. The base class also handles requests (a newer one replaces
an older one), progress, cancelling, `status`, `error`, `wait()`, exports, and the static HTML that is shown where
no scripts run. This is a complete view:

    class Bars(View):
        inputs = ("text",)
        text = traitlets.Unicode().tag(sync=True)
        bars = traitlets.List().tag(sync=True)
        _esm = """
        export default { render({ model, el, signal }) {
          const draw = () => el.replaceChildren(...model.get("bars").map(([word, share]) => {
            const bar = document.createElement("div");
            bar.textContent = word;                       // never innerHTML: words are not markup
            bar.style.width = `${100 * share}%`;
            return bar;
          }));
          model.on("change:bars", draw);
          signal.addEventListener("abort", () => model.off("change:bars", draw));
          draw();
        } };
        """

        def compute(self, inputs, job):
            return self.explainer(inputs["text"])

        def publish(self, saliency):
            words = saliency.by_word()
            return {"bars": [[word, score / saliency.largest] for word, score in zip(words["word"], words["score"])]}

`Bars(explain, text="A joy.")` shows it. Its page can set only traits that are also tagged `page=True`. More hooks:
`sheet` (static HTML, picture and terminal), `from_explainer` and `from_result` (initial traits), `accepts` (finished
results that the view shows without an explainer), `steps` (the views that the line "Next:" opens below it). The page
sends requests as messages: `ask("name", {...})` is answered by `handle_name(**arguments)` on the worker, or at once if
`immediate` has the name.

A view of this package also uses `ExplainerView` (text, method, layer, target, tau), `wire` (packed results) and, in
`frontend/src`, a module NAME.ts in `views` that calls `mount`. It needs a line in `widgets/__init__.py`, a build
(`npm run build` in nbsal/frontend), and tests in tests/widgets and tests/browser.
'''

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from threading import Condition
from typing import Any, ClassVar

import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.methods.lazy import Subject
from nbsal.render.headline import progress_words
from nbsal.support.errors import Cancelled, InputError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter
from nbsal.support.validation import checked
from nbsal.widgets.page import jobs
from nbsal.widgets.page.next_view import LinkedWidget
from nbsal.widgets.page.page_messages import error_text, find_request, is_message_id

STEPS = 1000  # resolution of the progress of what reports shares
PROGRESS_STEP = 0.02  # smallest change of progress that is sent to the page
DISPLAY_TIMEOUT = 2.0  # seconds to wait for the first result, so that the static HTML of a cell contains it
LOCK_TIMEOUT = 0.1
NO_SOURCE: Any = type("NoSource", (), {"__repr__": lambda self: "<no source>"})()  # a signature shows it


@checked
class View(LinkedWidget):
    """Base class of all views; the docstring of this module shows how to write one.

    `source` is what the view is bound to: an Explainer, a Subject, or a finished result of a class in `accepts`.
    `settings` are initial values of traits. `selection` holds the selected token positions, and `hover` the position
    under the pointer or None. `status` is ready, computing, cancelling, cancelled or error; `error` is its message.

    >>> class Length(View):
    ...     inputs = ("text",)
    ...     text = traitlets.Unicode("A joy.").tag(sync=True)
    ...
    ...     def compute(self, inputs, job):
    ...         return len(inputs["text"])
    >>> Length().wait().result
    6
    """

    inputs: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[type, ...]] = ()
    immediate: ClassVar[Collection[str]] = ("cancel",)  # requests that compute nothing and are answered at once
    # Guards traits, which cells, pages and workers all set; links between views need one lock for all. Blocks that
    # cells run end with a `nullcontext`: an interrupt as a block ends strikes the innermost exit, and frees the lock.
    _lock: ClassVar[Condition] = jobs.shared_condition()

    selection = traitlets.List(traitlets.Int()).tag(sync=True, page=True)
    hover = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    status = traitlets.Unicode("ready").tag(sync=True)
    progress = traitlets.Float(None, allow_none=True).tag(sync=True)
    _left = traitlets.Unicode().tag(sync=True)  # the progress in words, and the seconds that are left
    _seconds = traitlets.Unicode().tag(sync=True)  # that there is a result, and how long it took
    _inputs = traitlets.Dict().tag(sync=True)  # the values of page traits for which the result on display was computed
    _preview = traitlets.Bool(False).tag(sync=True)  # whether a quicker method stands in for the result
    _live = traitlets.Bool(True).tag(sync=True)  # whether Python answers; False in a saved page
    _rev = traitlets.Int(0).tag(sync=True)  # counts results: a page redraws once when it changes

    def __init__(self, source: Any = NO_SOURCE, **settings: Any) -> None:
        self._check_settings(settings)
        self.explainer: Any = None
        self.subject: Any = None
        self.plain_result: Any = None
        self._computed: Any = None
        initial: dict[str, Any] = {}
        if isinstance(source, self.accepts):
            self.plain_result = source
            initial = self.from_result(source)
        elif source is not NO_SOURCE:
            self.explainer = self.as_explainer(source)
            self.subject = self.explainer.subject
            initial = self.from_explainer(self.explainer)
        self._worker = jobs.worker(View if self.subject is None else self.subject)
        self._job: jobs.Job | None = None
        self._requested: dict[str, Any] = {}
        self._failure: BaseException | None = None
        self._callbacks: dict[Callable[..., object], None] = {}
        super().__init__(**initial | settings)
        self.on_msg(self._on_message)
        self.observe(self._on_selection, names="selection")
        if self.inputs:
            self.observe(self._on_input, names=list(self.inputs))
            self.request()

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """Compute the result for the values of `inputs`; runs on the worker and may stop once `job.cancel` is set."""
        raise NotImplementedError(f"{type(self).__name__} has inputs: implement compute(self, inputs, job).")

    def publish(self, result: Any) -> dict[str, Any]:
        """Return the traits that show a result."""
        return {}

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        """Return the initial traits of a view that computes with an explainer."""
        return {}

    def from_result(self, result: Any) -> dict[str, Any]:
        """Return the initial traits of a view of a finished result; `plain_result` holds the result."""
        return {}

    def as_explainer(self, source: Any) -> Explainer:
        """The explainer of the view; a Subject is explained by the default method."""
        if isinstance(source, Subject):
            return Explainer(source)
        if not isinstance(source, Explainer):
            kinds = ["an Explainer", "a Subject", *(f"a {kind.__name__}" for kind in self.accepts)]
            choice = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
            message = f"source must be {choice}, not {type(source).__name__}. Pass nbsal.load(model) for a Subject."
            raise InputError(message, argument="source", value=source)
        return source

    def show_partial(self, job: jobs.Job, result: Any, preview: bool = False) -> None:
        """Show a preliminary result from within `compute`, unless a newer request has replaced the job.

        A `preview` comes from a quicker method; the page says so.
        """
        traits = self.publish(result)
        with self._try_lock() as locked:
            if locked and self._job is job and not job.cancel.is_set():
                self._display(result, traits, preview)

    def meter(self, job: jobs.Job, total: int) -> Meter:
        """A meter that reports the steps of `compute` in `progress` and raises Cancelled once the job is cancelled."""
        start, reported = time.perf_counter(), 0.0

        def report(done: int, _: int | None) -> None:
            nonlocal reported
            self._worker.run_waiting()  # other views of the model need not wait for the end
            share = done / total
            if share - reported >= PROGRESS_STEP:
                with self._try_lock() as locked:
                    if locked and self._job is job:
                        reported = share
                        left = progress_words(share, (time.perf_counter() - start) * (1 - share) / share)
                        with self.hold_sync():  # the end of one meter is not that of the job: others may follow
                            self._left, self.progress = (left, share) if share < 1 else ("", None)

        return Meter(total, report, job.cancel)

    def reporter(self, job: jobs.Job) -> Callable[[int, int | None], None]:
        """What reports, as the `progress` of a call, how much of it is done in the view's own `progress`."""
        meter = self.meter(job, STEPS)
        return lambda done, total: meter.reach(STEPS * done / (total or done))

    @property
    def result(self) -> Any:
        """The result on display, or None before the first one."""
        return self._computed

    def request(self) -> None:
        """Request a result for the current inputs; an older request is dropped."""
        inputs = {name: getattr(self, name) for name in self.inputs}
        with self._lock, jobs.on_failure(lambda: self._settle("cancelled")):
            self._failure = None
            self.status, self.error, self.progress, self._left = "computing", "", None, ""
            self._requested = inputs
            self._end_follow_up()
            self._job = self._worker.submit((id(self), "result"), lambda job: self._serve(job, inputs))

    def cancel(self) -> None:
        """Cancel the current request; the previous result stays on display."""
        with self._lock, jobs.on_failure(lambda: self._settle("cancelled")):
            self._end_follow_up()
            if self._job is not None:
                self.status = "cancelling"
                if self._worker.withdraw(self._job):
                    self._settle("cancelled")

    def handle_cancel(self) -> str:
        """Answer a page that wants to cancel."""
        self.cancel()
        return self.status

    def wait(self, timeout: float | None = None) -> "View":
        """Wait until the current request is done; raise its error if it failed."""
        if self._worker.here:
            raise InputError("wait() was called on the worker of this view, which would wait for itself.")
        self._worker.help()
        with self._lock, nullcontext():
            if not self._lock.wait_for(self._is_done, timeout):
                raise TimeoutError(f"{type(self).__name__} is still computing after {timeout} seconds.")
            if self._failure is not None:
                raise self._failure
        return self

    def on_select(self, callback: Callable[[Any], object], remove: bool = False) -> None:
        """Call `callback(self.selected())` whenever the selection changes; `remove` stops that."""
        self._callbacks.pop(callback, None) if remove else self._callbacks.setdefault(callback)

    def selected(self) -> "pandas.DataFrame":
        """The selected tokens, one row each."""
        return self._selected_rows(self.to_frame())

    def __setattr__(self, name: str, value: Any) -> None:
        if self.has_trait(name) and getattr(value, "ndim", 0):  # traitlets would ask for the truth value of an array
            message = f"{name} must be a single value, a list or a dict, not {type(value).__name__}."
            raise InputError(message, argument=name, value=value)
        try:
            with self._lock, nullcontext():
                super().__setattr__(name, value)
        except traitlets.TraitError as error:
            raise InputError(str(error), argument=name, value=value) from error

    def set_state(self, sync_data: Any) -> None:
        """Set the traits that the page changed."""
        with self._lock, nullcontext():
            super().set_state(sync_data)

    def send_state(self, key: Any = None) -> None:
        """Send traits to the page."""
        with self._lock, nullcontext():
            super().send_state(key)

    def close(self) -> None:
        """Cancel the current request and remove the view from the page."""
        if self.comm is not None:  # Python also closes views whose constructor failed
            self.cancel()
        super().close()

    def _serve(self, job: jobs.Job, inputs: dict[str, Any]) -> None:
        """Compute on the worker, then show the result unless a newer request has replaced the job."""
        start = time.perf_counter()
        try:
            result = self.compute(inputs, job)
            if job.cancel.is_set():
                raise Cancelled("Cancelled.")
            traits = self.publish(result)
            with self._lock, nullcontext():
                if self._job is job:
                    self._display(result, traits)
                    self._seconds = f"Up to date \u00b7 {time.perf_counter() - start:.1f} s"
                    self._start_follow_up(result)
                    self._settle("ready")
        except BaseException as error:  # an interrupt too, or the view would compute forever
            with self._lock, nullcontext():
                if self._job is job:
                    self._fail(error)

    def _is_done(self) -> bool:
        return self._job is None

    def _start_follow_up(self, result: Any) -> None:
        """Begin further work on a result that is on display."""

    def _end_follow_up(self) -> None:
        """Cancel the further work on a result."""

    def _display(self, result: Any, traits: dict[str, Any], preview: bool = False) -> None:
        """Set the result and the traits that show it; the only place that does."""
        with self.hold_sync():
            self._computed, self._preview = result, preview
            self._requested = {name: traits.get(name, value) for name, value in self._requested.items()}
            self._inputs = self._as_json(self._requested)
            for name, value in traits.items():
                setattr(self, name, value)
            self._next = [[name, step.label, step.needs_file] for name, step in self.steps().items()]
        self._snapshots.refresh()
        self._lock.notify_all()
        self._rev += 1  # in a message of its own: some hosts report the traits of one message one by one, in any order

    @contextmanager
    def _try_lock(self) -> Iterator[bool]:
        """The lock, if it is free soon: `compute` may hold the model while a callback with the lock waits for it."""
        locked = self._lock.acquire(timeout=LOCK_TIMEOUT)
        try:
            yield locked
        finally:
            if locked:
                self._lock.release()

    def _as_json(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs that the page can set, as they are sent to it."""
        traits = self.traits(sync=True, page=True)
        return {
            name: traits[name].metadata.get("to_json", self._trait_to_json)(value, self)
            for name, value in inputs.items()
            if name in traits
        }

    def _settle(self, status: str) -> None:
        self._job = None
        self.status, self.progress, self._left = status, None, ""
        self._lock.notify_all()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            self._settle("cancelled")
        else:
            self._failure, self.error = error, error_text(error)
            self._settle("error")

    def _check_settings(self, settings: dict[str, Any]) -> None:
        names = set(self.class_trait_names(sync=True))
        if unknown := settings.keys() - names:
            name, valid = min(unknown), sorted(name for name in names - _STATE if name[0] != "_")
            problem = f"{type(self).__name__} has no setting {name!r}."
            raise UnknownName(name, settings[name], valid, problem, spelled=name)

    def _require_result(self, latest: bool = False) -> None:
        """Wait for a result; on the worker, which cannot wait, only check that there is one."""
        if not self._worker.here and (latest or self.result is None or self._preview):
            self.wait()
        if self.result is None:
            raise InputError(f"{type(self).__name__} has no result yet. Call request() and wait() first.")

    def _wait_briefly(self) -> None:
        self._worker.help()
        with self._lock, nullcontext():
            self._lock.wait_for(lambda: self._is_done() or self._preview, DISPLAY_TIMEOUT)

    def _selected_rows(self, tokens: "pandas.DataFrame") -> "pandas.DataFrame":
        """The selected rows of a table with one row per token; positions beyond its end are ignored."""
        return tokens.iloc[[position for position in self.selection if position in range(len(tokens))]]

    def _on_input(self, change: Any) -> None:
        if change["new"] != self._requested.get(change["name"]):  # a result may set an input for which it holds
            self.request()

    def _on_selection(self, change: Any) -> None:
        if not self._callbacks or self.result is None:
            return
        rows = self.selected()
        for callback in list(self._callbacks):
            try:
                callback(rows)
            except Exception as error:  # comm handlers would swallow it
                self.error = f"A callback of on_select failed. {error_text(error)}"

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:
        """Answer {"ask": name, "id": id, **arguments} with {"id", "reply"} or {"id", "error"}."""
        if not isinstance(content, dict) or not is_message_id(message_id := content.get("id")):
            return  # the page only checks the connection
        try:
            answer = find_request(self, content)
        except InputError as error:
            self.send({"id": message_id, "error": error_text(error)})
            return
        if content["ask"] in self.immediate:
            self._reply(message_id, answer)
        else:
            self._worker.submit((id(self), content["ask"]), lambda job: self._reply(message_id, answer))

    def _reply(self, message_id: str, answer: Callable[[], Any]) -> None:
        try:
            self.send({"id": message_id, "reply": answer()})
        except Exception as error:
            self.send({"id": message_id, "error": error_text(error)})


_STATE = {"status", "error", "progress", "layout", "tabbable", "tooltip"}  # traits that are not settings
