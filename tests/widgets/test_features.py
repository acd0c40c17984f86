"""The table of features names tests that are there."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_in_the_table_is_there():
    named = set(re.findall(r"`(test_\w+)`", (HERE / "FEATURES.md").read_text()))
    files = [*HERE.glob("test_*.py"), *(HERE.parent / "browser").glob("test_*.py")]
    there = {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}
    assert named - there == set() and len(named) > 50


def test_every_row_has_an_answer():
    rows = [line.split("|") for line in (HERE / "FEATURES.md").read_text().splitlines() if line.startswith("| ")]
    assert [row[1] for row in rows if not row[2].strip()] == []
    assert [row[1].strip() for row in rows if not row[3].strip()] == ["VS Code, Colab"]
