'''View: the base of every view: an anywidget bound to a Python object that computes.

How to add a view. Python: subclass `View`, name in `inputs` the traits whose change asks for a new result, compute it
in `compute` (on the worker: it reads `wanted`, never the traits) and set traits in `publish`. The base gives requests,
of which the newest wins, progress, cancel, `status`, `error`, `wait()`, exports and the static HTML that stands in for
the view where no scripts run. This is a whole view:

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

        def __init__(self, explainer, **settings):
            super().__init__(explainer.subject, explainer=explainer, **settings)

        def compute(self, wanted, job):
            return self.explainer(wanted["text"])

        def publish(self, found):
            words = found.by_word()
            self.bars = [[word, score / found.largest] for word, score in zip(words["word"], words["score"])]

A view of this package does the same with shared parts: `bound.Bound` (an explainer's text, method, layer, target, tau)
and `wire` in Python; in `frontend/src` an entry `NAME.js` of a few dozen lines that calls `mount` (`mount.js`: errors,
status, notes, save, keys) and builds from `controls.js`, `text.js`, `colour.js`, `dom.js`; `NAME.css` that imports
`base.css`; then a line in `widgets/__init__.py`, `npm run build`, tests in tests/widgets and tests/browser.
A page may also ask by message: `ask("name", {...})` is answered by `answer_name(**arguments)`, on the worker.
'''

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, RLock
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets
from anywidget import AnyWidget

from nbsal.errors import Cancelled, InputError, NbsalError, UnknownName
from nbsal.progress import Meter
from nbsal.render import html
from nbsal.widgets import export, jobs

if TYPE_CHECKING:
    import pandas

STRIDE = 0.02  # a share of progress worth telling the page
PATIENCE = 2.0  # seconds that showing a view waits for its first result, so that the static HTML holds it


