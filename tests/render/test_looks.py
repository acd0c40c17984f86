"""One look for each method, wherever it is drawn."""

from base64 import b64decode, b64encode
from io import BytesIO

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from nbsal.evaluation.curve import Curve
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.figures import decoding_exhibits, decoding_saliency, mask_lrp, mask_lrp_exhibits, style
from nbsal.methods import catalogue
from nbsal.render.looks import METHODS, RANDOM, look
from tests import pictures
from tests.cases import cases

PAPERS = {
    "SST-2": ["decoded Grad-CAM l5", "Grad-CAM l0", *decoding_exhibits.ALLENNLP, "random"],
    "AG News": ["decoded Grad-CAM l5", "Grad-CAM l0", *decoding_exhibits.THERMOSTAT, "random"],
    "Mask-LRP": [mask_lrp_exhibits.OURS, *mask_lrp_exhibits.BASELINES, "random mask"],
}


def results_of(names, measures):
    """Results with a line of its own for each explainer."""
    points = [0.0, 0.25, 0.5, 0.75, 1.0]
    shape = np.linspace(0, 1, 5)[None, :, None] + np.zeros((1, 5, 4))
    curves = {
        (name, measure): Curve.from_values(points, shape + number, range(4))
        for number, name in enumerate(names)
        for measure in measures
    }
    return Results(MetricInfo(better=dict.fromkeys(measures, "high")), curves, ())


@cases("names", PAPERS.values())
def test_methods_of_one_figure_look_different(names):
    looks = [look(name) for name in names]
    assert len({(one.colour, one.line) for one in looks}) == len(names)


def test_a_method_looks_the_same_in_every_variant_and_place():
    assert look("integrated@allennlp", 0) == look("integrated@thermostat", 3) == look("integrated", 9)
    assert look("gradcam", 4) == look("Grad-CAM") and look("Grad-CAM l3").colour == look("gradcam").colour
    assert look("random", 5).colour == RANDOM
    assert {name for name in METHODS if name in catalogue.names()}, "they are names of the catalogue"


def test_layers_of_one_method_differ():
    layers = [look(f"decoded Grad-CAM l{layer}") for layer in (3, 4, 5, 6)]
    assert len({one.colour for one in layers}) == 1 and len({one.line for one in layers}) == 4


@pytest.mark.parametrize("names", PAPERS.values(), ids=PAPERS)
def test_a_published_picture_has_every_colour_of_its_legend(names):
    draw = mask_lrp.deletion_curves if "gae" in names else decoding_saliency.game_curves
    measures = ["aopc", "log-odds"] if "gae" in names else ["revealing", "hiding"]
    figure = draw(results_of(names, measures), names)
    legend = {line.get_label(): to_hex(line.get_color()) for line in figure.axes[0].lines}
    assert legend == {name: to_hex(look(name).colour) for name in names}
    picture = pictures.compress(b64encode(style.png_bytes(figure)).decode())
    pixels = np.asarray(Image.open(BytesIO(b64decode(picture))).convert("RGB")).reshape(-1, 3)
    seen = {tuple(colour) for colour in np.unique(pixels, axis=0).tolist()}
    for name, colour in legend.items():
        assert tuple(round(255 * part) for part in to_rgb(colour)) in seen, name
