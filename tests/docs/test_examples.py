"""Every Python block of the guides, the first page and the README runs, in order, as a reader would run it."""

import sys
from importlib.util import find_spec

import pytest

from tests.docs import examples
from tests.docs.repository import ROOT

GUIDES = sorted(examples.GUIDES.glob("*.md"))
ELSEWHERE = ("hosts", "plugins", "recipes")  # tests/test_guides.py runs them in processes: they register a method
PAGES = [
    page
    for page in (*GUIDES, ROOT / ".docs" / "index.md", ROOT / "README.md")
    if page.stem not in ELSEWHERE and examples.blocks(page)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with what the pages call by example names."""
    examples.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, folder):
    libraries = {"transformers": sys.modules["transformers"], "my_service": lambda texts: [[0.5, 0.5] for _ in texts]}
    if page.stem == "README" and find_spec("sentence_transformers"):
        libraries["SentenceTransformer"] = pytest.importorskip("sentence_transformers").SentenceTransformer
    assert examples.run(page, {"__name__": "guide"} | (libraries if page.stem == "README" else {}))


def test_an_example_that_fails_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        examples.run(page, {})
    page.write_text("```python\nimport a_library_that_nobody_has\n```\n", encoding="utf-8")
    assert examples.run(page, {}) == 0


def test_guides_are_short():
    assert GUIDES
    assert [page.name for page in GUIDES if page.read_text(encoding="utf-8").count("\n") > 200] == []
