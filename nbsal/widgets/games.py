"""The Games view: tokens are hidden or revealed step by step in the order of their scores, and the decision follows."""

from collections.abc import Collection, Sequence
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
from nbsal.render.headline import percent, phrases
from nbsal.render.html import ScoredSpan
from nbsal.render.sheet import Block, Chart, ChartLine, Heading, Sentence, Sheet
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.widgets.cached_view import CachedView, Panel, PanelJob
from nbsal.widgets.content.game_words import (
    curve_name,
    finding,
    footnote,
    is_random,
    quantity,
    results_finding,
    step_phrases,
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
from nbsal.widgets.page.wire import LIKELIEST

DIGITS = 6
HIGHEST_FIRST = "highest score first"
CURVE_NAMES = (HIGHEST_FIRST, RANDOM_NAME)
VERBS = {"hiding": "hidden", "revealing": "revealed"}
INTERVAL = "95\u202f% interval"  # what the bands of many texts show
CLASSES = 5  # that are listed beside the text


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
        lines = results_curves(result)
        game = {
            "lines": {game: [_curve_traits(curve) for curve in curves] for game, curves in lines.items()},
            "findings": {game: results_finding(result, game) for game in GAMES},
            "answers": {game: results_answers(curves, game) for game, curves in lines.items()},
            "quantity": result.metric.value,
            "band": INTERVAL,
        }
        return {"_game": game, "_result": {"notes": list(result.notes)}}

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
        sentence, text = text_blocks(saliency, self.spans(), statement, level=self.level)[:2]
        blocks: list[Block] = [sentence, text]
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
        f"words {VERBS[game]}, highest score first",
        _word_ticks(len(games.order)),
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
    outcomes = games.outcomes[game]
    before, now = outcomes[0 if game == "hiding" else -1], outcomes[games.step(at)]
    listed = sorted(np.argsort(-outcomes.max(0), kind="stable")[:CLASSES], key=lambda k: -before[k])
    return [changes_table([(games.labels[k], float(before[k]), float(now[k])) for k in listed])]


def results_sheet(results: Results, game: str, at: int) -> Sheet:
    """The curves of many texts, with their values at a step."""
    curves, metric = results_curves(results)[game], results.metric.value
    share = [(tick, percent(tick, 0)) for tick in (0, 0.25, 0.5, 0.75, 1)]
    steps = f"share of the tokens {VERBS[game]}, highest score first"
    chart = Chart([_drawn_curve(curve) for curve in curves], metric, steps, share, INTERVAL)
    answer, found = results_answers(curves, game), results_finding(results, game)
    blocks: list[Block] = [Sentence(phrases(answer[min(at, len(answer) - 1)])), Heading(phrases(found)), chart]
    return Sheet(found, blocks, [*results.notes, footnote(game, "token")])


def results_answers(curves: Sequence[GameCurve], game: str) -> list[str]:
    """The values of the curves at each step, in words."""
    return [
        f"With {percent(share, 0)} of the tokens {VERBS[game]}: "
        f"{', '.join(f'{curve_name(c.name)} {percent(np.interp(share, c.fractions, c.values), 0)}' for c in curves)}."
        for share in curves[0].fractions
    ]


def _drawn_curve(curve: GameCurve, probable: bool = True) -> ChartLine:
    mean = percent(curve.area, 0) if probable else f"{curve.area:+.3g}"
    name = f"{html.label(curve_name(curve.name), 48)} · mean {mean}"
    band = None if curve.low is None or curve.high is None else (curve.low.tolist(), curve.high.tolist())
    return ChartLine(name, curve.fractions, curve.values.tolist(), band, is_random(curve.name))


def _word_ticks(count: int) -> list[tuple[float, str]]:
    """Up to five whole numbers of words."""
    steps = min(4, max(count, 1))
    words = [int(count * step / steps + 0.5) for step in range(steps + 1)]
    return [(word / max(count, 1), str(word)) for word in words]


def game_traits(games: TokenGames) -> dict[str, Any]:
    """The games on one text as the page reads them; of many labels only those that are predicted at some step."""
    labels = list(range(len(games.labels)))
    if len(labels) > LIKELIEST:
        predicted = (values.argmax(1).tolist() for values in games.outcomes.values())
        labels = sorted({games.label}.union(*predicted))
    lines = {game: [_curve_traits(curve) for curve in games.curves(game)] for game in games.outcomes}
    for curves in lines.values():
        curves[0]["name"] = HIGHEST_FIRST
    return {
        "lines": lines,
        "findings": {game: finding(games, game) for game in games.outcomes},
        "quantity": quantity(games),
        "band": _range(games),
        "unit": games.labels[games.label],
        "probable": games.probable,
        "points": list(games.steps),
        "order": [list(word) for word in games.order],
        "labels": [games.labels[i] for i in labels],
        "outcomes": {game: _rounded(values[:, labels]) for game, values in games.outcomes.items()},
        "statements": {game: _statements(games, game) for game in games.outcomes},
    }


def _range(games: TokenGames) -> str:
    """What the band of random orders shows."""
    orders = 0 if games.random is None else len(next(iter(games.random.outcomes.values())))
    return f"range of {orders} random orders"


def _statements(games: TokenGames, game: str) -> list[dict[str, Any] | None]:
    """What is said at each step; None where no word is hidden yet, which the sentence about the whole text covers."""
    statements = [Statement(step_phrases(games, game, at)).to_json() for at in games.steps]
    return [None, *statements[1:]] if game == "hiding" else list(statements)


def _curve_traits(curve: GameCurve) -> dict[str, Any]:
    traits: dict[str, Any] = {"at": _rounded(curve.fractions), "values": _rounded(curve.values)}
    if curve.low is not None and curve.high is not None:
        traits |= {"low": _rounded(curve.low), "high": _rounded(curve.high)}
    named = {"name": curve_name(curve.name), "random": is_random(curve.name)}
    return named | {"area": round(curve.area, DIGITS)} | traits


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, float), DIGITS).tolist()
