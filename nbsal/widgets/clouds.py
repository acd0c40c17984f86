"""The Clouds view: a word cloud for each predicted class; a click on a word lists the texts that contain it."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from nbsal.corpus.dataset import Corpus
from nbsal.evaluation.clouds import Cloud, draw_words, rank, weigh
from nbsal.explain.saliency import Saliency
from nbsal.render import colours, html, text_lines
from nbsal.render.headline import percent
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import Figure, pandas
from nbsal.support.validation import Text, checked, plural
from nbsal.widgets.content.excerpts import excerpt, excerpt_html
from nbsal.widgets.content.word_clouds import (
    MAX_TEXTS,
    MIN_TEXTS,
    CloudWord,
    Statistics,
    WordClouds,
    arranged,
    cloud_traits,
    texts_with,
)
from nbsal.widgets.corpus_view import CorpusView
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

SIZE = (600, 300)  # pixels of a cloud in a picture
COLUMNS = 2  # clouds beside each other in a picture
MAX_WORDS = 200
SMALLEST, LARGEST = 12, 42  # pixels


@checked
class Clouds(CorpusView):
    """Word clouds of many texts by predicted class; words that several classes share are underlined.

    `k` is the number of words of a cloud. `picked` is the [class, word] whose texts are listed; `texts_with` finds all
    of them. A finished Cloud is shown without texts. `form` "list" shows the words as lists. `idf` weighs words by
    their rarity, as in nbsal.clouds.rank.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Clouds(explain, ["A warm film.", "A dull bore."], picked=["positive", "warm"])
    >>> view.wait().texts_with("positive", "warm")
    [0]
    """

    inputs = ("k", "unit", "picked")
    accepts = (Sequence, Cloud)
    _esm = asset("clouds.js")
    _css = asset("clouds.css")

    k = traitlets.Int(30, min=1, max=MAX_WORDS).tag(sync=True, page=True)
    unit = traitlets.Enum(("token", "word"), "word").tag(sync=True, page=True)
    form = traitlets.Enum(("cloud", "list"), "cloud").tag(sync=True, page=True)
    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True, page=True)
    _plain = traitlets.Bool(False).tag(sync=True)
    _clouds = traitlets.List(traitlets.Dict()).tag(sync=True)
    _summary = traitlets.Dict().tag(sync=True)
    _texts_shown = traitlets.Dict().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        texts: Iterable[Text] | None = None,
        *,
        idf: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        self.idf = idf
        self._cloud = LastValue()
        super().__init__(source, texts, **settings)
        self.observe(self._on_selection, names="picked")

    def from_result(self, result: Any) -> dict[str, Any]:
        return {"_plain": True, "unit": result.unit} if isinstance(result, Cloud) else super().from_result(result)

    @property
    def cloud(self) -> Cloud | None:
        """The Cloud on display."""
        return self.result and self.result.cloud  # type: ignore[no-any-return]

    @traitlets.validate("picked")
    def _valid_picked(self, proposal: Any) -> Any:
        picked = proposal["value"]
        if picked is not None and len(picked) != 2:
            raise InputError(f"picked must be [class, word], not {picked!r:.60}.", argument="picked", value=picked)
        return picked

    @traitlets.validate("unit")
    def _valid_unit(self, proposal: Any) -> Any:
        if isinstance(self.plain_result, Cloud) and proposal["value"] != self.plain_result.unit:
            raise UnknownName("unit", proposal["value"], [self.plain_result.unit])
        return proposal["value"]

    def texts_with(self, label: str, word: str) -> list[int]:
        """The numbers of the texts of a class in which a word scores for it, highest score first."""
        return [number for number, *_ in texts_with(self._saliencies, self.unit, label, word)]

    def selected(self) -> "pandas.DataFrame":
        """The texts of the picked word, one row each."""
        texts = texts_with(self._saliencies, self.unit, *self.picked) if self.picked else []
        rows = [(n, s.text, s.prediction, float(sum(s.scores[i] for i in positions))) for n, s, positions in texts]
        return pandas.DataFrame(rows, columns=["number", "text", "prediction", "score"])

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> WordClouds:
        unit, total = inputs["unit"], max(len(self._texts), len(saliencies))
        cloud, statistics = self._cloud.get((saliencies, unit), lambda: self._ranked(saliencies, unit))
        picked = tuple(inputs["picked"]) if inputs["picked"] else None
        texts = texts_with(saliencies, unit, *picked) if picked else []
        return WordClouds(cloud, inputs["k"], picked, texts, len(saliencies), total, self._classes(), statistics)

    def publish(self, result: WordClouds) -> dict[str, Any]:
        heading, note = result.picked_heading()
        texts = [
            {"number": number, "caption": _caption(saliency), "pieces": excerpt(saliency, positions)}
            for number, saliency, positions in result.texts[:MAX_TEXTS]
        ]
        summary = {
            "sentence": [list(piece) for piece in result.sentence()],
            "overlap": result.overlap(),
            "hint": result.hint(),
            "explained": result.text_count,
            "total": result.total,
        }
        listed = {"picked": result.picked, "count": len(result.texts), "texts": texts, "heading": heading, "note": note}
        return {
            "_clouds": [cloud_traits(result, label) for label in result.labels],
            "_summary": summary,
            "_texts_shown": listed,
            "_result": {"notes": self.count_notes(result.text_count, result.total)},
        }

    def render_html(self) -> str:
        result: WordClouds = self.result
        notes = html.escape(" · ".join([result.hint(static=True).rstrip("."), result.overlap()]))
        foot = f'<div style="{html.SMALL};margin:8px 0">{notes}</div>'
        body = [_sentence_html(result), *(_cloud_html(result, label) for label in result.labels), foot]
        if result.picked:
            heading = html.heading_html(*result.picked_heading())
            body += [heading, *(_text_html(*text) for text in result.texts[:MAX_TEXTS])]
        return html.block_html(
            result.caption(), "".join(body), self.count_notes(result.text_count, result.total), titled=False
        )

    def render_png(self) -> bytes:
        result: WordClouds = self.result
        labels = result.labels
        columns = min(COLUMNS, len(labels))
        rows = -(-len(labels) // columns)
        figure = Figure(figsize=(4.5 * columns, 2.8 * rows + 0.5), layout="constrained")
        few = f" Words in fewer than {MIN_TEXTS} texts are left out." if result.has_rare else ""
        title = html.visible(result.caption() + few)
        figure.suptitle(textwrap.fill(title, 60 * columns), fontsize="medium")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in panels:
            ax.axis("off")
        for ax, label in zip(panels, labels, strict=False):
            colour = colours.class_colour(result.hues[label])
            if sizes := {
                entry.word: _type_size(entry.share) for entry in result.words[label] if entry.share is not None
            }:
                ax.imshow(np.asarray(draw_words(sizes, colour, SIZE)))
            ax.set_title(html.visible(f"{label}, {_predicted(result, label)}"), color=colour)
        return text_lines.png(figure)

    def _ranked(self, saliencies: Sequence[Saliency], unit: str) -> tuple[Cloud, Statistics]:
        """The cloud with its classes in the model's order, and what it takes from the texts."""
        plain = self.plain_result if isinstance(self.plain_result, Cloud) else None
        if isinstance(saliencies, Corpus):
            units = saliencies.units(unit)
            cloud = arranged(weigh(units.groups(normalise=True), self.idf, unit), self._classes())
            return cloud, Statistics.of(units, cloud.labels, unit)
        cloud = plain or arranged(rank(saliencies, self.idf, unit=unit), self._classes())
        return cloud, Statistics.of([] if plain else saliencies, cloud.labels, unit)

    def _classes(self) -> list[str]:
        """The classes that the model knows, in its order."""
        return list(self.subject.labels) if self.subject is not None and self.subject.task == "sequence" else []


