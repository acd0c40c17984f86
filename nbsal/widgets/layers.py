"""The Layers view: a text at one layer beside a heat map of all layers by words, in which a row chooses the layer."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import traitlets

from nbsal.explain.explained import Floats
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.explain.scoring.running import SpanSaliency
from nbsal.render import colours, html, text_lines
from nbsal.render.headline import name_in_sentence, percent
from nbsal.render.text_lines import ScoredText
from nbsal.support.errors import InputError
from nbsal.support.lazy import Axes, pandas
from nbsal.support.validation import plural
from nbsal.widgets.cached_view import Panel, PanelJob
from nbsal.widgets.content.legends import legends
from nbsal.widgets.explainer_view import ExplainerView, with_settings
from nbsal.widgets.highlight import text_html
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.html_export import asset

LISTED = 40  # words of a static heat map
CELL = 0.24  # inches of a cell in a picture
TOO_LONG = "The text is longer than the model reads at once; layers need a shorter one."


class Layers(ExplainerView):
    """One explanation at every layer, from one forward and one backward pass; or a finished LayerSaliency.

    The explanation of a part of a reply, `answer.of(...)`, is explained at every layer.

    `layer` is the chosen row, which is also shown as text; link it to the layer of a Highlight. `scale` "own" colours
    each layer up to its own largest score, "shared" all of them up to the largest of all.

    >>> import nbsal
    >>> view = Layers(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.")
    >>> view.wait().to_frame().shape
    (7, 5)
    """

    inputs = ("text", "method", "target", "tau")
    accepts = (LayerSaliency,)
    layer_methods_only = True
    live_name = "layers"
    omitted_steps = ("layers",)
    _esm = asset("layers.js")
    _css = asset("layers.css")

    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        if isinstance(source, SpanSaliency):
            layer = source.provenance["parameters"].get("layer")
            settings = {"layer": layer if isinstance(layer, int) else None} | settings
            source = source.every_layer()
        super().__init__(source, text, **settings)

    def as_explainer(self, source: Any) -> Explainer:
        explainer = super().as_explainer(source)
        return explainer.for_layers if explainer.is_default else explainer

    @property
    def chosen(self) -> int:
        """The layer on display; of a finished result the last one, unless another is chosen."""
        return self.row_of(self.result)

    def row_of(self, result: Any) -> int:
        last = len(result.scores) - 1
        return last if self.layer is None else min(int(self.layer), last)

    @traitlets.observe("layer")
    def _check_layer(self, change: Any) -> None:
        """Check what is said of another layer, once it is chosen."""
        if self.status == "ready" and self.result is not None:
            self._start_follow_up(self.result)

    def explain(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> LayerSaliency:
        if explainer.windowed(explainer.subject.encode(inputs["text"])[0]):
            raise InputError(TOO_LONG, argument="text", value=inputs["text"])
        return explainer.every_layer(inputs["text"], inputs["target"])

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        return self.with_first_check(self.explain(explainer, inputs, job), explainer, inputs, job)

    def selected(self) -> "pandas.DataFrame":
        return self._selected_rows(self.result.at(self.chosen).to_frame())

    def shown_frame(self) -> "pandas.DataFrame":
        words = LayerWords(self.result, self.level)
        return pandas.DataFrame(words.scores, columns=words.names).rename_axis("layer").reset_index()

    def render_html(self) -> str:
        saliency = self.result.at(self.chosen)
        parts, statement = saliency.scored_spans(self.level), self.statement
        body = [
            text_html(statement, parts, self._largest()),
            html.share_html(saliency.special_share()),
            layers_html(self.result, self.chosen, self.level, self.scale),
        ]
        return html.block_html(statement.text(), "".join(body), self.result.notes(), titled=False)

    def render_png(self) -> bytes:
        saliency = self.result.at(self.chosen)
        text = ScoredText(self.statement.text(), saliency.scored_spans(self.level), self._largest(), legend=True)
        return heatmap_png(self.result, self.chosen, self.level, self.scale, [text], self.statement.notes)

    def _largest(self) -> float:
        """The score with full colour in the text."""
        return LayerWords(self.result, self.level).largest(self.chosen, self.scale)


class LayersPanel(Panel):
    """The scores of every layer as a part of another view, or the reason why there are none."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "method", "target", "tau")

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> LayerSaliency | str:
        explainer = with_settings(self._explainer, inputs)
        explainer = explainer.for_layers
        if len(saliency.row) > explainer.subject.max_length:
            return TOO_LONG
        return explainer.every_layer(inputs["text"], inputs["target"])

    def publish(self, value: LayerSaliency | str | None) -> dict[str, Any]:
        if not isinstance(value, LayerSaliency):
            return {"_layers": {"why": value} if value else {}}
        statements = [saliency.statement().to_json() for saliency in value.rows()]
        notes = [saliency.notes()[0] for saliency in value.rows()]
        shown = {"statements": statements, "notes": notes, "legends": legends(value.row, value.scores)}
        return {"_layers": shown | {"scores": wire.scores(list(value.scores))}}


class LayerWords:
    """The scores of words, or of tokens, at every layer: `scores` is [layer, word]."""

    def __init__(self, layers: LayerSaliency, level: str = "word") -> None:
        self.level = level
        self._layers = layers
        texts = [layers.at(layer).scored_spans(level) for layer in range(len(layers.scores))]
        words = [(number, span) for number, part in enumerate(texts[0]) for span in part if span.score is not None]
        self.names = [span.text for _, span in words]
        self.parts = [number for number, _ in words]
        scores = [[span.score for part in text for span in part if span.score is not None] for text in texts]
        self.scores: Floats = np.array(scores, float).reshape(len(texts), -1)

    def largest(self, layer: int, scale: str = "own") -> float:
        """The score that has full colour in a layer."""
        scores = self.scores if scale == "shared" else self.scores[layer]
        return float(np.abs(scores).max(initial=0.0))

    def finding(self) -> tuple[str, str]:
        """The word that is the strongest in most layers, or "", and what is said about it."""
        sizes = np.abs(self.scores)
        strongest: dict[str, tuple[int, list[int]]] = {}  # by the word in lower case: where it stands, in which rows
        for number, row in enumerate(sizes):
            if row.max(initial=0.0) > 0:
                place = int(row.argmax())
                strongest.setdefault(self.names[place].lower(), (place, []))[1].append(number)
        if not strongest:
            return "", f"Every {self.level} scores 0 in every layer"
        place, rows = max(strongest.values(), key=lambda entry: len(entry[1]))
        if len(rows) == 1 < len(sizes):
            return "", f"Each layer has a strongest {self.level} of its own"
        where = _places_in_sentence(rows, len(sizes) - 1)
        return name_in_sentence(self.names[place]), f" is the strongest {self.level} in {where}"

    def blank_words(self, layer: int) -> str:
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

    def describe(self, layer: int, word: int) -> str:
        """A score in words: "warm · layer 5 · 55 % of that layer's strongest word"."""
        score = float(self.scores[layer, word])
        share = percent(abs(score) / (self.largest(layer) or 1.0), 0)
        if blank := self.blank_words(layer):
            return f"{self.names[word]} · {layer_name(layer)} · {blank}"
        against = "against, " if score < 0 else ""
        return f"{self.names[word]} · {layer_name(layer)} · {against}{share} of that layer’s strongest {self.level}"

    def listed(self, most: int) -> list[int]:
        """The strongest words of any layer, relative to the layer's largest score, in reading order."""
        sizes = np.abs(self.scores)
        shares = np.divide(sizes, sizes.max(1, keepdims=True), out=np.zeros_like(sizes), where=sizes > 0)
        best = np.argsort(-shares.max(0, initial=0.0), kind="stable")[:most]
        return sorted(best.tolist())


def _places_in_sentence(rows: Sequence[int], depth: int) -> str:
    """Rows of the heat map, of which the first is the embeddings: "the embeddings and 3 of 6 layers"."""
    layers = sum(row > 0 for row in rows)
    every = f"{'both' if depth == 2 else f'all {depth}'} layers"
    of_layers = every if layers == depth > 1 else f"{layers} of {plural(depth, 'layer')}"
    return " and ".join(["the embeddings"] * (0 in rows) + [of_layers] * (layers > 0))


def layer_name(layer: int) -> str:
    return f"layer {layer}" if layer else "embeddings"


def layers_html(layers: LayerSaliency, chosen: int, level: str = "word", scale: str = "own") -> str:
    """The finding and every layer by words, as a table with coloured cells."""
    words = LayerWords(layers, level)
    listed = words.listed(LISTED)
    word, rest = LayerWords(layers).finding()  # sentences name words, not tokens
    head = "".join(_column_html(words.names[k], _gap(words, listed, k)) for k in listed)
    rows = "".join(_row_html(words, layer, listed, layer == chosen, scale) for layer in range(len(words.scores)))
    note = "each layer on its own scale" if scale == "own" else "one scale for all layers"
    if len(listed) < len(words.names):
        note += f" · the {len(listed)} strongest of {len(words.names)} {level}s"
    return (
        f'<div style="margin:12px 0 2px"><b><i>{html.escape(word)}</i>{html.escape(rest)}</b></div>'
        f'<div style="{html.SMALL}">{note}</div>'
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:80%;margin:4px 0">'
        f"<tr><td></td>{head}</tr>{rows}</table></div>"
    )


def heatmap_png(
    layers: LayerSaliency,
    chosen: int,
    level: str,
    scale: str,
    texts: Sequence[ScoredText] = (),
    notes: Sequence[str] = (),
) -> bytes:
    """The finding and every layer by words, below texts, as PNG."""
    words = LayerWords(layers, level)
    listed = words.listed(LISTED)
    longest = max((len(html.label(words.names[k])) for k in listed), default=0)
    head, tall, wide = 0.08 * longest + 0.45, CELL * len(words.scores), CELL * len(listed)
    width = max(text_lines.WIDTH, wide + 1.3)
    figure = text_lines.draw(
        texts, width=width, notes=[*notes, *layers.notes()] if texts else (), below=head + tall + 0.1
    )
    height = figure.get_size_inches()[1]
    ax = figure.add_axes((1.0 / width, 0.1 / height, wide / width, tall / height))
    _draw_heatmap(ax, words, listed, chosen, scale)
    finding = "".join(LayerWords(layers).finding())
    figure.text(8 / 72 / width, (0.1 + tall + head - 0.1) / height, finding, va="top", fontsize=9, weight="bold")
    return text_lines.png(figure)


def _draw_heatmap(ax: "Axes", words: LayerWords, listed: list[int], chosen: int, scale: str) -> None:
    pixels = np.ones((len(words.scores), max(len(listed), 1), 4))
    for layer in range(len(words.scores)):
        for place, k in enumerate(listed):
            score = float(words.scores[layer, k])
            hue, alpha = colours.colour(score, words.largest(layer, scale))
            pixels[layer, place] = [*(1 - (1 - channel / 255) * alpha for channel in hue), 1.0]
            if score < 0 and alpha >= colours.FAINT:
                line = place - 0.4, place + 0.4
                ax.plot(line, [layer + 0.38] * 2, "--", color=colours.hex_colour(colours.AGAINST), linewidth=1)
        ax.text(-0.4, layer, html.label(words.blank_words(layer), 60), va="center", fontsize=7, parse_math=False)
    ax.imshow(pixels, aspect="auto")
    ax.set_xticks(range(len(listed)), [html.label(words.names[k]) for k in listed], rotation=90, fontsize=8)
    ax.set_yticks(range(len(words.scores)), [layer_name(layer) for layer in range(len(words.scores))], fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xticks(np.arange(len(listed) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(words.scores) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="minor", length=0)
    for place, (before, k) in enumerate(pairwise(listed)):
        if words.parts[before] != words.parts[k]:
            ax.axvline(place + 0.5, color="white", linewidth=5)
    ax.hlines([chosen - 0.5, chosen + 0.5], -0.5, len(listed) - 0.5, color="black", linewidth=1.2)
    ax.get_yticklabels()[chosen].set_fontweight("bold")


def _gap(words: LayerWords, listed: Sequence[int], word: int) -> str:
    """The room before a word: the second text of a pair begins after a gap."""
    begins = any(k == word and words.parts[k] != words.parts[before] for before, k in pairwise(listed))
    return "12px" if begins else "0"


def _column_html(name: str, gap: str) -> str:
    style = "writing-mode:vertical-rl;transform:rotate(180deg);max-height:9em;overflow:hidden;white-space:nowrap"
    place = f"border:0;padding:0 2px 0 {gap};vertical-align:bottom;text-align:center;font-weight:normal"
    return f'<th style="{place}"><div style="{style}">{html.escape(html.label(name))}</div></th>'


def _row_html(words: LayerWords, layer: int, listed: list[int], chosen: bool, scale: str) -> str:
    name = f"<b>{layer_name(layer)}</b>" if chosen else layer_name(layer)
    band = "border-top:1px solid;border-bottom:1px solid" if chosen else "border:0"
    cells = "".join(_cell_html(words, layer, k, scale, _gap(words, listed, k)) for k in listed)
    if blank := words.blank_words(layer):
        cells = (
            f'<td colspan="{max(len(listed), 1)}" style="border:0;height:18px;{html.SMALL}">{html.escape(blank)}</td>'
        )
    return (
        f'<tr style="{band};background:none"><th style="border:0;padding:0 8px 0 0;text-align:right;'
        f'font-weight:normal;white-space:nowrap">{name}</th>{cells}</tr>'
    )


def _cell_html(words: LayerWords, layer: int, word: int, scale: str, gap: str) -> str:
    score = float(words.scores[layer, word])
    (r, g, b), alpha = colours.colour(score, words.largest(layer, scale))
    line = f"border-bottom:2px dashed rgb({r},{g},{b})" if score < 0 and alpha >= colours.FAINT else "border:0"
    shade = f"background-color:rgba({r},{g},{b},{alpha:.3f})"
    box = f"{shade};{line};box-sizing:border-box;width:20px;height:18px"
    tip = html.escape(words.describe(layer, word))
    return f'<td title="{tip}" style="border:0;padding:0 1px 1px {gap}"><div style="{box}"></div></td>'
