"""Parts of views that switch heads: the grid, the decision without the heads that are off, and one head's attention."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import HeadsOff
from nbsal.methods.lazy import MaskLRP, Subject, catalogue, trace
from nbsal.model.text.tokens import Row
from nbsal.render import colours, html
from nbsal.render.headline import ChangeRow, change_row, change_words, percent, phrases
from nbsal.render.sheet import Block, Grid, Heading, Note
from nbsal.support.arrays import Flags
from nbsal.support.errors import ModelError
from nbsal.support.validation import Text
from nbsal.widgets.cached_view import Panel, PanelJob
from nbsal.widgets.content.head_grid import SWITCH_INPUTS, HeadGrid, HeadSwitches, head_name
from nbsal.widgets.page import wire
from nbsal.widgets.page.last_value import LastValue

MAX_TOKENS = 512  # up to which a head's attention map is sent: its size is the square of this
MAX_WORDS = 40  # up to which an attention map is part of a page without scripts, and of a picture
MOST, MANY = 0.5, 0.3  # mean shares of attention from which a word is attended to "mostly" and "often"
UNMASKED = "the prediction uses all heads: they act on Mask-LRP only"
MAP_TOO_LONG = "The text is too long for a map of its attention."
SAVED = "This is a saved page: the attention of another head needs Python."
ZEROED = "x → y: the probability with all heads, and with the output of those that are off set to zero"

Probabilities = Sequence[tuple[str, float]]  # of classes
Weights = NDArray[np.float64]  # of attention, [query, key]


@dataclass(frozen=True)
class Without:
    """What the model predicts without some heads, and the probabilities of what it finds likeliest with them."""

    prediction: str
    probabilities: list[tuple[str, float]]


@dataclass(frozen=True)
class HeadEffect:
    """The decision without the heads that are off, and without the chosen head alone; None where it cannot be computed.

    `off` counts the heads that are off, of `total`.
    """

    off: int
    total: int
    without: Without | None = None
    alone: Without | None = None
    head: tuple[int, int] | None = None

    def heads_off(self, saliency: Saliency) -> HeadsOff | None:
        """What a headline says of the heads that are off; None if none is."""
        if self.without is None or not self.off:
            return None
        shares = dict(self.without.probabilities)
        of_prediction, of_target = shares.get(saliency.prediction), shares.get(saliency.target)
        return HeadsOff(self.off, self.total, self.without.prediction, of_prediction, of_target)

    def changes(self, probabilities: Probabilities) -> list[ChangeRow]:
        """The classes with all heads, and without those that are off."""
        after = {} if self.without is None else dict(self.without.probabilities)
        return [change_row(name, share, after[name]) for name, share in probabilities if name in after]

    def alone_text(self, prediction: str, probabilities: Probabilities) -> str:
        """What becomes of the prediction without the chosen head alone; "" if that is not known."""
        before, after = dict(probabilities), {} if self.alone is None else dict(self.alone.probabilities)
        if prediction not in before or prediction not in after:
            return ""
        first, second = change_words(before[prediction], after[prediction])
        return f"With this head alone off: {prediction} {first} \u2192 {second}"


@dataclass(frozen=True, eq=False)
class HeadAttention:
    """The attention of one head as bytes, [query, key]: shares of its largest weight `top`.

    `words` is the attention between `names`, which are words and special tokens with their `tokens`; `here` says what
    the head attends to.
    """

    head: tuple[int, int]
    shares: NDArray[np.uint8]
    top: float
    tokens: list[list[int]]
    names: list[str]
    words: Weights
    here: str

    def heading(self, habit: str, selection: Collection[int] = ()) -> str:
        """What the head is known for, and what it does in this text or from the words of selected tokens."""
        return f"{head_name(*self.head)}: {habit}; {self._attended(selection) or f'here {self.here}'}"

    def _attended(self, selection: Collection[int]) -> str:
        rows = [k for k, tokens in enumerate(self.tokens) if not set(tokens).isdisjoint(selection)]
        if not rows:
            return ""
        shares = self.words[rows].mean(0)
        best = int(shares.argmax())
        words = f"{len(rows)} words attend" if len(rows) > 1 else f"{self.names[rows[0]]} attends"
        return f"{words} most to {self.names[best]}, {percent(shares[best], 0)}"

    def blocks(self, habit: str) -> list[Block]:
        """The attention between the words, which are named on both axes."""
        heading = Heading(phrases(self.heading(habit)), "rows attend to columns")
        if len(self.names) > MAX_WORDS:
            return [heading, Note(f"The map of {len(self.names)} words is left out here.")]
        names, top = [html.label(name) for name in self.names], float(self.words.max()) or 1.0
        return [heading, Grid(names, names, (self.words / top).tolist(), hue=colours.GREY)]


class GridPanel(Panel):
    """The grid of heads as a part of a view."""

    depends_on: ClassVar[tuple[str, ...] | None] = SWITCH_INPUTS
    keeps_previous = True  # a grid that vanished at every click would lose the keyboard focus
    with_scores = True

    def __init__(self, switches: HeadSwitches) -> None:
        self._switches = switches

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> HeadGrid:
        return self._switches.grid(inputs)

    def publish(self, value: HeadGrid | None) -> dict[str, Any]:
        return {} if value is None else {"_heads": grid_traits(value)}


class EffectPanel(Panel):
    """The model's decision with the output of the heads that are off set to zero, and with that of one head alone."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "target", "method", "head", *SWITCH_INPUTS)
    with_scores = True  # the headline of the scores compares it with the decision

    def __init__(self, subject: Subject, switches: HeadSwitches) -> None:
        self._subject, self._switches = subject, switches
        self._without, self._alone = LastValue(), LastValue()

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> HeadEffect | None:
        if not masks_heads(inputs["method"]) or saliency.provenance.get("windows", 1) > 1:
            return None
        off = ~self._switches.mask(inputs).selected
        head = None if inputs["head"] is None else (inputs["head"][0], inputs["head"][1])
        key = [inputs["text"], inputs["target"]]
        without = _decision(saliency, self._subject, saliency.prediction, saliency.probabilities)
        if off.any():
            without = self._without.get([*key, off.tobytes()], lambda: self._decide(saliency, inputs, off))
        alone = None
        if head is not None:
            alone = self._alone.get([*key, head], lambda: self._decide(saliency, inputs, _single(off, head)))
        return HeadEffect(int(off.sum()), off.size, without, alone, head)

    def publish(self, value: HeadEffect | None) -> dict[str, Any]:
        return {}  # the view does, which has the probabilities with all heads

    def _decide(self, saliency: Saliency, inputs: dict[str, Any], off: Flags) -> Without | None:
        encoded = self._subject.encode(inputs["text"])
        try:
            (decision,) = trace.decide_without_heads(self._subject, encoded, [inputs["target"]], off)
        except ModelError:  # its attention is computed in some other way; the scores say so if they need it
            return None
        return _decision(saliency, self._subject, decision.label, decision.probabilities)


