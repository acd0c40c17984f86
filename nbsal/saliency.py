"""Saliency: what an explanation says, one score a token, and every way to look at it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from nbsal.errors import InputError
from nbsal.model.tokens import Row, Span, Word
from nbsal.render import colours, fonts, html
from nbsal.validation import Text, loading

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

FORMAT = 1
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What one explanation of one text knows beside its scores."""

    row: Row
    target: str
    prediction: str
    probabilities: Floats
    method: str
    provenance: dict[str, Any]

    @property
    def text(self) -> Text:
        """The text as typed, or the pair."""
        return self.row.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens the model read, special ones included."""
        return self.row.tokens

    @property
    def offsets(self) -> tuple[Span, ...]:
        """Where each token stands in the text as typed."""
        return self.row.offsets

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of the text, each with its tokens."""
        return self.row.words

    @property
    def special(self) -> NDArray[np.bool_]:
        """Which tokens are special: scored, never ranked."""
        return np.array(self.row.special)

    def caption(self) -> str:
        """The decision in a line."""
        sure = float(self.probabilities.max()) if self.probabilities.ndim == 1 and self.probabilities.size else None
        said = self.prediction if sure is None else f"{self.prediction} ({sure:.1%})"
        why = "" if self.target == self.prediction else f", explained: {self.target}"
        return f"{said}{why} | {self.method}"

    def notes(self) -> list[str]:
        """What a reader must know to judge the picture."""
        model, dtype = self.provenance.get("model", ""), self.provenance.get("dtype", "")
        settings = ", ".join(
            f"{k}={v}" for k, v in self.provenance.get("parameters", {}).items() if v is not None and v is not False
        )
        lines = [f"{model}, {dtype}. {settings}".strip()]
        if self.row.dropped:
            lines.append(f"Cut: {self.row.dropped} tokens beyond the model's length were not read.")
        if self.provenance.get("windows", 1) > 1:
            lines.append(f"Read in {self.provenance['windows']} overlapping windows; scores are averaged over them.")
        if "gap" in self.provenance:
            gap, change = self.provenance["gap"], self.provenance["change"]
            lines.append(f"The scores sum to {change + gap:+.4g}; what they explain is a change of {change:+.4g}.")
        return lines


