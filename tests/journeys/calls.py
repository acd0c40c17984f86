"""The functions and files of the package that seven calls visit, the second time that they are made."""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import nbsal
from tests.journeys.census import PACKAGE

TEXTS = ["A dull, slow film.", "A warm and funny film."]  # of the first call, and of the one that is counted
ASKED = [{"role": "user", "content": "Where does Mara live?"}]
DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen."]
Call = Callable[[int], Any]  # makes a call for the first or the second time


@dataclass(frozen=True)
class Visit:
    """How many functions were entered, comprehensions and lambdas too, and of how many files."""

    functions: int
    files: int

    def __str__(self) -> str:
        return f"{self.functions} / {self.files}"


def visit(name: str) -> Visit:
    """What the second call of that name visits."""
    codes = visited(name)
    return Visit(len(codes), len({code.co_filename for code in codes}))


def visited(name: str) -> set[CodeType]:
    """The functions that the second call of that name enters; of a view, in the thread that computes."""
    call, own = CALLS[name](), threading.get_ident()
    with entered(lambda: call(0)) as codes:
        call(1)
    return {code for code, thread in codes if name != TYPED or thread != own}


@contextmanager
def entered(begin: Callable[[], Any]) -> Iterator[set[tuple[CodeType, int]]]:
    """The functions of the package that are entered, each with its thread: this one, or one that `begin` has started.

    From Python 3.12 on, comprehensions of lists, sets and dicts are part of the function in which they stand.
    """
    codes: set[tuple[CodeType, int]] = set()
    ended, package = False, f"{PACKAGE}/"

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if ended:
            sys.setprofile(None)  # in a thread that goes on
        elif event == "call" and frame.f_code.co_filename.startswith(package):
            codes.add((frame.f_code, threading.get_ident()))

    before, before_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    try:
        begin()
        codes.clear()
        sys.setprofile(note)
        yield codes
    finally:
        ended = True
        sys.setprofile(before)
        threading.setprofile(before_threads)


def explaining(method: str, **settings: Any) -> Call:
    explain = nbsal.Explainer(nbsal.load("demo/reviews-small"), method)
    return lambda number: explain(TEXTS[number], **settings)


def typing() -> Call:
    """A text typed in a view, until it is shaded."""
    explain, views = nbsal.Explainer(nbsal.load("demo/reviews-small"), "gradxact"), []

    def type_text(number: int) -> None:
        if not views:
            views.append(nbsal.widgets.Highlight(explain, text=TEXTS[number], check=False))
        views[0].set_state({"text": TEXTS[number]})
        views[0].wait()

    return type_text


def answering(**settings: Any) -> Callable[[int], nbsal.Answer]:
    notes = nbsal.load("demo/notes")
    return lambda _: nbsal.answer(notes, ASKED, documents=DOCUMENTS, progress=False, **settings)


def finding_sources() -> Call:
    answer = answering()
    return lambda number: answer(number).sources()


def storing() -> Call:
    """Two texts explained into a folder."""
    explain = nbsal.Explainer(nbsal.load("demo/reviews-small"), "gradxact")

    def store(_: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            nbsal.corpus.explain(explain, TEXTS, Path(folder) / "corpus", progress=False)

    return store


TYPED = "a text typed in Highlight, gradxact, in the worker"
CALLS: dict[str, Callable[[], Call]] = {
    "explain(text), gradxact": lambda: explaining("gradxact"),
    "explain(text), occlusion": lambda: explaining("occlusion"),
    "explain(text, check=True), gradxact": lambda: explaining("gradxact", check=True),
    TYPED: typing,
    'nbsal.answer, gae, hops="all", check': lambda: answering(method="gae", hops="all", check=True),
    "nbsal.answer and answer.sources()": finding_sources,
    "two rows of a corpus": storing,
}
