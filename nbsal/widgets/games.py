"""The Games view: tokens are hidden or revealed step by step in the order of their scores, and the decision follows."""

import base64
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import traitlets

from nbsal.evaluation.results import GAMES, Results
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.methods.lazy import Ablation, Subject
from nbsal.model.text.tokens import Row
from nbsal.render import html, text_lines
from nbsal.render.headline import Phrase, joined, percent
from nbsal.render.html import ScoredSpan
from nbsal.render.looks import LINES
from nbsal.render.text_lines import ScoredText
from nbsal.support.errors import InputError
from nbsal.support.lazy import Axes, Figure, pandas
from nbsal.widgets.cached_view import CachedView, Panel, PanelJob
from nbsal.widgets.content import line_chart
from nbsal.widgets.content.game_words import (
    axis_label,
    curve_name,
    finding,
    footnote,
    is_random,
    quantity,
    results_answers,
    results_finding,
    share_tag,
    step_changes,
    step_hint,
    step_phrases,
    step_tag,
)
from nbsal.widgets.content.token_games import (
    MAX_STEPS,
    RANDOM_NAME,
    GameCurve,
    TokenGames,
    coalition_count,
    play_games,
    units,
)
from nbsal.widgets.highlight import scored_text, text_html
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

HIGHEST_FIRST = "highest score first"
CURVE_NAMES = (HIGHEST_FIRST, RANDOM_NAME)
INTERVAL = "95\u202f% interval"  # what the bands of many texts show
SIZE, PLOT = (7.0, 3.4), 2.2  # inches of a picture, and of the plot in one below a text
RANDOM_DASH = (0, (5, 4))
ACCENT = "#3b7dd8"
# The colours of curves on white, and those that are visible on white and on black.
DARK = ("#1c1e22", "#00706b", "#7c3fa8", "#8a5a00", "#a8326e")
MIDDLE = ("#7d828b", "#1b9a91", "#a06cc9", "#b07d1c", "#d0588f")


class GameView(CachedView):
    """A view that plays games, which are its part "game"."""

    game = traitlets.Enum(tuple(reversed(GAMES)), "hiding").tag(sync=True, page=True)
    at = traitlets.Int(0, min=0).tag(sync=True, page=True)
    _game = traitlets.Dict().tag(sync=True)

    @property
    def token_games(self) -> TokenGames | None:
        """The games on display, if the text is short enough for them."""
        games = self.part("game")
        return games if isinstance(games, TokenGames) and self.game in games.outcomes else None

    @property
    def remaining(self) -> list[int]:
        """The tokens that the model reads at step `at` of the game on display."""
        return [] if self.token_games is None else self.token_games.remaining(self.game, self.at)


class GamePanel(Panel):
    """Both games on a text as a part of a view; the method's curves are shown before those of random orders."""

    def most_steps(self, words: int) -> int:
        """How many steps the curves of a text of so many words have at most."""
        return MAX_STEPS

    def games(self, inputs: dict[str, Any]) -> Collection[str]:
        return GAMES

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._ablation = LastValue()

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> Any:
        ablation = self._ablation.get(inputs["text"], lambda: Ablation(self._subject))
        size = len(units(saliency.row))
        most_steps, games = self.most_steps(size), self.games(inputs)
        meter = job.meter(coalition_count(size, most_steps, len(games)))
        meter.check()
        results = play_games(saliency, ablation, inputs["target"], meter, most_steps, games)
        job.show(next(results))
        return next(results)

    def publish(self, value: TokenGames | None) -> dict[str, Any]:
        return {"_game": {} if value is None else game_traits(value)}


