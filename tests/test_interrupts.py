"""Interrupts at every line that is executed leave the model as it was, and the next call as right as the first."""

import sys
import warnings
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import nbsal
from nbsal.heads import HeadMask
from nbsal.passes import plan
from nbsal.testing.state import snapshot
from tests import zoo
from tests.test_faults import is_free

PACKAGE = str(Path(nbsal.__file__).parent)
MASK = HeadMask.from_array(np.eye(1, 4))
TEXT = "A joy."


def streamed(call):
    """Call a function with every trace computed block by block."""
    with mock.patch.object(plan, "LIMIT", -1):
        return call()


CALLS = {
    "gradcam": lambda s: nbsal.Explainer(s, "gradcam")(TEXT),
    "rollout": lambda s: nbsal.Explainer(s, "rollout")(TEXT),
    "mask-lrp": lambda s: nbsal.Explainer(s, "mask-lrp", mask=MASK)(TEXT),
    "attcat": lambda s: nbsal.Explainer(s, "attcat")(TEXT),
    "occlusion": lambda s: nbsal.Explainer(s, "occlusion")(TEXT),
    "windows": lambda s: nbsal.Explainer(s, "gradcam", long="window")("a joy " * 35),
    "smooth": lambda s: nbsal.Explainer(s, "smooth", samples=2)(TEXT),
    "gae streamed": lambda s: streamed(lambda: nbsal.Explainer(s, "gae")(TEXT)),
    "lrp streamed": lambda s: streamed(lambda: nbsal.Explainer(s, "lrp")(TEXT)),
}


@pytest.fixture
def subject():
    """A model in training, so that evaluation mode is a change."""
    model = zoo.model("bert", "sequence", num_hidden_layers=1).float().train()
    return nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")


def everything(subject):
    """The state of the model, of the thread and of the process."""
    inference = torch.is_inference_mode_enabled()
    return snapshot(subject) | {
        "inference": inference,
        "free": is_free(subject.lock),
        "filters": list(warnings.filters),
    }


class Lines:
    """Notes every line of the package that a call executes, and interrupts the call before the line of that number."""

    def __init__(self, interrupted: int | None = None) -> None:
        self.interrupted = interrupted
        self.executed: list[tuple[str, int]] = []

    def __call__(self, frame, event, arg):
        return self.line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def line(self, frame, event, arg):
        if event == "line":
            if len(self.executed) == self.interrupted:
                raise KeyboardInterrupt
            self.executed.append((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    def run(self, call):
        """Call a function; return whether it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


def check_every_line(subject, run, numbers=None):
    truth = run(subject).scores
    before, lines = everything(subject), Lines()
    lines.run(lambda: run(subject))
    assert len(lines.executed) > 300
    for number in range(len(lines.executed)) if numbers is None else numbers(lines.executed):
        assert Lines(number).run(lambda: run(subject)), number
        assert everything(subject) == before, lines.executed[number]
        assert np.array_equal(run(subject).scores, truth), lines.executed[number]
    assert np.array_equal(run(subject).scores, truth) and everything(subject) == before


ENTER_AND_LEAVE = (
    "twin hooks architecture subject trace mode explainer batching version stream block_calls double".split()
)


def first_and_last(executed):
    """The numbers of the first and last execution of each line of the code that changes and restores the model."""
    places: dict[tuple[str, int], list[int]] = {}
    for number, line in enumerate(executed):
        if Path(line[0]).stem in ENTER_AND_LEAVE:
            places.setdefault(line, [number, number])[1] = number
    return sorted({number for ends in places.values() for number in ends})


@pytest.mark.some(1)
@pytest.mark.parametrize(("call", "share"), [("gradcam", 3), ("rollout", 4), ("mask-lrp", 24), ("lrp streamed", 24)])
def test_an_interrupt_at_any_line(subject, call, share):
    """The long calls at some lines only; with `-m full` all calls at all lines."""
    check_every_line(subject, CALLS[call], lambda executed: first_and_last(executed)[::share])


@pytest.mark.full
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_at_every_execution_of_a_line(subject, call):
    check_every_line(subject, CALLS[call])


class Calls:
    """Interrupts at the call or return of that number in the package, after it was started."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename.startswith(PACKAGE):
            self.number -= 1
            if self.number < 0:
                raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a generator that is closed
@pytest.mark.parametrize("call", ["gradcam", "gae streamed", pytest.param("mask-lrp", marks=pytest.mark.full)])
def test_a_second_interrupt_while_changes_are_undone(subject, call):
    """The first strikes in the model; the second at each call and return of what undoes the changes."""
    run = CALLS[call]
    truth, before, second = run(subject).scores, everything(subject), None

    def interrupt(module, args, output):
        sys.setprofile(second)
        raise KeyboardInterrupt

    handle = subject.blocks[0].register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(subject)
    hooked = everything(subject)
    for number in range(0, 1000, 5):
        second = Calls(number)
        try:
            with suppress(KeyboardInterrupt):
                run(subject)
        finally:
            sys.setprofile(None)
        assert everything(subject) == hooked, number
        if second.number >= 0:
            break
    assert 20 < number < 998
    handle.remove()
    assert np.array_equal(run(subject).scores, truth) and everything(subject) == before
