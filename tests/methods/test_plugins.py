"""Methods of other packages: used by name, refused in words when broken, and never looked for at import."""

import sys
import warnings

import pytest
import torch

import nbsal
from nbsal.cli import main
from nbsal.methods import catalogue, plugins
from nbsal.methods.base import REGISTER, register
from nbsal.support.errors import ModelError
from nbsal.widgets.page.choices import offered_methods
from tests import axioms, packages
from tests.cases import cases
from tests.raising import refuses

PACKAGE = """
from dataclasses import dataclass, field
import torch
from nbsal.methods.base import Method, register
from nbsal.methods.cost import Cost

@register("token-length", family="baseline", needs={"forward"}, paper="none", cost=Cost(0), promise={"nonnegative"})
@dataclass(frozen=True)
class TokenLength(Method):
    scale: float = 1.0

    def scores(self, trace):
        rows = [[self.scale * len(token) for token in row.tokens] for row in trace.encoded]
        longest = trace.encoded.longest
        return torch.tensor([row + [0.0] * (longest - len(row)) for row in rows])

@register("needs-scale", family="baseline", needs={"forward"}, paper="none", cost=Cost(0), promise={"nonnegative"})
@dataclass(frozen=True)
class NeedsScale(TokenLength):
    scale: float = field()

@register("raises", family="baseline", needs={"forward"}, paper="none", cost=Cost(0), promise={"nonnegative"})
@dataclass(frozen=True)
class Raises(TokenLength):
    def __post_init__(self):
        raise RuntimeError("no licence")

@register("plain", family="baseline", needs={"forward"}, paper="none", cost=Cost(0), promise={"nonnegative"})
class Plain(Method):
    scores = TokenLength.scores

class Needs(TokenLength):
    name, needs = "needs", 3

class Free(TokenLength):
    name, cost = "free", "nothing"

class NoSettings(TokenLength):
    name = "no-settings"

    def parameters(self):
        return None

class Red(TokenLength):
    name = "\x1b[31mred"

NOTHING = 3
"""
ENTRIES = """
[nbsal.methods]
token-length = nbsal_extra:TokenLength
needs-scale = nbsal_extra:NeedsScale
raises = nbsal_extra:Raises
plain = nbsal_extra:Plain
renamed = nbsal_extra:TokenLength
no-method = nbsal_extra:NOTHING
broken = nbsal_lost:Method
exits = nbsal_exits:Method
gradcam = nbsal_extra:TokenLength
needs = nbsal_extra:Needs
free = nbsal_extra:Free
no-settings = nbsal_extra:NoSettings
\x1b[31mred = nbsal_extra:Red
"""
BROKEN = ("renamed", "no-method", "broken", "exits", "raises", "plain", "needs-scale", "needs", "free", "no-settings")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that offers methods, some of them broken."""
    packages.write(tmp_path, "nbsal_extra", PACKAGE, ENTRIES)
    (tmp_path / "nbsal_exits.py").write_text("raise SystemExit(7)")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.offered.cache_clear()
    yield
    for name in ("token-length", "\x1b[31mred", *BROKEN):
        REGISTER.pop(name, None)
    sys.modules.pop("nbsal_extra", None)
    monkeypatch.undo()
    plugins.offered.cache_clear()


@pytest.mark.filterwarnings("ignore")
def test_a_method_of_another_package_runs_by_name(installed, load):
    explain = nbsal.Explainer(load("bert"), "token-length", scale=2.0)
    saliency = explain("A warm joy.")
    assert list(saliency.scores) == [2 * len(token) for token in saliency.tokens]
    assert saliency.provenance["package"] == "nbsal-extra 1.0"
    assert saliency.about_target and saliency.to_html()
    axioms.batch_equals_singles(explain)
    many = nbsal.compare(load("bert"), ["gradcam", "token-length"], ["A joy."], progress=False)
    assert list(many) == ["gradcam", "token-length"]


@pytest.mark.filterwarnings("ignore")
@cases("name", BROKEN)
def test_a_broken_method_says_what_is_wrong(installed, load, name):
    assert name in catalogue.names()
    with refuses("method") as caught:
        nbsal.Explainer(load("bert"), name)
    assert caught.value.value == name


def test_broken_methods_leave_the_others_in_place(installed, load, capsys):
    with pytest.warns(UserWarning):
        table = catalogue.table()
    assert "token-length" in table.index and "gradcam" in table.index and not set(BROKEN) & set(table.index)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choices = offered_methods(nbsal.Explainer(load("bert"), "gradcam"))
    assert "token-length" in [choice["name"] for choice in choices]
    assert main(["methods"]) == 0 and "\x1b" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_a_method_without_defaults_runs_with_its_settings(installed, load):
    explain = nbsal.Explainer(load("bert"), "needs-scale", scale=2.0)
    saliency = explain("A warm joy.")
    assert list(saliency.scores) == [2 * len(token) for token in saliency.tokens] and saliency.to_html()
    assert "needs-scale" in [choice["name"] for choice in offered_methods(explain)]
    with refuses("tempo"):
        nbsal.Explainer(load("bert"), "needs-scale", tempo=1)
    with refuses("scale"):
        nbsal.Explainer(load("bert"), "needs-scale", scale="x")


WRONG_SCORES = [
    lambda scores: scores * float("nan"),
    lambda scores: scores[:, :1],
    lambda scores: scores[0],
    lambda scores: scores.numpy(),
    lambda scores: None,
]


@pytest.mark.filterwarnings("ignore")
@cases("wrong", WRONG_SCORES)
def test_scores_that_are_none_are_refused_where_a_method_returns(installed, load, wrong):
    """One finite number for each token; what stands at padding does not count."""
    explain = nbsal.Explainer(load("bert"), "token-length")
    kind, right = type(explain.method), type(explain.method).scores
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "scores", lambda self, trace: wrong(right(self, trace)))
        for call in (explain, lambda text: explain.map([text, "A long and warm joy."], progress=False)):
            with pytest.raises(ModelError) as caught:
                call("A joy.")
            assert caught.value.part == "scores"
            assert all(name in str(caught.value) for name in ("token-length", "A joy."))
        patch.setattr(kind, "scores", lambda self, trace: right(self, trace).where(right(self, trace) > 0, torch.nan))
        assert len(explain.map(["A joy.", "A long and warm joy."], progress=False)) == 2


def test_a_registered_name_cannot_be_taken():
    with refuses("name"):
        register("rollout", family="attention", needs=set(), paper="none")(type("Other", (nbsal.GradCAM,), {}))
    assert REGISTER["rollout"].__module__ == "nbsal.methods.attention"