class Games(GameView):
    """Both games on one text: `game` is the one on display, and `at` is how many words are hidden or revealed.

    Words are hidden with all their tokens. The band is the range of random orders. Results of nbsal.evaluation.games
    on many texts are shown as curves.

    >>> import nbsal
    >>> view = Games(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A warm film.", at=1).wait()
    >>> len(view.remaining), view.token_games.curves("hiding")[1].name
    (3, 'random order')
    """

    accepts = (Results,)
    omitted_steps = ("games",)
    _esm = asset("games.js")
    _css = asset("games.css")

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        self.parts = {"game": GamePanel(explainer.subject)}
        return super().from_explainer(explainer)

    def from_result(self, result: Any) -> dict[str, Any]:
        if result.metric.measure != "game":
            message = f"Games shows results of nbsal.evaluation.games, not of the metric {result.metric.value!r}."
            raise InputError(message, argument="source", value=result)
        return {}

    def publish(self, result: Any) -> dict[str, Any]:
        if not isinstance(result, Results):
            return super().publish(result)
        return {"_game": results_traits(result), "_result": {"notes": list(result.notes)}}

    def to_frame(self) -> "pandas.DataFrame":
        self._require_result()
        if self.plain_result is not None:
            return self.plain_result.frame  # type: ignore[no-any-return]
        return super().to_frame() if self.token_games is None else self.token_games.to_frame()

    def shown_frame(self) -> "pandas.DataFrame":
        return self.to_frame()

    def render_html(self) -> str:
        if self.plain_result is not None:
            chart, table = results_chart(self.plain_result, self.game), self.plain_result._repr_html_()
            notes = [footnote(self.game, "token")]
            return html.block_html(chart.finding, chart_html(chart) + table, notes, titled=False)
        games, saliency = self.token_games, self.result
        statement, parts = self.statement, self.spans()
        body = text_html(statement, parts, html.largest_score(parts))
        if games is not None:
            body += chart_html(chart_of(games, self.game, self.at))
        return html.block_html(statement.text(), body, [*saliency.notes(), footnote(self.game)], titled=False)

    def render_png(self) -> bytes:
        if self.plain_result is not None:
            notes = [*self.plain_result.notes, footnote(self.game, "token")]
            return chart_png(results_chart(self.plain_result, self.game), notes=notes)
        parts = self.spans()
        text = scored_text(self.statement, parts)
        notes = [*self.statement.notes, *self.result.notes(), footnote(self.game)]
        if self.token_games is None:
            return text_lines.png(text_lines.draw([text], notes=notes))
        return chart_png(chart_of(self.token_games, self.game, self.at), [text], notes)

    @property
    def statement(self) -> Statement:
        """What is said at the step on display."""
        games = self.token_games
        if games is None or (self.game == "hiding" and games.step(self.at) == 0):
            return super().statement
        return Statement(step_phrases(games, self.game, self.at))

    def spans(self) -> list[list[ScoredSpan]]:
        """The text with its scores; what is hidden at the step on display is struck."""
        parts = self.result.scored_spans(self.level)
        games = self.token_games
        if games is None:
            return parts  # type: ignore[no-any-return]
        return struck(parts, self.result.row, games.hidden(self.game, games.steps[games.step(self.at)]))


def struck(parts: Sequence[Sequence[ScoredSpan]], row: Row, hidden: Sequence[int]) -> list[list[ScoredSpan]]:
    """A text in which the spans of hidden tokens are struck."""
    places = [(row.segments[i], *row.offsets[i]) for i in hidden]
    result = []
    for number, part in enumerate(parts):
        ends = np.cumsum([0, *(len(span.text) for span in part)])
        spans = zip(part, ends, ends[1:], strict=False)
        inside = [(first, last) for segment, first, last in places if segment == number]
        result.append(
            [
                replace(span, struck=span.score is not None and any(a < end and b > start for a, b in inside))
                for span, start, end in spans
            ]
        )
    return result


def results_curves(results: Results) -> dict[str, list[GameCurve]]:
    """The curves of both games over many texts, with their intervals."""
    frame = results.frame
    columns = (results.metric.value, "low", "high")
    curves: dict[str, list[GameCurve]] = {game: [] for game in GAMES}
    for (name, game), rows in frame.groupby(["explainer", "game"], sort=False):
        curve = GameCurve(str(name), rows["fraction"].tolist(), *(rows[column].to_numpy() for column in columns))
        curves[str(game)].append(curve)
    return curves


