"""The Games view: tokens are hidden or revealed step by step in the order of their scores, and the decision follows."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from nbsal.evaluation.results import GAMES, Results
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.explain.text_sheet import changes_table, text_blocks
from nbsal.methods.lazy import Ablation, Subject
from nbsal.model.text.tokens import Row
from nbsal.render import html
from nbsal.render.headline import Phrase, joined, percent, phrases
from nbsal.render.html import ScoredSpan
from nbsal.render.sheet import Block, Chart, ChartLine, Heading, Sentence, Sheet
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
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
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

HIGHEST_FIRST = "highest score first"
CURVE_NAMES = (HIGHEST_FIRST, RANDOM_NAME)
INTERVAL = "95\u202f% interval"  # what the bands of many texts show


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


@traitlets.signature_has_traits
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
        self.parts |= {"game": GamePanel(explainer.subject)}
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

    def sheet(self) -> Sheet:
        if self.plain_result is not None:
            return results_sheet(self.plain_result, self.game, self.at)
        games, saliency, statement = self.token_games, self.result, self.statement
        blocks = text_blocks(saliency, self.spans(), statement, level=self.level)[:3]  # down to the legend
        if games is not None:
            blocks += [*game_changes(games, self.game, self.at), *game_blocks(games, self.game, self.at)]
        return Sheet(statement.text(), blocks, [*saliency.notes(), footnote(self.game)])

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


def game_blocks(games: TokenGames, game: str, at: int) -> list[Block]:
    """What the curves of a game show, and the curves with the step on display."""
    curves = [replace(curve, name=name) for curve, name in zip(games.curves(game), CURVE_NAMES, strict=False)]
    step = games.step(at)
    chart = Chart(
        [_drawn_curve(curve, games.probable) for curve in curves],
        quantity(games),
        axis_label(game),
        line_chart.count_ticks(len(games.order)),
        "" if games.random is None else _range(games),
        games.probable,
        len(games.labels) == 2,
        (float(curves[0].fractions[step]), float(curves[0].values[step])),
    )
    return [Heading(phrases(finding(games, game))), chart]


def game_changes(games: TokenGames, game: str, at: int) -> list[Block]:
    """The classes with their probabilities before any word is hidden and now: the likeliest ones at any step."""
    if not games.probable:
        return []
    return [changes_table([row[:3] for row in step_changes(games, game, games.step(at))])]


def results_sheet(results: Results, game: str, at: int) -> Sheet:
    """The curves of many texts, with their values at a step."""
    curves, metric = results_curves(results)[game], results.metric.value
    ticks = line_chart.share_ticks()
    chart = Chart([_drawn_curve(curve) for curve in curves], metric, axis_label(game, "token"), ticks, INTERVAL)
    answer, found = results_answers(curves, game), results_finding(results, game)
    blocks: list[Block] = [Sentence(phrases(answer[min(at, len(answer) - 1)])), Heading(phrases(found)), chart]
    return Sheet(found, blocks, [*results.notes, footnote(game, "token")])


def _drawn_curve(curve: GameCurve, probable: bool = True) -> ChartLine:
    mean = percent(curve.area, 0) if probable else f"{curve.area:+.3g}"
    name = f"{html.label(curve_name(curve.name), 48)} · mean {mean}"
    band = None if curve.low is None or curve.high is None else (curve.low.tolist(), curve.high.tolist())
    return ChartLine(name, curve.fractions, curve.values.tolist(), band, is_random(curve.name))


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
