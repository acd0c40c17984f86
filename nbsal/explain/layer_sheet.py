"""What is shown of an explanation at every layer: a text at one of them, a finding, and the layers by words."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from nbsal.explain.sentences.statement import Statement
from nbsal.explain.text_sheet import Probabilities, text_blocks
from nbsal.render.headline import Phrase, name_in_sentence, percent, phrases
from nbsal.render.html import label
from nbsal.render.sheet import Grid, Heading, Sheet
from nbsal.support.arrays import Floats
from nbsal.support.validation import plural

LISTED = 40  # words of a heat map that cannot be scrolled
LEVELS = ("word", "token")
SCALES = {"own": "each layer on its own scale", "shared": "one scale for all layers"}


def layers_sheet(
    layers: Any,
    layer: int,
    level: str = "word",
    scale: str = "own",
    statement: Statement | None = None,
    classes: Probabilities | None = None,
) -> Sheet:
    """The text at a layer, and every layer by words."""
    saliency = layers.at(layer)
    statement, largest = statement or saliency.statement(), LayerWords(layers, level).largest(layer, scale)
    text = text_blocks(saliency, saliency.scored_spans(level), statement, classes, largest, level)
    return Sheet(statement.text(), [*text, *layer_blocks(layers, layer, level, scale)], layers.notes())


def layer_blocks(layers: Any, layer: int, level: str = "word", scale: str = "own") -> tuple[Heading, Grid]:
    """The finding and every layer by words, or by tokens."""
    words = LayerWords(layers, level)
    listed = words.listed(LISTED)
    most = f" · the {len(listed)} strongest of {len(words.names)} {level}s" if len(listed) < len(words.names) else ""
    rows, tops = range(len(words.scores)), [words.largest(row, scale) or 1.0 for row in range(len(words.scores))]
    grid = Grid(
        [layer_name(row) for row in rows],
        [label(words.names[k]) for k in listed],
        [[float(words.scores[row, k]) / tops[row] for k in listed] for row in rows],
        layer,
        [place for place, (before, k) in enumerate(pairwise(listed), 1) if words.parts[before] != words.parts[k]],
        [words.remark(row) for row in rows],
        [
            [" · ".join([words.names[k], layer_name(row), words.cell(row, k) + words.of]) for k in listed]
            for row in rows
        ],
    )
    return Heading(LayerWords(layers).finding(), SCALES[scale] + most), grid


def layer_words(layers: Any) -> dict[str, Any]:
    """What the page says of the layers: the finding, and for words and tokens the cells and why rows are blank."""
    levels = {level: LayerWords(layers, level) for level in LEVELS}
    rows = range(len(layers.scores))
    return {
        "finding": levels["word"].finding(),
        "rows": [layer_name(row) for row in rows],
        "scales": SCALES,
        "levels": {
            level: {
                "of": words.of,
                "remarks": [words.remark(row) for row in rows],
                "cells": [[words.cell(row, k) for k in range(len(words.names))] for row in rows],
            }
            for level, words in levels.items()
        },
    }


def layer_name(layer: int) -> str:
    return f"layer {layer}" if layer else "embeddings"


class LayerWords:
    """The scores of words, or of tokens, at every layer: `scores` is [layer, word]."""

    def __init__(self, layers: Any, level: str = "word") -> None:
        self.level = level
        self._layers = layers
        texts = [layers.at(layer).scored_spans(level) for layer in range(len(layers.scores))]
        words = [(number, span) for number, part in enumerate(texts[0]) for span in part if span.score is not None]
        self.names = [span.text for _, span in words]
        self.parts = [number for number, _ in words]
        scores = [[span.score for part in text for span in part if span.score is not None] for text in texts]
        self.scores: Floats = np.array(scores, float).reshape(len(texts), -1)
        self.of = f" of that layer’s strongest {level}"

    @cached_property
    def _shares(self) -> Floats:
        """The scores relative to the largest of their layer."""
        largest = np.abs(self.scores).max(1, keepdims=True, initial=0.0)
        shares: Floats = np.divide(self.scores, largest, out=np.zeros_like(self.scores), where=largest > 0)
        return shares

    def largest(self, layer: int, scale: str = "own") -> float:
        """The score that has full colour in a layer."""
        scores = self.scores if scale == "shared" else self.scores[layer]
        return float(np.abs(scores).max(initial=0.0))

    def finding(self) -> list[Phrase]:
        """The word that is the strongest in most layers."""
        strongest: dict[str, tuple[int, list[int]]] = {}  # by the word in lower case: where it stands, in which rows
        for row, sizes in enumerate(np.abs(self.scores)):
            if sizes.max(initial=0.0) > 0:
                place = int(sizes.argmax())
                strongest.setdefault(self.names[place].lower(), (place, []))[1].append(row)
        if not strongest:
            return phrases(f"Every {self.level} scores 0 in every layer")
        place, rows = max(strongest.values(), key=lambda entry: len(entry[1]))
        if len(rows) == 1 < len(self.scores):
            return phrases(f"Each layer has a strongest {self.level} of its own")
        where = _places_in_sentence(rows, len(self.scores) - 1)
        return phrases(("word", name_in_sentence(self.names[place])), f" is the strongest {self.level} in {where}")

    def remark(self, layer: int) -> str:
        """Why no word of a layer has a score, or "" if one has."""
        if self.largest(layer):
            return ""
        content = set(self._layers.row.content)
        scores, names = self._layers.scores[layer], self._layers.row.tokens
        special = [name for i, name in enumerate(names) if i not in content and scores[i]]
        if not special:
            return "every token scores 0"
        why = ", which the model classifies" if layer == len(self.scores) - 1 and len(special) == 1 else ""
        return f"all of the score is on {', '.join(special[:3])}{why}"

    def cell(self, layer: int, word: int) -> str:
        """A score as a share of its layer's strongest word: "against, 55 %"."""
        share = float(self._shares[layer, word])
        return f"{'against, ' if share < 0 else ''}{percent(abs(share), 0)}"

    def listed(self, most: int) -> list[int]:
        """The strongest words of any layer, relative to the layer's largest score, in reading order."""
        best = np.argsort(-np.abs(self._shares).max(0, initial=0.0), kind="stable")[:most]
        return sorted(best.tolist())


def _places_in_sentence(rows: Sequence[int], depth: int) -> str:
    """Rows of the heat map, of which the first is the embeddings: "the embeddings and 3 of 6 layers"."""
    layers = sum(row > 0 for row in rows)
    every = f"{'both' if depth == 2 else f'all {depth}'} layers"
    of_layers = every if layers == depth > 1 else f"{layers} of {plural(depth, 'layer')}"
    return " and ".join(["the embeddings"] * (0 in rows) + [of_layers] * (layers > 0))
