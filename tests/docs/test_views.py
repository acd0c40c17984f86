"""The first view on the site shows an explanation that convinces."""

import nbsal
from tests.docs import views
from tests.docs.repository import ROOT

PAGES = ROOT / ".docs"


def test_the_first_page_names_the_word_that_a_reader_would():
    view = views.view_of(PAGES / "index.md")
    assert ("for", "wonderful") in view.statement.sentence and view.statement.state == "supported"
    subject = nbsal.live.rounded(view.subject)  # which the page runs
    explain = nbsal.Explainer(subject, view.method, layer=view.layer)
    words = explain("The plot is thin and the acting is dreadful.").by_word()
    assert view.live_name and words.loc[words["score"].idxmax(), "word"] == "dreadful"
