"""Results of an explanation: one score for each token, and ways to read, plot, save and export them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from nbsal.errors import InputError, UnknownName
from nbsal.methods.labels import label_of
from nbsal.model.saved_files import check_format, numbers, read_json, reading
from nbsal.model.tokens import Row, Span, Word
from nbsal.render import colours, fonts, html
from nbsal.render.headline import HeadsOff, Outcome, Phrase, Weighed, headline, plain
from nbsal.validation import Text, checked, plural

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

NOTABLE_GAP = 0.05  # share of the explained change from which a completeness gap is marked
FORMAT = 1
TYPES = {"target": str, "prediction": str, "method": str, "provenance": dict}  # of the entries in a file
ARRAYS = ("probabilities", "scores", "tie_breaker")
DISPLAYED = 20  # explanations that a notebook displays of many
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
@checked
class Explanation:
    """What every explanation of a text records: scores, text and tokens, the decision, and how it was computed.

    `target` is what was explained, `prediction` what the model predicts, both by name; `provenance` records the model,
    the method and its settings.
    """

    row: Row
    target: str
    prediction: str
    probabilities: Floats
    method: str
    provenance: dict[str, Any]
    scores: Floats = field(default_factory=lambda: np.empty(0))
    tie_breaker: Floats = field(default_factory=lambda: np.empty(0))  # orders tokens of equal score

    dimensions = 1  # of the scores

    @property
    def text(self) -> Text:
        """The text, or the pair of texts, as typed."""
        return self.row.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that the model read, including special tokens."""
        return self.row.tokens

    @property
    def offsets(self) -> tuple[Span, ...]:
        """The start and end of each token in the text as typed."""
        return self.row.offsets

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of the text with the tokens of each."""
        return self.row.words

    @property
    def special(self) -> NDArray[np.bool_]:
        """True for special tokens, which have scores but are never ranked."""
        return np.array(self.row.special)

    def outcome(self) -> str:
        """The prediction with its confidence; values, and spans, have none."""
        probabilities = self.probabilities
        confidence = f" ({float(probabilities.max()):.1%})" if probabilities.ndim == 1 and probabilities.size else ""
        return f"{self.prediction}{confidence}"

    def caption(self) -> str:
        """The prediction with its confidence, the target if it differs, and the method, in one line."""
        target = "" if self.target == self.prediction else f", explained: {self.target}"
        return f"{self.outcome()}{target} | {self.method}"

    @property
    def about_target(self) -> bool:
        """Whether the scores depend on the target; assumed of methods that are not in the catalogue."""
        from nbsal.methods import catalogue, labels

        known = self.method in catalogue.names()
        return not known or labels.about_target(catalogue.create(self.method))

    def notes(self) -> list[str]:
        """What a reader must know to judge the scores: model, method, truncation, windows, completeness gap."""
        layer = self.provenance.get("parameters", {}).get("layer")
        place = f", layer {layer}" if isinstance(layer, int) else ""
        lines = [f"{self.provenance.get('model', '')} · {label_of(self.method)}{place}".removeprefix(" · ")]
        if self.row.dropped:
            dropped = plural(self.row.dropped, "token")
            lines.append(f"The text is longer than the model reads: the last {dropped} were not read.")
        if self.provenance.get("windows", 1) > 1:
            lines.append(f"Read in {self.provenance['windows']} overlapping windows, averaged.")
        if "gap" in self.provenance:
            gap, change = self.provenance["gap"], self.provenance["change"]
            warning = "▲ " if abs(gap) > NOTABLE_GAP * abs(change) else ""
            lines.append(f"{warning}the scores sum to {change + gap:+.3g}, the change they explain is {change:+.3g}")
        return lines

    def settings(self) -> str:
        """All settings of the method, and the precision, in one line."""
        parameters = self.provenance.get("parameters", {})
        settings = [f"{name}={value}" for name, value in parameters.items()]
        return ", ".join([self.method, *settings, str(self.provenance.get("dtype", ""))])

    def save(self, path: str | Path) -> None:
        """Save as JSON; `load` restores every number exactly."""
        if not np.isfinite(self.scores).all():
            message = "The scores contain NaN or infinity, which a file cannot hold."
            raise InputError(message, argument="scores", value=self.scores)
        content = {
            "nbsal": FORMAT,
            "row": {name: getattr(self.row, name) for name in Row.__dataclass_fields__},
            **{name: getattr(self, name) for name in TYPES},
            "dtype": str(self.scores.dtype),
            **{name: getattr(self, name).tolist() for name in ARRAYS},
        }
        Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load what `save` wrote."""
        with reading(path, f"saved {cls.__name__}"):
            content = read_json(path)
            check_format(path, content["nbsal"], FORMAT)
            row = Row.from_dict(content["row"])
            dtype = {"float32": np.float32, "float64": np.float64}[content["dtype"]]
            arrays: dict[str, Any] = {name: numbers(content[name], dtype) for name in ARRAYS}
            shape, ties = arrays["scores"].shape, arrays["tie_breaker"].shape
            if len(shape) != cls.dimensions or shape[-1] != len(row) or shape != ties:
                raise ValueError("the numbers of scores and tokens differ")
            names = {name: content[name] for name in TYPES}
            if any(type(names[name]) is not kind for name, kind in TYPES.items()):
                raise ValueError("the target, the prediction, the method or the provenance has the wrong type")
            explanation = cls(row=row, **names, **arrays)
            if type(explanation.provenance["parameters"]) is not dict:
                raise ValueError("the settings of the method have the wrong type")
            explanation.caption(), explanation.notes()  # fail now, not later, on provenance with wrong values
            return explanation


