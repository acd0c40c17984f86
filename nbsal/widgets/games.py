"""The Games view: tokens are hidden or revealed step by step in the order of their scores, and the decision follows."""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from nbsal.errors import InputError
from nbsal.evaluation._games import GAMES
from nbsal.evaluation.results import HUES, LINES, Results
from nbsal.explainer import Explainer
from nbsal.model.masking import MaskedModel
from nbsal.model.subject import Subject
from nbsal.render import html, text_lines
from nbsal.saliency import Saliency
from nbsal.widgets.cached_view import CachedView, LastValue, Part, PartJob
from nbsal.widgets.export import asset
from nbsal.widgets.token_games import GameCurve, TokenGames, coalition_count, play_games

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

DIGITS = 4
Curves = Mapping[str, Sequence[GameCurve]]  # of each game


class GameTraits(traitlets.HasTraits):
    """The traits of a view that plays games."""

    game = traitlets.Enum(tuple(reversed(GAMES)), "hiding").tag(sync=True, page=True)
    at = traitlets.Int(0, min=0).tag(sync=True, page=True)
    _game = traitlets.Dict().tag(sync=True)


class GamePart(Part):
    """Both games on a text as a part of a view; the method's curves are shown before those of random orders."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._masked_model = LastValue()

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PartJob) -> TokenGames:
        masked_model = self._masked_model.get(inputs["text"], lambda: MaskedModel(self._subject))
        meter = job.meter(coalition_count(len(saliency.order)))
        meter.check()
        results = play_games(saliency, masked_model, inputs["target"], meter)
        job.show(next(results))
        return next(results)

    def publish(self, value: TokenGames | None) -> dict[str, Any]:
        return {"_game": {} if value is None else game_traits(value)}


class Games(CachedView, GameTraits):
    """Both games on one text: `game` is the one on display, and `at` is how many tokens are hidden or revealed.

    The band is the range of random orders. Results of nbsal.evaluation.games on many texts are shown as curves.

    >>> import nbsal
    >>> view = Games(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A warm film.", at=1).wait()
    >>> len(view.remaining), view.token_games.curves("hiding")[1].name
    (3, 'mean of random orders')
    """

    accepts = (Results,)
    _esm = asset("games.js")
    _css = asset("games.css")

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        self.parts = {"game": GamePart(explainer.subject)}
        return super().from_explainer(explainer)

    def from_result(self, result: Any) -> dict[str, Any]:
        if result.metric.measure != "game":
            message = f"Games shows results of nbsal.evaluation.games, not of the metric {result.metric.value!r}."
            raise InputError(message, argument="source", value=result)
        return {}

    @property
    def token_games(self) -> TokenGames | None:
        """The games on display."""
        return self.part("game")  # type: ignore[no-any-return]

    @property
    def remaining(self) -> list[int]:
        """The tokens that the model reads at step `at` of the game on display."""
        return [] if self.token_games is None else self.token_games.remaining(self.game, self.at)

    def publish(self, result: Any) -> dict[str, Any]:
        if not isinstance(result, Results):
            return super().publish(result)
        curves = {game: [_curve_traits(curve) for curve in curves] for game, curves in results_curves(result).items()}
        return {"_game": {"lines": curves, "unit": result.metric.value}, "_result": {"notes": list(result.notes)}}

    def to_frame(self) -> "pandas.DataFrame":
        self._require_result()
        if self.plain_result is not None:
            return self.plain_result.frame  # type: ignore[no-any-return]
        return super().to_frame() if self.token_games is None else self.token_games.to_frame()

    def render_html(self) -> str:
        if self.plain_result is not None:
            return image_html(self.render_png()) + str(self.plain_result._repr_html_())
        text = str(self.result.to_html())
        return text if self.token_games is None else text + image_html(self.render_png())

    def render_png(self) -> bytes:
        if self.plain_result is not None:
            unit = self.plain_result.metric.value.capitalize()
            return text_lines.png(curves_figure(results_curves(self.plain_result), unit, "Shaded: 95% intervals"))
        if self.token_games is None:
            raise InputError("The games are not computed yet. Call wait() first.")
        return games_png(self.token_games)


def results_curves(results: Results) -> dict[str, list[GameCurve]]:
    """The curves of both games over many texts, with their intervals."""
    frame = results.frame
    columns = (results.metric.value, "low", "high")
    curves: dict[str, list[GameCurve]] = {game: [] for game in GAMES}
    for (name, game), rows in frame.groupby(["explainer", "game"], sort=False):
        curve = GameCurve(str(name), rows["fraction"].tolist(), *(rows[column].to_numpy() for column in columns))
        curves[str(game)].append(curve)
    return curves


def games_png(games: TokenGames) -> bytes:
    """The curves of both games on one text as PNG."""
    label = html.label(games.labels[games.label])
    unit = f"Probability of {label}" if len(games.labels) > 1 else f"Model output for {label}"
    curves = {game: games.curves(game) for game in GAMES}
    return text_lines.png(curves_figure(curves, unit, "Shaded: range of the random orders"))


def curves_figure(curves: Curves, unit: str, band: str) -> "Figure":
    """A panel for each game with its curves; `unit` labels the values and `band` the shaded ranges."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(1, len(GAMES))
    for ax, game in zip(panels, reversed(GAMES), strict=True):
        for number, curve in enumerate(curves[game]):
            colour = HUES[number % len(HUES)]
            style = LINES[number % len(LINES)]
            ax.plot(curve.fractions, curve.values, style, color=colour, label=html.visible(curve.name))
            if curve.low is not None:
                ax.fill_between(curve.fractions, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        ax.set_title(f"{game.capitalize()} (a {GAMES[game]}er curve is better)", fontsize="medium")
        ax.set_xlabel(f"Share of tokens {'hidden' if game == 'hiding' else 'revealed'}")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(html.visible(unit))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, title=band)
    return figure


def game_traits(games: TokenGames) -> dict[str, Any]:
    """The games on one text as the page reads them."""
    return {
        "lines": {game: [_curve_traits(curve) for curve in games.curves(game)] for game in GAMES},
        "unit": games.labels[games.label],
        "probable": len(games.labels) > 1,
        "points": list(games.steps),
        "order": games.saliency.order,
        "labels": list(games.labels),
        "outcomes": {game: _rounded(values) for game, values in games.outcomes.items()},
    }


def _curve_traits(curve: GameCurve) -> dict[str, Any]:
    traits = {"at": _rounded(curve.fractions), "values": _rounded(curve.values)}
    if curve.low is not None and curve.high is not None:
        traits |= {"low": _rounded(curve.low), "high": _rounded(curve.high)}
    return {"name": curve.name, "area": round(curve.area, DIGITS)} | traits


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, float), DIGITS).tolist()


def image_html(png: bytes) -> str:
    """A picture as HTML that passes the sanitizer of notebooks; a table or the frame says the same in words."""
    source = base64.b64encode(png).decode("ascii")
    style = "max-width:60em;width:100%;background:white"
    return f'<img alt="hiding and revealing curves" style="{style}" src="data:image/png;base64,{source}">'
