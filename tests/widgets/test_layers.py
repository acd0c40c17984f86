"""Layers shows every layer, chooses one without asking again, and takes results that are there already."""

import pytest

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.widgets import Highlight, Layers, wire
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(reviews):
    made = Layers(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT).wait()
    yield made
    made.close()


def test_every_layer_is_shown(view, reviews):
    said = nbsal.Explainer(reviews, "gradxact").every_layer(TEXT)
    assert (view.result.scores == said.scores).all()
    assert (view._scores, view._result["scales"]) == wire.scores(list(said.scores))
    assert view.layer == 3 and view.to_frame().shape == (7, len(said.tokens))


def test_choosing_a_layer_computes_nothing(view):
    before = view._rev
    from_page(view, layer=5)
    assert view.wait().layer == 5 and view._rev == before


def test_the_layer_leads_a_highlight(view, reviews):
    import ipywidgets

    other = Highlight(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT)
    ipywidgets.link((view, "layer"), (other, "layer"))
    from_page(view, layer=5)
    assert (other.wait().result.scores == view.result.scores[5]).all()


def test_selected_tokens_are_those_of_the_chosen_layer(view):
    seen = []
    view.on_select(seen.append)
    from_page(view, selection=[2])
    assert seen[0]["score"].tolist() == [view.result.scores[3, 2]]


def test_only_methods_with_layers_are_offered(view, reviews):
    names = [name for name, *_ in view._choices["methods"]]
    assert "decoded-gradcam" in names and "lrp" not in names
    with pytest.raises(UnknownName, match="'lrp'"):
        view.method = "lrp"
    with pytest.raises(UnknownName, match="'attcat'"):
        Layers(nbsal.Explainer(reviews, "attcat"), text=TEXT)


def test_a_plain_result_is_shown(reviews):
    found = nbsal.Explainer(reviews, "gradcam").every_layer(TEXT)
    assert Layers(found).wait().result is found
    with pytest.raises(InputError, match="LayerSaliency, not Saliency"):
        Layers(found.at(2))


def test_it_exports(view):
    assert view.to_png().startswith(b"\x89PNG")
    assert "funny" in view.to_html() and "funny" in view._repr_mimebundle_()[0]["text/html"]