class View(AnyWidget):
    """The base of every view; see the module's text for how to write one.

    `selection` holds token positions, `hover` one or None. `status` is ready, computing, cancelling, cancelled or
    error, and `error` the sentence that goes with the last.

    >>> class Length(View):
    ...     inputs = ("text",)
    ...     text = traitlets.Unicode("A joy.").tag(sync=True)
    ...
    ...     def compute(self, wanted, job):
    ...         return len(wanted["text"])
    >>> Length().wait().result
    6
    """

    inputs: ClassVar[tuple[str, ...]] = ()
    # Over traits, which cells, pages and workers all set. One for all views: a link sets one's from another's change.
    _lock: ClassVar[Condition] = Condition(RLock())

    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    hover = traitlets.Int(None, allow_none=True).tag(sync=True)
    status = traitlets.Unicode("ready").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    progress = traitlets.Float(None, allow_none=True).tag(sync=True)
    _live = traitlets.Bool(True).tag(sync=True)  # whether Python answers; a saved page's does not
    _rev = traitlets.Int(0).tag(sync=True)  # counts results: a page redraws once when it changes

    def __init__(self, subject: Any = None, *, explainer: Any = None, **settings: Any) -> None:
        known = set(self.class_trait_names(sync=True))
        if unknown := settings.keys() - known:
            public = sorted(name for name in known - _STATES if name[0] != "_")
            raise UnknownName(f"setting of {type(self).__name__}", min(unknown), public)
        self.subject = subject
        self.explainer = explainer
        self.result: Any = None
        self._worker = jobs.worker(subject if subject is not None else View)
        self._job: jobs.Job | None = None
        self._failure: BaseException | None = None
        self._callbacks: list[Callable[..., object]] = []
        super().__init__(**settings)
        self.on_msg(self._heard)
        self.observe(self._selected, names="selection")
        if self.inputs:
            self.observe(lambda change: self.request(), names=list(self.inputs))
            self.request()

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        """The result for those inputs; runs on the worker, and ends early where `job.cancel` is set and it can."""
        raise NotImplementedError(f"{type(self).__name__} names inputs, so it must say how to compute.")

    def publish(self, found: Any) -> None:
        """Set the traits that show a result."""

    def html(self) -> str:
        """The result as HTML that needs no scripts and passes a notebook's sanitiser."""
        return str(self.result.to_html())

    def picture(self) -> bytes:
        """The result as PNG."""
        raise InputError(f"{type(self).__name__} has no picture.")

    def partly(self, job: jobs.Job, found: Any) -> None:
        """Show from within `compute` what is there so far, unless a newer request came meanwhile."""
        with self._soon() as free:
            if free and self._job is job and not job.cancel.is_set():
                self._show(found)

    def meter(self, job: jobs.Job, total: int) -> Meter:
        """Counts steps of the work in `progress`, and ends it where the job is told to stop."""

        def told(done: int, _: int | None) -> None:
            share = done / total
            if share - (self.progress or 0.0) >= STRIDE:
                with self._soon() as free:
                    if free and self._job is job:
                        self.progress = share

        return Meter(total, told, job.cancel)

    def request(self) -> None:
        """Ask for a result of the inputs as they are now; the newest request wins."""
        wanted = {name: getattr(self, name) for name in self.inputs}
        with self._lock:
            self._failure = None
            self.status, self.error, self.progress = "computing", "", None
            self._job = self._worker.submit((id(self), "result"), lambda job: self._serve(job, wanted))

    def cancel(self) -> None:
        """Ask the work under way to stop; what is shown stays."""
        with self._lock:
            if (job := self._job) is None:
                return
            self.status = "cancelling"
            if self._worker.withdraw(job):
                self._settle("cancelled")

    def wait(self, timeout: float | None = None) -> "View":
        """Wait until nothing is under way; what went wrong last is raised here too."""
        if self._worker.here:
            raise InputError("wait() would wait for itself: it was called by the view's own worker.")
        with self._lock:
            if not self._lock.wait_for(lambda: self._job is None, timeout):
                raise TimeoutError(f"{type(self).__name__} is still computing after {timeout} seconds.")
            if self._failure is not None:
                raise self._failure
        return self

    def on_select(self, callback: Callable[["pandas.DataFrame"], object], remove: bool = False) -> None:
        """Call back with `selected()`, whenever that changes."""
        if remove:
            self._callbacks.remove(callback)
        else:
            self._callbacks.append(callback)

    def selected(self) -> "pandas.DataFrame":
        """What is selected, a row each."""
        return self._chosen(self.to_frame())

    def to_frame(self) -> "pandas.DataFrame":
        """The numbers on screen."""
        self._needs_result()
        return self.result.to_frame()  # type: ignore[no-any-return]

    def to_html(self, interactive: bool = False) -> str:
        """A page of its own: without scripts, or with the view as it stands now and no need of Python or a network."""
        self._needs_result()
        if interactive:
            return export.interactive(self, self._title())
        return html.page_html(self._title(), self.html())

    def to_png(self) -> bytes:
        """A picture."""
        self._needs_result()
        return self.picture()

    def freeze(self, interactive: bool = False) -> export.Frozen:
        """What is shown now, to be displayed as a cell's output: it stays in the notebook file.

        Without scripts it shows wherever the notebook does; interactive, where the notebook is trusted.
        """
        self._needs_result()
        return export.Frozen(export.iframe(self.to_html(interactive=True)) if interactive else self.html(), repr(self))

    def answer_save(self, kind: str) -> dict[str, str]:
        """An export for the page to download."""
        makers: dict[str, tuple[str, Callable[[], str | bytes]]] = {
            "html": ("text/html", lambda: self.to_html(interactive=True)),
            "png": ("image/png", self.to_png),
            "csv": ("text/csv", lambda: self.to_frame().to_csv(index=False)),
        }
        if kind not in makers:
            raise UnknownName("export", kind, makers)
        mime, make = makers[kind]
        return {"mime": mime, "name": f"{type(self).__name__.lower()}.{kind}", "content": export.text_or_base64(make())}

    def __setattr__(self, name: str, value: Any) -> None:
        with self._lock:
            super().__setattr__(name, value)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """What the page changed; not while the worker shows a result."""
        with self._lock:
            super().set_state(sync_data)

    def send_state(self, key: Any = None) -> None:
        """Traits to the page; not while the worker shows a result."""
        with self._lock:
            super().send_state(key)

    def close(self) -> None:
        """Stop the work and leave the page."""
        if self.comm is not None:  # Python also closes what was never fully made
            self.cancel()
        super().close()

    def _serve(self, job: jobs.Job, wanted: dict[str, Any]) -> None:
        """Compute on the worker, and show the result unless a newer request came meanwhile."""
        try:
            found = self.compute(wanted, job)
            error: BaseException | None = Cancelled("Cancelled.") if job.cancel.is_set() else None
        except Exception as raised:
            found, error = None, raised
        with self._lock:
            if self._job is not job:
                return
            try:
                if error is None:
                    self._show(found)
            except Exception as raised:
                error = raised
            if error is None:
                self._settle("ready")
            elif isinstance(error, Cancelled):
                self._settle("cancelled")
            else:
                self._fail(error)

    def _show(self, found: Any) -> None:
        with self.hold_sync():
            self.result = found
            self.publish(found)
        self._rev += 1  # a message of its own: some hosts tell of the traits in one as they come to them, in any order

    @contextmanager
    def _soon(self) -> Iterator[bool]:
        """The lock, if it is free soon: work may hold the model while a callback that has the lock wants the model."""
        free = self._lock.acquire(timeout=0.1)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def _settle(self, status: str) -> None:
        self._job = None
        self.status, self.progress = status, None
        self._lock.notify_all()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.error = _sentence(error)
        self._settle("error")

    def _needs_result(self) -> None:
        """Wait for the first result; a caller on the worker has to take what is there."""
        if not self._worker.here and self.result is None:
            self.wait()
        if self.result is None:
            raise InputError(f"{type(self).__name__} has no result yet.")

    def _chosen(self, tokens: "pandas.DataFrame") -> "pandas.DataFrame":
        """The selected ones of a row a token; places beyond the text are none."""
        return tokens.iloc[[place for place in self.selection if place in range(len(tokens))]]

    def _selected(self, change: Any) -> None:
        if not self._callbacks or self.result is None:
            return
        rows = self.selected()
        for callback in list(self._callbacks):
            try:
                callback(rows)
            except Exception as raised:  # elsewhere it would be lost: comm handlers swallow what is raised in them
                self.error = f"A callback of on_select failed. {_sentence(raised)}"

    def _heard(self, _: Any, content: Any, buffers: Any) -> None:
        """A message of the page: {"ask": name, "id": number, ...}; answered with {"id", "reply"} or {"id", "error"}."""
        if not content:
            return  # the page only looks whether anybody is there
        asked = dict(content)
        name, number = asked.pop("ask", None), asked.pop("id", None)
        answer = getattr(self, f"answer_{name}", None)
        if name == "cancel":
            self.cancel()
            self.send({"id": number, "reply": self.status})
        elif answer is None:
            self.send({"id": number, "error": f"This view knows no answer to {name!r}."})
        else:
            self._worker.submit((id(self), name), lambda job: self._answer(number, answer, asked))

    def _answer(self, number: Any, answer: Callable[..., Any], asked: dict[str, Any]) -> None:
        try:
            reply = {"id": number, "reply": answer(**asked)}
        except Exception as raised:
            reply = {"id": number, "error": _sentence(raised)}
        self.send(reply)

    def _title(self) -> str:
        return f"{type(self).__name__}: {self.result.caption()}" if self.result else type(self).__name__

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        with self._lock:
            self._lock.wait_for(lambda: self._job is None, PATIENCE)
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        body = self.html() if self.result is not None else html.block_html(repr(self), "", [self.error or self.status])
        return data | {"text/html": body, "text/plain": repr(self)}, metadata

    def __repr__(self) -> str:
        return f"<{self._title()}>"


_STATES = {"status", "error", "progress", "layout", "tabbable", "tooltip"}


def _sentence(error: BaseException) -> str:
    """An error as the view shows it; what nbsal did not foresee also goes to standard error in full."""
    if isinstance(error, NbsalError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"
