"""Check the views in JupyterLab and print what was measured: `python -m tests.browser.checklist [NUMBER ...]`.

Without numbers all checks run, then the measures. The exit status is 1 if a check fails.
"""

import argparse
import os
import sys
import time

from playwright.sync_api import Error, expect

from tests.browser.checklist import (
    CHECKS,
    Check,
    access,
    editing,
    layout,
    measures,
    path,
    saving,
    views,
    words,
)
from tests.browser.checklist.session import PATIENCE, Session

GROUPS = (layout, editing, words, access, saving, views, path)


def outcome(each: Check, session: Session) -> tuple[bool, str]:
    """Whether a check holds, and what it measured."""
    try:
        return True, each.function(session)
    except AssertionError as error:
        return False, str(error)
    except Error as error:  # the page never came to what the check waits for
        return False, error.message.splitlines()[0]
    finally:
        session.reset()


def run(numbers: list[int]) -> int:
    """Run checks and print a line for each; the exit status."""
    start, failed = time.monotonic(), 0
    chosen = sorted((CHECKS[number] for number in numbers or CHECKS), key=lambda each: (each.last, each.number))
    with Session.started() as session:
        lines = [] if numbers else [measures.keystrokes(session), measures.memory(session), *measures.sizes()]
        for each in chosen:
            holds, measured = outcome(each, session)
            failed += not holds
            print(f"{each.number:>2}  {each.words:<66}  {'holds' if holds else 'FAILS'}  {measured}", flush=True)
    seconds, load = time.monotonic() - start, os.getloadavg()[1]
    print(*lines, f"{len(chosen) - failed} of {len(chosen)} hold; {seconds:.0f} s, load average {load:.1f}", sep="\n")
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="a check to run, from 1 to 31")
    numbers = parser.parse_args().numbers
    if unknown := {*numbers} - {*CHECKS}:
        parser.error(f"no check has the number {min(unknown)}")
    expect.set_options(timeout=PATIENCE)
    sys.exit(run(numbers))