def _caption(saliency: Saliency) -> str:
    share = "" if saliency.confidence is None else f" {percent(saliency.confidence)}"
    return f"{saliency.display_name(saliency.prediction)}{share}"


def _sentence_html(result: WordClouds) -> str:
    """The sentence with its words underlined in the hues of their classes."""
    line = '<span style="border-bottom:2px solid {}">{}</span>'
    pieces = [
        line.format(colours.class_colour(hue, anywhere=True).replace("inherit", "currentColor"), html.escape(text))
        if is_word
        else html.escape(text)
        for text, hue, is_word in result.sentence()
    ]
    return f'<p style="margin:0 0 8px;font-size:125%;line-height:1.45;overflow-wrap:anywhere">{"".join(pieces)}</p>'


def _predicted(result: WordClouds, label: str) -> str:
    """For how many texts a class was predicted."""
    if not result.text_count:
        return "predicted class"
    return f"predicted for {plural(result.statistics.texts[label], 'text')}"


def _cloud_html(result: WordClouds, label: str) -> str:
    """The words of a class in order, larger if they weigh more; a sanitizer would drop a drawing."""
    colour = colours.class_colour(result.hues[label], anywhere=True)
    texts = f' <span style="{html.SMALL}">{_predicted(result, label)}</span>'
    drawn = [_word_html(entry, entry.share) for entry in result.words[label] if entry.share is not None]
    none = f"No word of {MIN_TEXTS} texts" if result.words[label] else "No word"
    words = " ".join(drawn) or f"{none} scores for {html.escape(label)}."
    style = f"margin:4px 0 12px;line-height:1.25;word-spacing:.3em;color:{colour};overflow-wrap:anywhere"
    rare = ", ".join(html.escape(entry.word) for entry in result.words[label] if entry.share is None)
    rest = f'<p style="{html.SMALL};margin:0 0 12px">in fewer than {MIN_TEXTS} texts: {rare}</p>' if rare else ""
    return f'<div><b style="color:{colour}">{html.escape(label)}</b>{texts}</div><p style="{style}">{words}</p>{rest}'


def _word_html(entry: CloudWord, share: float) -> str:
    also = f" · also {', '.join(entry.also)}" if entry.also else ""
    texts = f" · in {plural(entry.texts, 'text')}" if entry.texts else ""
    tip = f"{entry.word}{texts} · {percent(share, 0)} of the strongest word{also}"
    style = f"font-size:{_type_size(share):.0f}px;font-weight:600"
    style += ";text-decoration:underline" if entry.also else ""
    return f'<span style="{style}" title="{html.escape(tip)}">{html.escape(entry.word)}</span>'


def _type_size(share: float) -> float:
    """The size of a word's type in pixels: in proportion to its weight, but legible."""
    return max(SMALLEST, LARGEST * share)


def _text_html(number: int, saliency: Saliency, positions: list[int]) -> str:
    small = f'<div style="{html.SMALL}">{number} · {html.escape(_caption(saliency))}</div>'
    return f'<p style="margin:6px 0;line-height:1.6">{excerpt_html(excerpt(saliency, positions))}</p>{small}'
