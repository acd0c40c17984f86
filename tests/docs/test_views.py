"""The views on the site show explanations that convince and audits that find something."""

import re

import nbsal
from tests import gallery
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


def test_the_audit_on_its_page_finds_what_was_planted():
    """The page has the view whose words the gallery keeps, and compares with what it shows now."""
    found = re.findall(r"^(\S+) .*\n◆\n\d\n(\d+)$", (gallery.PICTURES / "audit.txt").read_text("utf-8"), re.MULTILINE)
    assert [word for word, _ in found] == ['“"”', "“*”"] and all(int(corrects) > 10 for _, corrects in found)