@dataclass(frozen=True)
class Chart:
    """Curves with what is said about them; `halved` marks the half, where another class is predicted."""

    curves: Sequence[GameCurve]
    finding: str
    quantity: str
    steps: str
    band: str
    probable: bool = True
    halved: bool = False
    count: int = 0  # words of the text, or 0 for shares
    position: int | None = None  # of the step on display


def chart_of(games: TokenGames, game: str, at: int) -> Chart:
    return Chart(
        [replace(curve, name=name) for curve, name in zip(games.curves(game), CURVE_NAMES, strict=False)],
        finding(games, game),
        quantity(games),
        axis_label(game),
        _range(games),
        games.probable,
        len(games.labels) == 2,
        len(games.order),
        games.step(at),
    )


def results_chart(results: Results, game: str) -> Chart:
    heading = results_finding(results, game)
    return Chart(results_curves(results)[game], heading, results.metric.value, axis_label(game, "token"), INTERVAL)


def chart_html(chart: Chart) -> str:
    """The finding of a game and its curves, as HTML without scripts that passes the sanitizer of notebooks."""
    figure = Figure(figsize=SIZE, layout="constrained")
    figure.patch.set_alpha(0.0)
    draw_chart(figure.add_subplot(), chart, MIDDLE)
    source = base64.b64encode(text_lines.png(figure)).decode("ascii")
    alt = html.escape(f"{chart.quantity}, {chart.steps}")
    image = f'<img alt="{alt}" style="max-width:44em;width:100%" src="data:image/png;base64,{source}">'
    return f'<div style="margin:12px 0 2px"><b>{html.escape(chart.finding)}</b></div>{image}'


def chart_png(chart: Chart, texts: Sequence[ScoredText] = (), notes: Sequence[str] = ()) -> bytes:
    """The finding of a game and its curves below texts, as PNG."""
    points = text_lines.WIDTH * text_lines.POINTS
    heading = text_lines.wrap(chart.finding, points - 2 * text_lines.MARGIN, bold=True)
    legend = -(-(len(chart.curves) + 1) // 2)
    above, below = 0.2 * len(heading) + 0.15, 0.55 + 0.2 * legend
    figure = text_lines.draw(texts, notes=notes, below=above + PLOT + below)
    width, height = figure.get_size_inches()
    ax = figure.add_axes((0.7 / width, below / height, (width - 1.0) / width, PLOT / height))
    draw_chart(ax, chart)
    place = (text_lines.MARGIN / points, (below + PLOT + above) / height)
    figure.text(*place, "\n".join(heading), va="top", fontsize=text_lines.SIZE, weight="bold")
    return text_lines.png(figure)


def draw_chart(ax: "Axes", chart: Chart, hues: Sequence[str] = DARK) -> None:
    """Draw curves with their ranges, and the step on display; the first hue is that of the text."""
    ink = hues[0]
    number = 0
    for curve in chart.curves:
        random = is_random(curve.name)
        hue, style = (ink, RANDOM_DASH) if random else (hues[number % len(hues)], LINES[number % len(LINES)])
        number += not random
        mean = percent(curve.area, 0) if chart.probable else f"{curve.area:+.3g}"
        label = f"{html.label(curve_name(curve.name), 48)} · mean {mean}"
        ax.plot(
            curve.fractions, curve.values, linestyle=style, color=hue, linewidth=1.2 if random else 1.8, label=label
        )
        if curve.low is not None and curve.high is not None:
            band = chart.band if curve is chart.curves[-1] else None
            ax.fill_between(curve.fractions, curve.low, curve.high, color=hue, alpha=0.12, linewidth=0, label=band)
    if chart.position is not None:
        first = chart.curves[0]
        share, value = first.fractions[chart.position], first.values[chart.position]
        ax.axvline(share, color=ACCENT, linewidth=1)
        ax.plot([share], [value], "o", color=ACCENT, markersize=6, markerfacecolor="none", markeredgewidth=1.5)
    if chart.probable:
        ax.set_ylim(-0.02, 1.02)
        ax.set_yticks([0, 0.5, 1], ["0", percent(0.5, 0), percent(1, 0)])
    if chart.halved:
        ax.axhline(0.5, color=ink, linewidth=0.8, linestyle=":", alpha=0.7)
    ax.set_xlim(-0.01, 1.01)
    ticks = line_chart.count_ticks(chart.count) if chart.count else line_chart.share_ticks()
    ax.set_xticks(*zip(*ticks, strict=True))
    ax.set_xlabel(chart.steps)
    ax.set_ylabel(html.label(chart.quantity, 48))
    _colour_axes(ax, ink)
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=8)
    for text in legend.get_texts():
        text.set_color(ink)