@dataclass(frozen=True, eq=False)
@checked
class Saliency(Explanation):
    """The explanation of one text, with one score for each token.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> explain("A warm and funny film.").top(1)["token"].item() in {"warm", "funny"}
    True
    """

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
        import pandas

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
        import pandas

        rows = [(w.text, sum(self.scores[i] for i in w.tokens), w.start, w.end, w.segment) for w in self.words]
        return pandas.DataFrame(rows, columns=["word", "score", "start", "end", "segment"])

    def top(self, count: int = 5) -> "pandas.DataFrame":
        """The `count` most important tokens, best first."""
        return self.to_frame().iloc[self.order[:count]]

    def weighed_words(self) -> list[Weighed]:
        """The words with their scores, as the headline names them."""
        return [Weighed(w.text, float(sum(self.scores[i] for i in w.tokens)), w.segment) for w in self.words]

    def headline(self, target_probability: float | None = None, heads_off: HeadsOff | None = None) -> list[Phrase]:
        """The decision in one sentence, in pieces; `target_probability` is that of another class that is explained.

        With `heads_off` it is compared with the decision without some heads.
        """
        probabilities = self.probabilities
        known = probabilities.ndim == 1 and probabilities.size > 0
        outcome = Outcome(
            self.prediction,
            self.target,
            float(probabilities.max()) if known else None,
            target_probability,
            self.about_target,
            len(self.row.parts),
            heads_off,
        )
        return headline(outcome, self.weighed_words())

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
            scores = [float(sum(self.scores[i] for i in word.tokens)) for word in self.words]
            return [(w.segment, (w.start, w.end, score, w.text)) for w, score in zip(self.words, scores, strict=True)]
        places = self.row.content
        return [(self.row.segments[i], (*self.offsets[i], float(self.scores[i]), self.tokens[i])) for i in places]

    @property
    def largest(self) -> float:
        """The largest absolute score of a content token, which gets full colour."""
        return max(abs(float(self.scores[i])) for i in self.row.content)

    def to_html(self, page: bool = False, level: str = "word", sentence: Sequence[Phrase] = ()) -> str:
        """The highlighted text as HTML without scripts; `page` makes it a complete document.

        `sentence` replaces the headline.
        """
        parts, sentence = self.scored_spans(level), sentence or self.headline()
        scores = [span.score for part in parts for span in part if span.score is not None]
        body = [
            html.headline_html(sentence),
            html.text_html(parts, html.largest_score(parts)),
            html.legend_html(min(scores, default=0.0) < 0),
            html.share_html(self.special_share()),
            html.ranking_html([(word.text, word.score) for word in self.weighed_words()]),
        ]
        block = html.block_html(plain(sentence), "".join(body), self.notes(), titled=False)
        return html.page_html(plain(sentence), block) if page else block

    def special_share(self) -> float:
        """The share of all absolute scores that lies on special tokens."""
        sizes = np.abs(self.scores)
        total = float(sizes.sum())
        return float(sizes[self.special].sum()) / total if total else 0.0

    def to_terminal(self, colours: bool = True) -> str:
        """The highlighted text for a terminal, with escape codes or with scores in brackets."""
        return f"{html.visible(self.caption())}\n{html.terminal(self.scored_spans(), self.largest, colours)}"

    def plot(self, ax: "Axes | None" = None, longest: int = 40) -> "Axes":
        """A bar chart of the words in reading order, or of the `longest` most important words of a longer text."""
        from matplotlib import pyplot

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
        _set_names(ax, frame["word"])
        ax.axhline(0, color="0.5", linewidth=0.8)
        ax.set_ylabel("score")
        if count > longest:
            ax.set_xlabel(f"the {longest} most important of {count} words")
        ax.set_title(html.visible(self.caption()), fontsize="medium", parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        best = ", ".join(f"{self.tokens[i]} {self.scores[i]:+.3g}" for i in self.order[:3])
        return f"Saliency({self.caption()}: {best})"


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

    dimensions = 2

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
        )

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each layer, one column for each token."""
        import pandas

        index = pandas.RangeIndex(len(self.scores), name="layer")
        return pandas.DataFrame(self.scores, index=index, columns=pandas.Index(self.tokens, name="token"))

    def plot(self, ax: "Axes | None" = None, longest: int = 60) -> "Axes":
        """A heat map of layers and content tokens, each layer scaled to its own largest score.

        Of a longer text, it shows the `longest` tokens with the largest scores in any layer.
        """
        from matplotlib import pyplot
        from matplotlib.colors import LinearSegmentedColormap

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
        stops = [colours.hex_colour(hue) for hue in (colours.AGAINST, (255, 255, 255), colours.FOR)[least + 1 :]]
        colour_map = LinearSegmentedColormap.from_list("evidence", stops)
        image = ax.imshow(shares, aspect="auto", cmap=colour_map, vmin=least, vmax=1)
        _set_names(ax, [self.tokens[i] for i in places])
        ax.set_yticks(range(len(shares)))
        ax.set_ylabel("layer")
        if count > longest:
            ax.set_xlabel(f"the {longest} most important of {count} tokens")
        ax.set_title(html.visible(self.caption()), fontsize="medium", parse_math=False)
        ax.figure.colorbar(image, ax=ax, label="score / layer's largest")
        return ax

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:right;vertical-align:top">{layer}</th>'
            f"<td>{html.text_html(self.at(layer).scored_spans(), self.at(layer).largest)}</td></tr>"
            for layer in range(len(self.scores))
        )
        notes = ["Colours are relative to the largest score of each layer.", *self.notes()]
        return html.block_html(self.caption(), f"<table><tr><th>layer</th></tr>{rows}</table>", notes)

    def __repr__(self) -> str:
        return f"LayerSaliency({self.caption()}: {len(self.scores)} layers, {plural(len(self.tokens), 'token')})"


@checked
class Saliencies(Sequence[Saliency]):
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

    def __iter__(self) -> Iterator[Saliency]:
        return iter(self.items)

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(saliency.method for saliency in self.items))
        return f"Saliencies({len(self.items)} of {methods})" if methods else "Saliencies(0)"

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token of every text; the column `text` numbers the texts."""
        import pandas

        if not self.items:
            names = "text position token score rank special start end segment prediction"
            return pandas.DataFrame(columns=names.split())
        frames = [saliency.to_frame().assign(prediction=saliency.prediction) for saliency in self.items]
        return pandas.concat(frames, keys=range(len(frames)), names=["text", "position"]).reset_index()

    def _repr_html_(self) -> str:
        blocks = "".join(saliency.to_html() for saliency in self.items[:DISPLAYED])
        rest = len(self.items) - DISPLAYED
        return blocks + (f"<p>and {rest} more</p>" if rest > 0 else "")


class Comparison(dict[str, Saliencies]):
    """The explanations of the same texts by several methods, by the name of the method."""

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each token of every text and method."""
        import pandas

        frames = [saliencies.to_frame().assign(method=name) for name, saliencies in self.items()]
        frame = pandas.concat(frames, ignore_index=True)
        return frame[["method", *frame.columns.drop("method")]]


def check_axes(ax: Any) -> None:
    """Refuse what is no panel of a figure."""
    if ax is not None and not hasattr(ax, "set_xticks"):
        raise InputError(f"ax must be matplotlib axes, not {ax!r:.60}.", argument="ax", value=ax)


def _set_names(ax: "Axes", names: Iterable[str]) -> None:
    """Label the columns of a plot with words or tokens."""
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
