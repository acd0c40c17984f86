"""The path of a text through the package is the one that CONTRIBUTING.md describes."""

import re
import sys
from pathlib import Path

import nbsal

ROOT = Path(__file__).parents[1]


def steps() -> list[str]:
    """The functions of the section, in order, as "file:name"."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("From a text to its scores")[2].partition("From a keystroke")[0]
    return re.findall(r"`(nbsal/[\w/]+\.py:[\w.]+)`", section)


def test_a_text_takes_the_path_that_is_described(reviews):
    entered: list[str] = []

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT / "nbsal")):
            step = f"{Path(code.co_filename).relative_to(ROOT).as_posix()}:{code.co_qualname}"
            if step not in entered:
                entered.append(step)

    explain = nbsal.Explainer(reviews, "decoded-gradcam", layer=5)
    profile = sys.getprofile()
    sys.setprofile(note)
    try:
        explain("A warm and funny film.")
    finally:
        sys.setprofile(profile)
    described = steps()
    assert [step for step in entered if step in described] == described
    assert len(described) <= 20
