"""The Layers view: every layer is shown, one is chosen without computing again, and finished results are accepted."""

import pytest

import nbsal
from nbsal.errors import UnknownName
from nbsal.widgets import Highlight, Layers, wire
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(reviews):
    layers = Layers(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT).wait()
    yield layers
    layers.close()


def test_every_layer_is_shown(view, reviews):
    expected = nbsal.Explainer(reviews, "gradxact").every_layer(TEXT)
    assert (view.result.scores == expected.scores).all()
    assert view._scores == wire.scores(list(expected.scores))
    assert view.layer == 3 and view.to_frame().shape == (7, len(expected.tokens))


def test_choosing_a_layer_computes_nothing(view):
    before = view._rev
    from_page(view, layer=5)
    assert view.wait().layer == 5 and view._rev == before


def test_the_layer_can_be_linked_to_a_highlight(view, reviews):
    import ipywidgets

    other = Highlight(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT)
    ipywidgets.link((view, "layer"), (other, "layer"))
    from_page(view, layer=5)
    assert (other.wait().result.scores == view.result.scores[5]).all()


def test_selected_tokens_are_those_of_the_chosen_layer(view):
    selections = []
    view.on_select(selections.append)
    from_page(view, selection=[2])
    assert selections[0]["score"].tolist() == [view.result.scores[3, 2]]


def test_only_methods_with_layers_are_offered(view, reviews):
    names = [name for name, *_ in view._choices["methods"]]
    assert "decoded-gradcam" in names and "lrp" not in names
    with refuses("method", UnknownName):
        view.method = "lrp"
    with refuses("method", UnknownName):
        Layers(nbsal.Explainer(reviews, "attcat"), text=TEXT)


def test_a_finished_result_is_shown(reviews):
    layers = nbsal.Explainer(reviews, "gradcam").every_layer(TEXT)
    assert Layers(layers).wait().result is layers
    with refuses("source"):
        Layers(layers.at(2))


def test_it_exports(view):
    assert view.to_png().startswith(b"\x89PNG")
    assert "funny" in view.to_html() and "funny" in view._repr_mimebundle_()[0]["text/html"]
