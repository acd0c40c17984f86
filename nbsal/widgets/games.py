"""Games: drag along the hiding curve, and watch tokens go in the order of importance and the decision with them."""

import base64
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import traitlets

from nbsal.errors import InputError
from nbsal.evaluation._games import GAMES
from nbsal.evaluation.results import HUES, LINES, Results
from nbsal.model.masking import MaskedModel
from nbsal.render import html, png
from nbsal.saliency import Saliency
from nbsal.widgets import jobs
from nbsal.widgets.base import View
from nbsal.widgets.cached_view import CachedView, TextParts
from nbsal.widgets.export import asset
from nbsal.widgets.token_games import GameLine, TokenGames, play_games, steps_count

if TYPE_CHECKING:
    import pandas

DIGITS = 4


class Games(CachedView):
    """Both games on one text, step by step: `game` is the one on show, `at` how many tokens have gone, or come.

    The band is the range of orders by chance. What evaluation.games found on many texts is shown as curves alone.

    >>> import nbsal
    >>> view = Games(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A warm film.", at=1).wait()
    >>> len(view.standing), view.played.lines("hiding")[1].name
    (3, 'by chance')
    """

    rests: ClassVar[dict[str, tuple[str, ...] | None]] = {"game": None}
    _esm = asset("games.js")
    _css = asset("games.css")

    game = traitlets.Enum(tuple(reversed(GAMES)), "hiding").tag(sync=True)
    at = traitlets.Int(0, min=0).tag(sync=True)
    _game = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        self.played: TokenGames | None = None
        self._curves: Results | None = None
        if isinstance(source, Results):
            if source.sheet.measure != "game":
                raise InputError("Games shows results of nbsal.evaluation.games; these measure something else.")
            self._curves, self._known, self._given = source, {}, None
            View.__init__(self, **settings)
        elif isinstance(source, Saliency):
            raise InputError("Games hides tokens from a model: give an Explainer, not what one found.")
        else:
            super().__init__(source, text, **settings)

    @property
    def standing(self) -> list[int]:
        """The tokens that stay after `at` steps of the game on show."""
        order = [] if self.played is None else self.played.reading.order
        return sorted(order[self.at :] if self.game == "hiding" else order[: self.at])

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        return self._curves if self._curves is not None else super().compute(wanted, job)

    def find_game(self, reading: Saliency, wanted: dict[str, Any], job: jobs.Job) -> TokenGames:
        """Both games; the method's curve is shown before that of chance is known."""
        masked_model = self.cached("hiding", wanted["text"], lambda: MaskedModel(self.subject))
        meter = self.meter(job, steps_count(len(reading.order)))
        meter.check()
        steps = play_games(reading, masked_model, wanted["target"], meter)
        self.partly(job, TextParts(reading, {"game": next(steps)}))
        return next(steps)

    def show_game(self, found: TokenGames | None) -> None:
        """The curves and every step's outcomes."""
        self.played = found
        self._game = {} if found is None else _wired_game(found)

    def publish(self, found: Any) -> None:
        if isinstance(found, Results):
            self._game = {"lines": {game: [_wired(line) for line in _lines(found, game)] for game in GAMES}}
            self._game |= {"unit": "accuracy"}
            self._result = {"notes": list(found.notes)}
        else:
            super().publish(found)

    def to_frame(self) -> "pandas.DataFrame":
        self._needs_result()
        if self._curves is not None:
            return self._curves.frame
        return self.played.to_frame() if self.played is not None else super().to_frame()

    def html(self) -> str:
        if self._curves is not None:
            return image(self.picture()) + self._curves._repr_html_()
        return str(self.result.to_html()) + (image(self.picture()) if self.played is not None else "")

    def picture(self) -> bytes:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3), layout="constrained")
        lines = self._shown_lines()
        panels = figure.subplots(1, len(GAMES))
        for ax, game in zip(panels, reversed(GAMES), strict=True):
            for i, line in enumerate(lines[game]):
                _draw(ax, line, i)
            ax.set_title(f"{game}, {GAMES[game]} is better", fontsize="medium")
            ax.set_xlabel(f"share of tokens {'hidden' if game == 'hiding' else 'shown'}")
            ax.spines[["top", "right"]].set_visible(False)
        one, unit = self._game.get("points"), html.label(self._game.get("unit", ""))
        if one:
            unit = f"probability of {unit}" if self._game["probable"] else "model's output"
        panels[0].set_ylabel(unit, parse_math=False)
        shaded = "shaded: the range of orders by chance" if one else "shaded: 95 % intervals"
        entries = panels[0].get_legend_handles_labels()
        legend = figure.legend(*entries, loc="outside right upper", frameon=False, title=shaded)
        for text in legend.get_texts():
            text.set_parse_math(False)
        return png.draw_axes(panels[0])

    def _title(self) -> str:
        return "Games" if self._curves is not None else super()._title()

    def _shown_lines(self) -> dict[str, list[GameLine]]:
        if self._curves is not None:
            return {game: _lines(self._curves, game) for game in GAMES}
        return {game: self.played.lines(game) if self.played is not None else [] for game in GAMES}


def _lines(found: Results, game: str) -> list[GameLine]:
    """The curves of one game over many texts, with their intervals."""
    frame = found.frame
    return [
        GameLine(str(name), part["fraction"].tolist(), *(part[one].to_numpy() for one in ("accuracy", "low", "high")))
        for name, part in frame[frame["game"] == game].groupby("explainer", sort=False)
    ]


def _wired_game(found: TokenGames) -> dict[str, Any]:
    return {
        "lines": {game: [_wired(line) for line in found.lines(game)] for game in GAMES},
        "unit": found.labels[found.followed],
        "probable": len(found.labels) > 1,
        "points": list(found.points),
        "order": found.reading.order,
        "labels": list(found.labels),
        "outcomes": {game: _rounded(values) for game, values in found.outcomes.items()},
    }


def _wired(line: GameLine) -> dict[str, Any]:
    band = {} if line.low is None or line.high is None else {"low": _rounded(line.low), "high": _rounded(line.high)}
    parts = {"at": _rounded(line.at), "values": _rounded(line.values)}
    return {"name": line.name, "area": round(line.area, DIGITS), **parts, **band}


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, float), DIGITS).tolist()


def image(png: bytes) -> str:
    """A picture that a notebook's sanitiser keeps; the curves are told in words by the table or the frame."""
    source = base64.b64encode(png).decode("ascii")
    style = "max-width:60em;width:100%;background:white"
    return f'<img alt="hiding and revealing curves" style="{style}" src="data:image/png;base64,{source}">'


def _draw(ax: Any, line: GameLine, i: int) -> None:
    hue = HUES[i % len(HUES)]
    ax.plot(line.at, line.values, LINES[i % len(LINES)], color=hue, label=html.visible(line.name))
    if line.low is not None:
        ax.fill_between(line.at, line.low, line.high, color=hue, alpha=0.15, linewidth=0)