class AttentionPanel(Panel):
    """The attention map of the chosen head."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "head")

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._maps = LastValue()

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> HeadAttention | None:
        if inputs["head"] is None or len(saliency.row) > MAX_TOKENS:
            return None
        maps, largest = self._maps.get(inputs["text"], lambda: self._attention_maps(inputs["text"]))
        block, head = inputs["head"]
        top = float(largest[block, head])
        tokens, names, words = word_attention(maps[block, head] * (top / 255), saliency.row)
        here = mostly_attended(names, words)
        return HeadAttention((block, head), maps[block, head], top, tokens, names, words, here)

    def publish(self, value: HeadAttention | None) -> dict[str, Any]:
        return {"_attention": {} if value is None else attention_traits(value)}

    def _attention_maps(self, text: Text) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """The maps of all heads as shares of their largest weights, [block, head, query, key], and these weights."""
        maps = trace.record(self._subject, self._subject.encode(text), needs={"attention"}).attention
        shape = (self._subject.depth, *maps[0].shape[1:])
        shares, largest = np.empty(shape, np.uint8), np.empty(shape[:2])
        for block in range(self._subject.depth):
            weights = maps.pop(block)[0].float()  # one block at a time: all of them fill the memory several times over
            top = weights.amax((-1, -2), keepdim=True)
            shares[block] = (weights * 255).div_(top).round_().byte().cpu().numpy()
            largest[block] = top[:, 0, 0].cpu().numpy()
        return shares, largest


def masks_heads(method: str) -> bool:
    """Whether switching heads changes what a method says: only Mask-LRP and its variants read them."""
    return isinstance(catalogue.every_method().get(method), MaskLRP)


def word_attention(attention: Weights, row: Row) -> tuple[list[list[int]], list[str], Weights]:
    """The tokens and the names of words and special tokens in order, and the attention between them.

    The attention of a word is the mean of its tokens' attention, the attention to it the sum.
    """
    content = set(row.content)
    units = [(list(word.tokens), word.text) for word in row.words]
    units += [([i], name) for i, name in enumerate(row.tokens) if i not in content]
    units.sort()
    places = [tokens for tokens, _ in units]
    rows = np.stack([attention[tokens].mean(0) for tokens in places])
    return places, [name for _, name in units], np.stack([rows[:, tokens].sum(1) for tokens in places], 1)


def mostly_attended(names: list[str], words: Weights) -> str:
    """What a head attends to in a text, in a few words."""
    means = words.mean(0)
    best = int(means.argmax())
    if means[best] >= MOST:
        return f"mostly {names[best]}"
    offsets = words.argmax(1) - np.arange(len(words))
    values, counts = np.unique(offsets, return_counts=True)
    if counts.max() >= MOST * len(words) and len(words) > 2:
        return f"mostly {_place(int(values[counts.argmax()]))}"
    return f"often {names[best]}" if means[best] >= MANY else "spread over many words"


def grid_traits(grid: HeadGrid) -> dict[str, Any]:
    """A grid as the page reads it."""
    fields = {"kinds": "kind", "words": "words", "about": "about", "habits": "habit"}
    blocks, heads = map(range, grid.roles.shape)
    block_names, head_names = [f"Block {block}" for block in blocks], [f"head {head}" for head in heads]
    return {
        **{name: [[getattr(cell, own) for cell in row] for row in grid.cells] for name, own in fields.items()},
        "names": [block_names, head_names],
        "labels": grid.kind_labels(),
        "toggled": grid.toggled_label(),
        "count": grid.caption(),
        "thresholds": [] if grid.study is None else [percent(share / 100, 0) for share in range(101)],
        "saved": SAVED,
        "on": grid.initial.selected.astype(int).tolist(),
        "finding": grid.finding(),
        "studied": grid.study is not None,
        "named": bool(grid.named.any()),
    }


def effect_traits(effect: HeadEffect | None, prediction: str, probabilities: Probabilities) -> dict[str, Any]:
    """The effect of heads that are off as the page reads it."""
    if effect is None:
        return {}
    alone = effect.alone_text(prediction, probabilities)
    return {"off": effect.off, "changes": effect.changes(probabilities), "head": effect.head, "alone": alone}


def attention_traits(attention: HeadAttention) -> dict[str, Any]:
    """An attention map as the page reads it, a byte for each [query, key]."""
    return {
        "head": list(attention.head),
        "size": len(attention.shares),
        "top": attention.top,
        "map": attention.shares.tobytes(),
        "percentages": [percent(share / 100, 0) for share in range(101)],
    }


def _decision(saliency: Saliency, subject: Subject, label: str, probabilities: Any) -> Without:
    """A decision with the probabilities of what a view lists of the scores'."""
    names = [name for name, _ in wire.outcomes(saliency, subject)]
    places = wire.listed(saliency, subject.labels) if names else []
    return Without(label, [(name, float(probabilities[i])) for name, i in zip(names, places, strict=True)])


def _single(off: Flags, head: tuple[int, int]) -> Flags:
    """All heads on but one."""
    single = np.zeros_like(off)
    single[head] = True
    return single


def _place(offset: int) -> str:
    names = {0: "itself", -1: "the word before", 1: "the next word"}
    return names.get(offset) or f"{abs(offset)} words {'ahead' if offset > 0 else 'back'}"
