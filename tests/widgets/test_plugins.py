"""Views of other packages: attributes of nbsal.widgets, refused when broken, never looked for at import."""

import sys

import pytest

import nbsal
from nbsal.widgets.page import plugins
from tests import packages
from tests.raising import refuses

PACKAGE = """
from nbsal.widgets import View

class Bars(View):
    pass

NOTHING = 3
"""
ENTRIES = """
[nbsal.views]
Bars = nbsal_views:Bars
NoView = nbsal_views:NOTHING
Broken = nbsal_lost:View
Highlight = nbsal_views:Bars
base = nbsal_views:Bars
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that offers views, some of them broken."""
    packages.write(tmp_path, "nbsal_views", PACKAGE, ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.offered.cache_clear()
    plugins._warn_once.cache_clear()
    yield
    sys.modules.pop("nbsal_views", None)
    monkeypatch.undo()
    plugins.offered.cache_clear()


def test_names_that_are_taken_stay_nbsals_own(installed):
    with pytest.warns(UserWarning) as caught:
        names = dir(nbsal.widgets)
    assert [str(warning.message).split()[0] for warning in caught] == ["Highlight", "base"]
    assert names.count("Highlight") == 1 and nbsal.widgets.Highlight.__module__ == "nbsal.widgets.highlight"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["NoView", "Broken"])
def test_a_broken_view_says_what_is_wrong(installed, name):
    with refuses("view") as caught:
        getattr(nbsal.widgets, name)
    assert caught.value.value == name
