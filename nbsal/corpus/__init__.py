"""Explanations of whole corpora, computed in shards, stored as a Parquet dataset and resumed after interruptions.

>>> import tempfile, nbsal
>>> from nbsal import corpus
>>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
>>> with tempfile.TemporaryDirectory() as out:
...     explained = corpus.explain(explainer, ["A joy.", "", "A dull bore."], out, progress=False)
...     explained, explained.saliency(2).prediction
(Corpus(3 texts, 1 failed, gradcam), 'negative')
"""

from typing import TYPE_CHECKING

from nbsal.corpus.dataset import Corpus as Corpus
from nbsal.corpus.dataset import open_corpus as open_corpus
from nbsal.corpus.dataset import open_replies as open_replies
from nbsal.corpus.replies import Replies as Replies
from nbsal.support.lazy import exports as _exports

if TYPE_CHECKING:
    from nbsal.corpus.run import explain as explain
    from nbsal.corpus.run import explain_replies as explain_replies

open = open_corpus  # noqa: A001 - read as nbsal.corpus.open
__getattr__, __dir__ = _exports(globals(), {"explain": "run", "explain_replies": "run"})
