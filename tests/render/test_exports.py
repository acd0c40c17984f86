"""The HTML page of results and views means the same everywhere: a string, or a file whose path is returned."""

from inspect import signature
from pathlib import Path

import pytest

import nbsal
from nbsal.render.exports import Exportable
from nbsal.widgets import Highlight
from tests.cases import cases
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "A dull film."]
QUESTION = [{"role": "user", "content": "Where does Mara live?"}]
NAMES = ("Saliency", "LayerSaliency", "Saliencies", "Comparison", "pair", "Answer", "Audit", "view")


@pytest.fixture(scope="module")
def exportable(small):
    explain = nbsal.Explainer(small, "gradxact")
    many = nbsal.compare(small, ["gradxact", "gradcam"], TEXTS, progress=False)
    notes = {"documents": ["Mara lives in Oslo."], "method": "gradxact", "progress": False}
    return {
        "Saliency": explain(TEXTS[0]),
        "LayerSaliency": explain.every_layer(TEXTS[0]),
        "Saliencies": many["gradcam"],
        "Comparison": many,
        "pair": nbsal.compare(small, ["gradxact", "gradcam"], TEXTS[0], progress=False),
        "Answer": nbsal.answer("demo/notes", QUESTION, **notes),
        "Audit": nbsal.audit(explain, TEXTS, ["positive", "negative"], least=1, progress=False),
        "view": Highlight(explain, text=TEXTS[0], check=False).wait(),
    }


@cases("name", NAMES)
def test_a_page_is_returned_or_written(exportable, name, tmp_path, capsys):
    result = exportable[name]
    assert signature(type(result).to_html) == signature(Exportable.to_html)
    for settings in ({}, {"interactive": True}):
        page = result.to_html(**settings)
        assert page.startswith("<!doctype html>") and page.endswith("</html>")
        assert ("<script" in page) == bool(settings)
        path = result.to_html(str(tmp_path / "page.html"), **settings)
        assert isinstance(path, Path) and path == tmp_path / "page.html"
        before_script, written = page.split("<script")[0], path.read_text(encoding="utf-8")
        assert written.startswith(before_script) and ("<script" in written) == bool(settings)
    with refuses("path"):
        result.to_html(tmp_path / "nowhere" / "page.html")
    assert capsys.readouterr() == ("", "")


@cases("name", [name for name in NAMES if name != "view"])
def test_a_finished_result_has_no_model_that_could_answer_in_a_page(exportable, name, tmp_path):
    with refuses("live"):
        exportable[name].to_html(tmp_path / "page.html", live=True)
    assert not list(tmp_path.iterdir())


def test_cells_show_the_content_of_a_page(exportable):
    for name, result in exportable.items():
        if name not in ("Audit", "view"):
            assert result._repr_html_() == result.render_html() and result.render_html() in result.to_html()
