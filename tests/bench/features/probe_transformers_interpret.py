"""What transformers-interpret can do."""

import transformers_interpret as tool

from tests.bench.features import models
from tests.bench.features.registry import no, partly


def _explain(kind="SequenceClassificationExplainer", build=models.classifier):
    return getattr(tool, kind)(*build())


def methods(folder):
    return "1, integrated gradients"


def batch(folder):
    _explain()([models.SHORT, models.LONG])


def offsets(folder):
    tokens = [token for token, _ in _explain()(models.TYPED)]
    return no(f"tokens only: {' '.join(tokens)}")


def pairs(folder):
    _explain("PairwiseSequenceClassificationExplainer")(models.SHORT, models.LONG)
    return "a class of its own"


def spans(folder):
    explain = _explain("QuestionAnsweringExplainer", models.reader)
    assert set(explain(models.SHORT, models.LONG)) == {"start", "end"}
    return "start and end"


def tagging(folder):
    explain = _explain("TokenClassificationExplainer", models.tagger)
    assert explain(models.SHORT)
    return "each token"


def html(folder):
    explain = _explain()
    explain("<b>film")
    page = explain.visualize(str(folder / "page.html")).data
    assert "<script" not in page
    return "escaped" if "&lt;" in page else partly("tokens are not escaped")