@dataclass(frozen=True, eq=False)
class Saliency(Explanation):
    """One score a token.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> explain("A warm and funny film.").top(1)["token"].item() in {"warm", "funny"}
    True
    """

    scores: Floats = field(default_factory=lambda: np.empty(0))
    tie_breaker: Floats = field(default_factory=lambda: np.empty(0))  # orders tokens of equal score

    @cached_property
    def order(self) -> list[int]:
        """Content tokens from the most to the least important: by score, then signed score, then position."""
        return sorted(self.row.content, key=lambda i: (-self.scores[i], -self.tie_breaker[i], i))

    def to_frame(self) -> "pandas.DataFrame":
        """One row a token."""
        import pandas

        starts, ends = zip(*self.offsets, strict=True)
        rank = {i: place for place, i in enumerate(self.order, 1)}
        return pandas.DataFrame(
            {
                "token": self.tokens,
                "score": self.scores,
                "rank": pandas.array([rank.get(i) for i in range(len(self.tokens))], dtype="Int64"),
                "special": self.special,
                "start": starts,
                "end": ends,
                "segment": self.row.segments,
            }
        )

    def by_word(self) -> "pandas.DataFrame":
        """One row a word: the sum of its tokens' scores."""
        import pandas

        rows = [(w.text, sum(self.scores[i] for i in w.tokens), w.start, w.end, w.segment) for w in self.words]
        return pandas.DataFrame(rows, columns=["word", "score", "start", "end", "segment"])

    def top(self, count: int = 5) -> "pandas.DataFrame":
        """The most important tokens, best first."""
        return self.to_frame().iloc[self.order[:count]]

    def scored_spans(self) -> list[list[html.ScoredSpan]]:
        """The text as typed, cut into scored stretches; a list for each member of a pair."""
        found = []
        for segment, text in enumerate(self.row.parts):
            places = [i for i in self.row.content if self.row.segments[i] == segment]
            tokens = ((*self.offsets[i], float(self.scores[i]), self.tokens[i]) for i in places)
            found.append(html.scored_spans(text, tokens, cut=self.row.dropped > 0))
        return found

    @property
    def largest(self) -> float:
        """The largest size of a content token's score: full colour."""
        return max(abs(float(self.scores[i])) for i in self.row.content)

    def to_html(self, page: bool = False) -> str:
        """The highlighted text as HTML that needs no scripts; `page` makes it a document of its own."""
        signed = bool((self.scores[list(self.row.content)] < 0).any())
        text = html.text_html(self.scored_spans(), self.largest)
        legend = f'<div style="font-size:80%">score {html.legend_html(self.largest, signed)}</div>'
        block = html.block_html(self.caption(), text + legend, self.notes())
        return html.page_html(self.caption(), block) if page else block

    def to_terminal(self, colours: bool = True) -> str:
        """The highlighted text for a terminal."""
        return f"{html.visible(self.caption())}\n{html.terminal(self.scored_spans(), self.largest, colours)}"

    def plot(self, ax: "Axes | None" = None, longest: int = 40) -> "Axes":
        """Bars for the words in reading order; of a longer text the `longest` most important ones."""
        from matplotlib import pyplot

        frame = self.by_word()
        count = len(frame)
        if count > longest:
            frame = frame.loc[sorted(frame["score"].abs().nlargest(longest).index)]
        if ax is None:
            _, ax = pyplot.subplots(figsize=(max(4.0, 0.32 * len(frame) + 1), 2.6), layout="constrained")
        hues = [colours.hex_colour(colours.FOR if s >= 0 else colours.AGAINST) for s in frame["score"]]
        hatches = ["" if s >= 0 else "///" for s in frame["score"]]
        ax.bar(range(len(frame)), frame["score"], color=hues, hatch=hatches)
        names = [html.label(word) for word in frame["word"]]
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
        ax.set_xticks(range(len(frame)), names, fontfamily=fonts.families("".join(names)), **slanted)
        ax.axhline(0, color="0.5", linewidth=0.8)
        ax.set_ylabel("score")
        if count > longest:
            ax.set_xlabel(f"the {longest} most important of {count} words")
        ax.set_title(html.visible(self.caption()), fontsize="medium", parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def save(self, path: str | Path) -> None:
        """Write it as JSON; `load` reads it back to the last bit."""
        stored = {name: getattr(self.row, name) for name in Row.__dataclass_fields__}
        content = {
            "nbsal": FORMAT,
            "row": stored,
            "target": self.target,
            "prediction": self.prediction,
            "method": self.method,
            "provenance": self.provenance,
            "dtype": str(self.scores.dtype),
            "probabilities": self.probabilities.tolist(),
            "scores": self.scores.tolist(),
            "signed": self.tie_breaker.tolist(),
        }
        Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Saliency":
        """Read what `save` wrote."""
        with loading(path, "saved Saliency"):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["nbsal"] != FORMAT:
                raise InputError(f"{path} was written in format {content['nbsal']}; this nbsal reads format {FORMAT}.")
            row = Row.restored(content["row"])
            dtype = np.dtype({"float32": np.float32, "float64": np.float64}[content["dtype"]])
            arrays: dict[str, Any] = {k: np.array(content[k], dtype) for k in ("probabilities", "scores", "signed")}
            if any(arrays[name].shape != (len(row),) for name in ("scores", "signed")):
                raise InputError(f"{path} does not hold one entry a token: it is damaged.")
            plain = {k: content[k] for k in ("target", "prediction", "method", "provenance")}
            if [type(value) for value in plain.values()] != [str, str, str, dict]:
                raise InputError(f"{path} does not say what was explained and how: it is damaged.")
            found = cls(row=row, **plain, **arrays)
            found.caption(), found.notes()  # what they say is read off the provenance
            return found

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        best = ", ".join(f"{self.tokens[i]} {self.scores[i]:+.3g}" for i in self.order[:3])
        return f"Saliency({self.caption()}: {best})"


@dataclass(frozen=True, eq=False)
class LayerSaliency(Explanation):
    """One score a layer and token: layer 0 is the embedding output, the last one the last block's output.

    >>> import nbsal
    >>> found = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.")
    >>> found.at(5).top(1)["token"].item()
    'joy'
    """

    scores: Floats = field(default_factory=lambda: np.empty((0, 0)))
    tie_breaker: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def at(self, layer: int) -> Saliency:
        """The explanation at one layer."""
        if layer not in range(len(self.scores)):
            raise InputError(f"There is no layer {layer}: layers run from 0 to {len(self.scores) - 1}.")
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
        """Layers by tokens."""
        import pandas

        index = pandas.RangeIndex(len(self.scores), name="layer")
        return pandas.DataFrame(self.scores, index=index, columns=pandas.Index(self.tokens, name="token"))

    def plot(self, ax: "Axes | None" = None, longest: int = 60) -> "Axes":
        """Layers by content tokens, each layer scaled to its own largest score; of a longer text the `longest` tokens
        that weigh most in any layer.
        """
        from matplotlib import pyplot
        from matplotlib.colors import LinearSegmentedColormap

        places = list(self.row.content)
        shown = self.scores[:, places]
        tops = np.abs(shown).max(1, keepdims=True)
        shown = np.divide(shown, tops, out=np.zeros_like(shown), where=tops > 0)
        count = len(places)
        if count > longest:
            kept = np.sort(np.argsort(-np.abs(shown).max(0), kind="stable")[:longest])
            places, shown = [places[i] for i in kept], shown[:, kept]
        if ax is None:
            size = (max(4.0, 0.3 * len(places) + 1.5), 0.3 * len(shown) + 1.4)
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        least = -1 if (shown < 0).any() else 0
        stops = [colours.hex_colour(hue) for hue in (colours.AGAINST, (255, 255, 255), colours.FOR)[least + 1 :]]
        colour_map = LinearSegmentedColormap.from_list("evidence", stops)
        image = ax.imshow(shown, aspect="auto", cmap=colour_map, vmin=least, vmax=1)
        names = [html.label(self.tokens[i]) for i in places]
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
        ax.set_xticks(range(len(places)), names, fontfamily=fonts.families("".join(names)), **slanted)
        ax.set_yticks(range(len(shown)))
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
        notes = ["Each layer is shaded by its own largest score.", *self.notes()]
        return html.block_html(self.caption(), f"<table><tr><th>layer</th></tr>{rows}</table>", notes)

    def __repr__(self) -> str:
        return f"LayerSaliency({self.caption()}: {len(self.scores)} layers, {len(self.tokens)} tokens)"


class Saliencies(Sequence[Saliency]):
    """Explanations in the order their texts were given."""

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
        of = f" of {', '.join(dict.fromkeys(one.method for one in self.items))}" if self.items else ""
        return f"Saliencies({len(self.items)}{of})"

    def to_frame(self) -> "pandas.DataFrame":
        """One row a token of every text; `text` numbers them."""
        import pandas

        if not self.items:
            names = "text position token score rank special start end segment prediction"
            return pandas.DataFrame(columns=names.split())
        frames = [saliency.to_frame().assign(prediction=saliency.prediction) for saliency in self.items]
        return pandas.concat(frames, keys=range(len(frames)), names=["text", "position"]).reset_index()

    def _repr_html_(self) -> str:
        shown = "".join(saliency.to_html() for saliency in self.items[:20])
        rest = len(self.items) - 20
        return shown + (f"<p>and {rest} more</p>" if rest > 0 else "")


class Comparison(dict[str, Saliencies]):
    """What several methods say of the same texts, by name."""

    def to_frame(self) -> "pandas.DataFrame":
        """One row a token of every text under every method."""
        import pandas

        frames = [found.to_frame().assign(method=name) for name, found in self.items()]
        frame = pandas.concat(frames, ignore_index=True)
        return frame[["method", *frame.columns.drop("method")]]
