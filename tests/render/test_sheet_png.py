"""Scored text as pictures: few artists draw the same pixels as one for each piece; and one look for each method."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from nbsal.methods.labels import look
from nbsal.render import colours, sheet_png
from nbsal.render.html import ScoredSpan
from nbsal.render.lettering import Run, break_lines
from nbsal.render.line_text import LineText
from nbsal.render.looks import RANDOM
from nbsal.render.sheet import Marked, Sheet
from tests.cases import cases

SPANS = [
    ScoredSpan("for ", 1.0),
    ScoredSpan("a \n\n b ", 0.4),
    ScoredSpan("gone", -0.7, struck=True),
    ScoredSpan(" against", -0.8),
    ScoredSpan(" hardly", -0.01),
    ScoredSpan(" ελληνικά", None),
]


def test_few_artists_draw_a_long_text():
    (ax,) = sheet_png.draw(Sheet("title", [Marked([SPANS * 8], 1.0)])).axes
    boxes, solid, dashed = ax.collections
    assert len(boxes.get_paths()) > 8 * 4 and not ax.patches and not ax.lines
    assert len(solid.get_paths()) == 8 and len(dashed.get_paths()) == 2 * 8, "a word that is struck; a space and a word"
    shades = {tuple(np.round(shade, 3)) for shade in boxes.get_facecolor()}
    assert max(shade[3] for shade in shades if shade[2] < 0.5) == pytest.approx(colours.STRONGEST, abs=1e-3)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_a_line_of_text_is_drawn_as_it_is_set(kind):
    def drawn(**settings):
        figure, file = Figure(), io.BytesIO()
        figure.add_artist(LineText(0.1, 0.5, "A joy.", **settings))
        figure.savefig(file, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
        return file.getvalue()

    pictures = [drawn(), drawn(alpha=0.5), drawn(color="red"), drawn(visible=False)]
    assert len(set(pictures)) == 4 and len(pictures[-1]) < min(map(len, pictures[:-1]))


def test_a_method_looks_the_same_in_every_variant_and_place_and_its_layers_differ():
    assert look("integrated@allennlp", 0) == look("integrated@thermostat", 3) == look("integrated", 9)
    assert look("gradcam", 4) == look("Grad-CAM") and look("Grad-CAM l3").colour == look("gradcam").colour
    assert look("random", 5).colour == RANDOM
    layers = [look(f"decoded Grad-CAM l{layer}") for layer in (3, 4, 5, 6)]
    assert len({one.colour for one in layers}) == 1 and len({one.line for one in layers}) == 4


@cases(
    "text, order",
    [
        ("I saw فيلم جيد today", "I saw جيد فيلم today"),
        ("قال John Smith نعم", "نعم John Smith قال"),
        ("فيلم 12 34 جيد", "جيد 34 12 فيلم"),
        ("a فيلم 12 34 b", "a 34 12 فيلم b"),
        ("film 12 جيد", "film 12 جيد"),
        ("הסרט (so good) טוב", "טוב (so good) הסרט"),
    ],
)
def test_words_of_two_directions_stand_in_the_order_of_their_scripts(text, order):
    placed = sorted(break_lines([[Run(text, 13)]], 1000), key=lambda piece: piece.left)
    assert " ".join(piece.run.text for piece in placed if not piece.run.text.isspace()) == order
    ends = [piece.left + piece.run.width for piece in placed]
    assert ends[:-1] == pytest.approx([piece.left for piece in placed[1:]]), "each begins where another ends"
