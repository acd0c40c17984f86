"""Scored text as pictures: few artists draw the same pixels as one for each piece; and one look for each method."""

import io

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nbsal.methods.labels import look
from nbsal.render import colours, text_lines
from nbsal.render.html import ScoredSpan
from nbsal.render.line_text import LineText
from nbsal.render.looks import RANDOM
from nbsal.render.text_lines import LINE, MARGIN, ScoredText

SPANS = [
    ScoredSpan("for ", 1.0),
    ScoredSpan("a \n\n b ", 0.4),
    ScoredSpan("gone", -0.7, struck=True),
    ScoredSpan(" against", -0.8),
    ScoredSpan(" hardly", -0.01),
    ScoredSpan(" ελληνικά", None),
    ScoredSpan(" out ", None, struck=True),
]


def draw_marks_slowly(ax, pieces, largest):
    """A rectangle and a line for each piece."""
    for piece, top in pieces:
        left = MARGIN + piece.left
        place, size, ends = (left, top), (piece.width, LINE - 2), (left, left + piece.width)
        if piece.struck:
            style = {"facecolor": "0.96", "edgecolor": "0.82", "hatch": "////", "linewidth": 0}
            ax.add_artist(Rectangle(place, *size, **style))
            ax.plot(ends, [top + LINE / 2 - 1] * 2, color=text_lines.FAINT_TEXT, linewidth=0.8)
        elif piece.score is not None:
            (r, g, b), alpha = colours.colour(piece.score, largest)
            ax.add_artist(Rectangle(place, *size, facecolor=(r / 255, g / 255, b / 255, alpha), edgecolor="none"))
            if piece.score < 0 and alpha >= colours.FAINT:
                ax.plot(ends, [top + LINE - 2.5] * 2, ":", color=(r / 255, g / 255, b / 255), linewidth=1)


def test_few_artists_draw_the_pixels_of_many(monkeypatch):
    def pixels():
        figure = text_lines.draw([ScoredText("title", [SPANS * 8, SPANS], 1.0, legend=True)], notes=["a note"])
        return image.imread(io.BytesIO(text_lines.png(figure)))

    few = pixels()
    monkeypatch.setattr(text_lines, "_draw_marks", draw_marks_slowly)
    many = pixels()
    assert few.shape == many.shape and np.array_equal(few, many)
    monkeypatch.undo()
    (ax,) = text_lines.draw([ScoredText("title", [SPANS * 8], 1.0)]).axes
    assert len(ax.collections) == 4 and not ax.patches and not ax.lines


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
