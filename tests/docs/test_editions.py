"""The editions: the program's pages become Markdown that many pages can show, and the published ones are whole."""

import re

import matplotlib.figure
import pandas
import pytest

from nbsal.figures import __main__ as program
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.build import Build
from nbsal.figures.exhibits import Exhibit, Product
from nbsal.figures.pages import Page
from nbsal.figures.tables import style_frame
from tests import publish
from tests.docs import editions


def test_an_edition_has_headings_notes_pictures_and_plain_tables(tmp_path, monkeypatch):
    monkeypatch.delenv("NBSAL_DATA", raising=False)
    numbers = pandas.DataFrame({"<auc>": [0.25, 0.5]}, index=["a", "b"])
    styles = pandas.DataFrame({"<auc>": ["font-weight: bold", "font-style: italic"]}, index=["a", "b"])
    table = style_frame(numbers, "areas", styles)
    parts = [("a caption", matplotlib.figure.Figure()), ("", table), ("", Page("All texts", ""))]
    exhibits = [Exhibit("Figure 1", "A & B", "", lambda build: Product(parts, "two texts"), "")]
    assert program.run(Build(tmp_path / "out" / "decoding"), "A paper", exhibits, exhibits) == 0
    files = tmp_path / "editions" / "decoding"
    files.mkdir(parents=True)
    (files / "old.png").touch()
    text = editions.publish_edition(tmp_path / "out", "decoding", files.parent).read_text(encoding="utf-8")
    assert text.startswith("# A paper\n") and "\n## Figure 1. A & B\n" in text and "two texts" in text
    assert 'alt="Figure 1: A &amp; B" src="decoding/figure-1-a.png"' in text and "base64" not in text
    assert "<td><b>0.250</b></td>" in text and "<td><i>0.500</i></td>" in text and "&lt;auc&gt;" in text
    assert "<style" not in text and " id=" not in text
    assert {path.name for path in files.iterdir()} == {"figure-1-a.png", "figure-1-b.csv"}
    assert "All texts" in text and editions.LEFT_OUT in text  # a page of texts is not published
    assert re.findall(r'href="([^"]+)"', text) == ["decoding/figure-1-a.png", "decoding/figure-1-b.csv"]


@pytest.mark.parametrize("paper", list(program.PAPERS))
def test_published_editions_have_every_exhibit_and_nothing_of_the_machine(paper):
    text = (editions.FOLDER / f"{paper}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    title, exhibits = program.PAPERS[paper]
    assert text.startswith(f"# {title}\n") and headings == [f"{item.number}. {item.title}" for item in exhibits]
    assert not publish.TRACES.search(text) and "Failed" not in text
    files = set(re.findall(r'(?:src|href)="([^"]+)"', text))
    assert {path.relative_to(editions.FOLDER).as_posix() for path in (editions.FOLDER / paper).iterdir()} == files


def test_the_provenance_has_the_number_of_texts_of_every_embedded_model():
    pages = [(editions.FOLDER / f"{paper}.md").read_text(encoding="utf-8") for paper in program.PAPERS]
    text = (editions.FOLDER / "index.md").read_text(encoding="utf-8")
    for task in BENCHMARK_TASKS.values():
        title = re.escape(task.title)
        row = re.search(rf"^\| {title} \|.*\| (\d+) \| `{task.demo}`", text, re.MULTILINE)
        assert bool(row) == bool(task.demo), task.title
        assert not row or any(re.search(rf"{title} \(\w+\), {row[1]} of \d+ texts", page) for page in pages)