def _colour_axes(ax: "Axes", ink: str) -> None:
    ax.patch.set_alpha(0.0)
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set_color(ink)
    ax.tick_params(colors=ink, labelsize=8)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(ink)
        label.set_fontsize(9)


def game_traits(games: TokenGames) -> dict[str, Any]:
    """The games on one text as the page reads them."""
    lines = {
        game: [_line(curve, name, games.probable) for curve, name in zip(games.curves(game), CURVE_NAMES, strict=False)]
        for game in games.outcomes
    }
    ticks = line_chart.count_ticks(len(games.order))
    return {
        "lines": lines,
        "axes": {game: line_chart.axes(lines[game], games.probable, axis_label(game), ticks) for game in lines},
        "findings": {game: finding(games, game) for game in lines},
        "footnotes": {game: footnote(game) for game in lines},
        "tags": _by_step(games, step_tag),
        "hints": _by_step(games, step_hint),
        "changes": {game: _changes(games, game) for game in lines},
        "sentences": {game: _sentences(games, game) for game in lines},
        "quantity": quantity(games),
        "band": _range(games),
        "halved": len(games.labels) == 2,
        "points": list(games.steps),
        "order": [list(word) for word in games.order],
    }


def results_traits(results: Results) -> dict[str, Any]:
    """The curves of many texts as the page reads them."""
    curves = results_curves(results)
    lines = {game: [_line(curve, curve_name(curve.name)) for curve in curves[game]] for game in GAMES}
    ticks = line_chart.share_ticks()
    return {
        "lines": lines,
        "axes": {game: line_chart.axes(lines[game], True, axis_label(game, "token"), ticks) for game in GAMES},
        "findings": {game: results_finding(results, game) for game in GAMES},
        "footnotes": {game: footnote(game, "token") for game in GAMES},
        "tags": {game: [share_tag(share, game) for share in curves[game][0].fractions] for game in GAMES},
        "answers": {game: results_answers(curves[game], game) for game in GAMES},
        "quantity": results.metric.value,
        "band": INTERVAL,
        "halved": False,
    }


def _by_step(games: TokenGames, describe: Callable[[TokenGames, str, int], Any]) -> dict[str, list[Any]]:
    """What is said of each step of each game."""
    return {game: [describe(games, game, step) for step in range(len(games.steps))] for game in games.outcomes}


def _changes(games: TokenGames, game: str) -> dict[str, Any]:
    """The rows of `step_changes`: what is the same at all steps, and the rest of each."""
    rows = [step_changes(games, game, step) for step in range(len(games.steps))]
    return {"classes": [row[:2] for row in rows[0]], "steps": [[row[2:] for row in step] for step in rows]}


def _range(games: TokenGames) -> str:
    """What the band of random orders shows."""
    orders = 0 if games.random is None else len(next(iter(games.random.outcomes.values())))
    return f"range of {orders} random orders"


def _sentences(games: TokenGames, game: str) -> list[list[Phrase] | None]:
    """What is said at each step; None where no word is hidden yet, which the sentence about the whole text covers."""
    sentences = [joined(step_phrases(games, game, at)) for at in games.steps]
    return [None, *sentences[1:]] if game == "hiding" else list(sentences)


def _line(curve: GameCurve, name: str, probable: bool = True) -> dict[str, Any]:
    points = {"at": curve.fractions, "values": curve.values, "low": curve.low, "high": curve.high}
    return line_chart.line(name, curve.area, probable, is_random(curve.name), **points)
