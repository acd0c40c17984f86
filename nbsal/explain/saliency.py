"""Results of an explanation: one score for each token, and ways to read, plot, save and export them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from nbsal.explain.explained import Explanation, special_share, unchecked
from nbsal.explain.layer_sheet import SCALES, layers_sheet
from nbsal.explain.ranked import Ranked, Ranker, hidden_alone, part_names
from nbsal.explain.sentences.decision_facts import Check, DecisionFacts, HeadsOff
from nbsal.explain.sentences.statement import Statement, statement
from nbsal.explain.text_sheet import Probabilities, saliency_sheet
from nbsal.render import colours, fonts, html, sheet_html
from nbsal.render.exports import Exportable
from nbsal.render.sheet import Heading, Note, Sheet
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import Axes, pandas, pyplot
from nbsal.support.validation import checked, plural, positive_number

DISPLAYED = 20  # explanations that a notebook displays of many


@dataclass(frozen=True, eq=False)
@checked
class Saliency(Explanation):
    """The explanation of one text: `scores`, one for each of its `tokens`, of the `target` that they explain.

    Read it by `statement()`, `top()`, `by_word()`, `plot()` and `notes()`; keep it by `save` and `to_html`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> explain("A warm and funny film.").top(1)["token"].item() in {"warm", "funny"}
    True
    """

    noun = "Saliency"

    @cached_property
    def order(self) -> list[int]:
        """Positions of content tokens, most important first: by score, then by tie-breaker, then by position."""
        return sorted(self.row.content, key=lambda i: (-self.scores[i], -self.tie_breaker[i], i))

    @cached_property
    def word_order(self) -> list[int]:
        """Numbers of the words, most important first, by the sums of their tokens' scores and tie-breakers."""
        scores, ties = (
            [float(sum(values[i] for i in word.tokens)) for word in self.words]
            for values in (self.scores, self.tie_breaker)
        )
        return sorted(range(len(scores)), key=lambda k: (-scores[k], -ties[k], k))

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token, with its score and rank."""
        starts, ends = zip(*self.offsets, strict=True)
        ranks = {i: rank for rank, i in enumerate(self.order, 1)}
        return pandas.DataFrame(
            {
                "token": self.tokens,
                "score": self.scores,
                "rank": pandas.array([ranks.get(i) for i in range(len(self.tokens))], dtype="Int64"),
                "special": self.special,
                "start": starts,
                "end": ends,
                "segment": self.row.segments,
            }
        )

    def by_word(self) -> "pandas.DataFrame":
        """One row for each word; its score is the sum of its tokens' scores."""
        rows = [(w.text, sum(self.scores[i] for i in w.tokens), w.start, w.end, w.segment) for w in self.words]
        return pandas.DataFrame(rows, columns=["word", "score", "start", "end", "segment"])

    def top(self, count: int = 5) -> "pandas.DataFrame":
        """The `count` most important tokens, best first."""
        return self.to_frame().iloc[self.order[: positive_number(count, "count")]]

    @cached_property
    def word_scores(self) -> list[float]:
        """The score of each word: the sum of its tokens' scores."""
        scores = np.nan_to_num(self.scores)
        return [float(sum(scores[i] for i in word.tokens)) for word in self.words]

    @property
    def part_names(self) -> tuple[str, ...]:
        """What the parts of a text of several are called in sentences."""
        return part_names(self.row)

    def scored_words(self) -> list[tuple[str, float, int]]:
        """The text, the score and the part of each word."""
        return [(word.text, score, word.segment) for word, score in zip(self.words, self.word_scores, strict=True)]

    def ranked_words(self, count: int, level: str = "word") -> list[Ranked]:
        """The strongest words, for or against, as a list names them: equal words of a text are one, as in sentences."""
        return Ranker(self.row, level).strongest(self.known_scores, count)

    def rows(self) -> "list[Saliency]":
        """The explanations by row of scores: this one."""
        return [self]

    @property
    def check(self) -> Check | None:
        """What hiding its words does to the decision, if that was measured."""
        return self.checks.get(0)

    def effects(self) -> "pandas.DataFrame":
        if self.check is None:
            raise unchecked()
        return self.check.to_frame()

    def facts(self, target_probability: float | None = None, heads_off: HeadsOff | None = None) -> DecisionFacts:
        """The facts from which sentences are made; `target_probability` is that of another class that is explained.

        With `heads_off` the decision is compared with that without some heads.
        """
        named = self.target if self.target in self.decided else self.prediction
        return DecisionFacts(
            self.display_name(named),
            self.display_name(self.target),
            self.decided.get(named, self.confidence),
            target_probability,
            self.contrary,
            self.scored_words(),
            self.about_target,
            self.part_names,
            self.special_share(),
            heads_off,
            self.check,
            self.place,
            tuple((label, value) for label, value in self.decided.items() if label != named),
            self.method,
            unscored=bool(np.isnan(self.scores[list(self.row.content)]).all()),
        )

    def statement(self, target_probability: float | None = None, heads_off: HeadsOff | None = None) -> Statement:
        """What is said about the decision and its words, and how it was checked."""
        said = statement(self.facts(target_probability, heads_off))
        return replace(said, alone=hidden_alone(self.row, self.check)) if said.effects else said

    def scored_spans(self, level: str = "token") -> list[list[html.ScoredSpan]]:
        """The text as typed, cut at its tokens or words into spans with a score; one list for each text of a pair."""
        units = self._units(level)
        return [
            html.scored_spans(text, (unit for part, unit in units if part == segment), truncated=self.row.dropped > 0)
            for segment, text in enumerate(self.row.parts)
        ]

    def _units(self, level: str) -> list[tuple[int, tuple[int, int, float, str]]]:
        """The part, the start, the end, the score and the name of each token or word."""
        if level == "word":
            words = zip(self.words, self.word_scores, strict=True)
            return [(word.segment, (word.start, word.end, score, word.text)) for word, score in words]
        places = self.row.content
        scores = self.known_scores
        return [(self.row.segments[i], (*self.offsets[i], float(scores[i]), self.tokens[i])) for i in places]

    @property
    def largest(self) -> float:
        """The largest absolute score of a content token, which gets full colour."""
        return float(np.abs(self.known_scores[list(self.row.content)]).max())

    def sheet(
        self, level: str = "word", statement: Statement | None = None, classes: Probabilities | None = None
    ) -> Sheet:
        """What is said of the text, the text in colours and its strongest words; `statement` replaces what is said."""
        return saliency_sheet(self, level, statement, classes)

    def render_html(self, level: str = "word", statement: Statement | None = None) -> str:
        """The highlighted text as HTML without scripts; `statement` replaces the statement above it."""
        return sheet_html.render(self.sheet(level, statement))

    def _as_view(self, views: Any) -> Any:
        return views.Highlight(self)

    def special_share(self) -> float:
        """The share of all absolute scores that lies on special tokens."""
        return special_share(self.row, self.scores)

    def plot(self, ax: "Axes | None" = None, longest: int = 40) -> "Axes":
        """A bar chart of the words in reading order, or of the `longest` most important words of a longer text."""
        check_axes(ax)
        frame = self.by_word()
        count = len(frame)
        if count > longest:
            frame = frame.loc[sorted(frame["score"].abs().nlargest(longest).index)]
        if ax is None:
            _, ax = pyplot.subplots(figsize=(max(4.0, 0.32 * len(frame) + 1), 2.6), layout="constrained")
        hues = [colours.hex_colour(colours.FOR if s >= 0 else colours.AGAINST) for s in frame["score"]]
        hatches = ["" if s >= 0 else "///" for s in frame["score"]]
        ax.bar(range(len(frame)), frame["score"], color=hues, hatch=hatches)
        set_names(ax, frame["word"])
        ax.axhline(0, color="0.5", linewidth=0.8)
        ax.set_ylabel("score")
        if count > longest:
            ax.set_xlabel(f"the {longest} most important of {count} words")
        ax.set_title(html.visible(self.caption()), fontsize="medium", parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        best = ", ".join(f"{self.tokens[i]} {self.scores[i]:+.3g}" for i in self.order[:3])
        return html.visible(f"Saliency({self.caption()}: {best})")


@dataclass(frozen=True, eq=False)
@checked
class LayerSaliency(Explanation):
    """The explanation of one text at every layer, with scores of shape [layers, tokens].

    Layer 0 is the output of the embeddings, the last layer the output of the last block.

    >>> import nbsal
    >>> layers = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.")
    >>> layers.at(5).top(1)["token"].item()
    'joy'
    """

    noun, dimensions = "LayerSaliency", 2

    def rows(self) -> list[Saliency]:
        """The explanations of all layers."""
        return [self.at(layer) for layer in range(len(self.scores))]

    def at(self, layer: int) -> Saliency:
        """The explanation at one layer."""
        if layer not in range(len(self.scores)):
            raise UnknownName("layer", layer, range(len(self.scores)))
        settings = self.provenance["parameters"] | {"layer": layer}
        return Saliency(
            self.row,
            self.target,
            self.prediction,
            self.probabilities,
            self.method,
            self.provenance | {"parameters": settings},
            self.scores[layer],
            self.tie_breaker[layer],
            {0: self.checks[layer]} if layer in self.checks else {},
        )

    def statement(self) -> Statement:
        """The decision; `at(layer).statement()` says what the words of a layer do."""
        return statement(replace(self.at(0).facts(), words=(), check=None))

    def effects(self) -> "pandas.DataFrame":
        if not self.checks:
            raise unchecked()
        frames = {layer: check.to_frame() for layer, check in sorted(self.checks.items())}
        return pandas.concat(frames, names=["layer"]).reset_index("layer")

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each layer, one column for each token."""
        index = pandas.RangeIndex(len(self.scores), name="layer")
        return pandas.DataFrame(self.scores, index=index, columns=pandas.Index(self.tokens, name="token"))

    def plot(self, ax: "Axes | None" = None, longest: int = 60) -> "Axes":
        """A heat map of layers and content tokens, each layer scaled to its own largest score.

        If the text has more than `longest` tokens, only those with the largest scores in any layer are drawn.
        """
        check_axes(ax)
        places = list(self.row.content)
        shares = self.scores[:, places]
        largest = np.abs(shares).max(1, keepdims=True)
        shares = np.divide(shares, largest, out=np.zeros_like(shares), where=largest > 0)
        count = len(places)
        if count > longest:
            best = np.sort(np.argsort(-np.abs(shares).max(0), kind="stable")[:longest])
            places, shares = [places[i] for i in best], shares[:, best]
        if ax is None:
            size = (max(4.0, 0.3 * len(places) + 1.5), 0.3 * len(shares) + 1.4)
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        least = -1 if (shares < 0).any() else 0
        colour_map = colours.colour_map(*[colours.AGAINST, colours.WHITE, colours.FOR][least + 1 :])
        image = ax.imshow(shares, aspect="auto", cmap=colour_map, vmin=least, vmax=1)
        set_names(ax, [self.tokens[i] for i in places])
        ax.set_yticks(range(len(shares)))
        ax.set_ylabel("layer")
        if count > longest:
            ax.set_xlabel(f"the {longest} most important of {count} tokens")
        ax.set_title(html.visible(self.caption()), fontsize="medium", parse_math=False)
        ax.figure.colorbar(image, ax=ax, label="score / layer's largest")
        return ax

    def sheet(
        self,
        layer: int | None = None,
        level: str = "word",
        scale: str = "own",
        statement: Statement | None = None,
        classes: Probabilities | None = None,
    ) -> Sheet:
        """The text at a layer, by default the last, and every layer by words, or by tokens."""
        if scale not in SCALES:
            raise UnknownName("scale", scale, SCALES)
        layer = len(self.scores) - 1 if layer is None else layer
        return layers_sheet(self, layer, level, scale, statement, classes)

    def _page_title(self) -> str:
        return self.caption()

    def _as_view(self, views: Any) -> Any:
        return views.Layers(self)

    def __repr__(self) -> str:
        size = f"{len(self.scores)} layers, {plural(len(self.tokens), 'token')}"
        return html.visible(f"LayerSaliency({self.caption()}: {size})")


@checked
class Saliencies(Exportable, Sequence[Saliency]):
    """The explanations of several texts, in the order of the texts."""

    def __init__(self, items: Sequence[Saliency]) -> None:
        self.items = list(items)

    @overload
    def __getitem__(self, index: int) -> Saliency: ...
    @overload
    def __getitem__(self, index: slice) -> "Saliencies": ...
    def __getitem__(self, index: int | slice) -> "Saliency | Saliencies":
        return Saliencies(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(saliency.method for saliency in self.items))
        return f"Saliencies({len(self.items)} of {methods})" if methods else "Saliencies(0)"

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token of every text; the column `text` numbers the texts."""
        if not self.items:
            names = "text position token score rank special start end segment prediction"
            return pandas.DataFrame(columns=names.split())
        frames = [saliency.to_frame().assign(prediction=saliency.prediction) for saliency in self.items]
        return pandas.concat(frames, keys=range(len(frames)), names=["text", "position"]).reset_index()

    def sheet(self) -> Sheet:
        """The first explanations one below the other."""
        sheets, rest = [saliency.sheet() for saliency in self.items[:DISPLAYED]], len(self.items) - DISPLAYED
        blocks = [block for each in sheets for block in (*each.blocks, *map(Note, each.notes))]
        return Sheet(repr(self), blocks, [f"and {rest} more"] if rest > 0 else [])

    def _page_title(self) -> str:
        return repr(self)

    def _as_view(self, views: Any) -> Any:
        return views.Browse(self)

    def _repr_html_(self) -> str:
        return self.render_html()


class Comparison(Exportable, dict[str, Saliencies]):
    """The explanations of the same texts by several methods, by the name of the method."""

    def sheet(self) -> Sheet:
        """The explanations of each method below its name."""
        parts = [([Heading([("text", name)])], each.sheet()) for name, each in self.items()]
        blocks = [block for head, part in parts for block in (*head, *part.blocks, *map(Note, part.notes))]
        return Sheet(self._page_title(), blocks)

    def _page_title(self) -> str:
        return ", ".join(self)

    def _as_view(self, views: Any) -> Any:
        """The view Compare of two methods of one text, else Browse."""
        saliencies = [saliency for each in self.values() for saliency in each]
        return views.Compare(*saliencies) if len(self) == len(saliencies) == 2 else views.Browse(saliencies)

    def _repr_html_(self) -> str:
        return self.render_html()

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token of every text and method."""
        frames = [saliencies.to_frame().assign(method=name) for name, saliencies in self.items()]
        frame = pandas.concat(frames, ignore_index=True)
        return frame[["method", *frame.columns.drop("method")]]


def check_axes(ax: Any) -> None:
    if ax is not None and not hasattr(ax, "set_xticks"):
        raise InputError(f"ax must be matplotlib axes, not {ax!r:.60}.", argument="ax", value=ax)


def set_names(ax: "Axes", names: Iterable[str]) -> None:
    labels = [html.label(name) for name in names]
    ax.set_xticks(
        range(len(labels)),
        labels,
        fontfamily=fonts.families("".join(labels)),
        rotation=60,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
