"""The Browse view: many explained texts in a table that is sorted and filtered; one text is opened beside it."""

from collections.abc import Sequence
from typing import Any

import traitlets

from nbsal.explain.saliency import Saliency
from nbsal.render.sheet import Sentence, Sheet
from nbsal.support.lazy import pandas
from nbsal.support.validation import checked
from nbsal.widgets.content.text_table import TablePage
from nbsal.widgets.corpus_view import CorpusView
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset


@traitlets.signature_has_traits
@checked
class Browse(CorpusView):
    """A table of Saliency results, of an opened corpus, or of texts that an explainer explains while the table fills.

    With `labels`, a table of labels by predictions stands above it. The traits are those of `CorpusView`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Browse(explain.map(["A joy.", "A bore."], progress=False), token="bore")
    >>> view.wait().to_frame()["prediction"].tolist()
    ['negative']
    """

    _esm = asset("browse.js")
    _css = asset("browse.css")

    opened = traitlets.Int(0, allow_none=True, min=0).tag(sync=True, page=True)

    def selected(self) -> "pandas.DataFrame":
        opened = self.result.opened
        return self.to_frame().iloc[:0] if opened is None else self._selected_rows(opened.to_frame())

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> TablePage:
        return self.table_of(saliencies, inputs, job)

    def sheet(self) -> Sheet:
        page: TablePage = self.result
        blocks = [Sentence(self.headline(page)), *self.confusion_blocks(page), *self.table_blocks(page)]
        return Sheet(page.caption(), blocks, self.notes(page))
