"""The Clouds view: a word cloud for each predicted class; a click on a word lists the texts that contain it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from nbsal.clouds import Cloud, display_word, rank
from nbsal.errors import InputError, UnknownName
from nbsal.render import html, text_lines
from nbsal.saliency import Saliency
from nbsal.validation import Text, checked
from nbsal.widgets import jobs
from nbsal.widgets.cached_view import LastValue
from nbsal.widgets.corpus_view import CorpusView, excerpt, excerpt_html
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

SIZE = (600, 300)  # pixels of a cloud; a page scales it
MAX_TEXTS = 20  # in the list of a word's texts
MAX_WORDS = 200


@dataclass(frozen=True, eq=False)
class WordClouds:
    """Clouds of `count` words per class, and the texts of the word that is picked.

    A text is (number, saliency, positions of the word). `text_count` is 0 for a finished Cloud, which has no texts.
    """

    cloud: Cloud
    count: int
    picked: tuple[str, str] | None
    texts: Sequence[tuple[int, Saliency, list[int]]]
    text_count: int

    @property
    def shared(self) -> dict[str, list[str]]:
        """Words among the top words of several classes, with these classes."""
        classes: dict[str, list[str]] = {}
        for label in self.cloud.labels:
            for word in self.cloud.top(label, self.count)[self.cloud.unit]:
                classes.setdefault(display_word(word), []).append(label)
        return {word: labels for word, labels in classes.items() if len(labels) > 1}

    def caption(self) -> str:
        """What the clouds show."""
        texts = f", from {self.text_count} texts" if self.text_count else ""
        return f"Top {self.count} {self.cloud.unit}s of each class{texts}"

    def notes(self) -> list[str]:
        """How far the classes overlap."""
        if len(self.cloud.labels) < 2:
            return ["Only one class was predicted."]
        return [f"Classes share {self.cloud.overlap(self.count):.1%} of their top {self.count} {self.cloud.unit}s."]

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each class and word."""
        import pandas

        tops = {label: self.cloud.top(label, self.count) for label in self.cloud.labels}
        frame = pandas.concat(tops, names=["class", "place"]).reset_index()
        return frame.assign(place=frame["place"] + 1, shared=frame[self.cloud.unit].map(display_word).isin(self.shared))


@checked
class Clouds(CorpusView):
    """Word clouds of many texts by predicted class; words that several classes share are underlined.

    `k` is the number of words of a cloud. `picked` is the [class, word] whose texts are listed; `texts_with` finds all
    of them. A finished Cloud is shown without texts. `idf` weighs words by their rarity, as in nbsal.clouds.rank.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Clouds(explain, ["A warm film.", "A dull bore."], picked=["positive", "warm"])
    >>> view.wait().texts_with("positive", "warm")
    [0]
    """

    inputs = ("k", "unit", "picked")
    accepts: ClassVar[tuple[type, ...]] = (Sequence, Cloud)
    _esm = asset("clouds.js")
    _css = asset("clouds.css")

    k = traitlets.Int(30, min=1, max=MAX_WORDS).tag(sync=True, page=True)
    unit = traitlets.Enum(("token", "word"), "token").tag(sync=True, page=True)
    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True, page=True)
    _plain = traitlets.Bool(False).tag(sync=True)
    _clouds = traitlets.List(traitlets.Dict()).tag(sync=True)
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
        self._layouts: dict[Any, Any] = {}
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
        """The numbers of the texts of a class that contain a word, highest score first."""
        return [number for number, *_ in _texts_with(self._saliencies, self.unit, label, word)]

    def selected(self) -> "pandas.DataFrame":
        """The texts of the picked word, one row each."""
        import pandas

        texts = _texts_with(self._saliencies, self.unit, *self.picked) if self.picked else []
        rows = [(n, s.text, s.prediction, float(sum(s.scores[i] for i in positions))) for n, s, positions in texts]
        return pandas.DataFrame(rows, columns=["number", "text", "prediction", "score"])

    def summarize(self, saliencies: Sequence[Saliency], inputs: dict[str, Any], job: jobs.Job) -> WordClouds:
        unit = inputs["unit"]
        cloud = self.plain_result
        if not isinstance(cloud, Cloud):
            cloud = self._cloud.get((saliencies, unit), lambda: rank(saliencies, self.idf, unit=unit))
        picked = tuple(inputs["picked"]) if inputs["picked"] else None
        texts = _texts_with(saliencies, unit, *picked) if picked else []
        return WordClouds(cloud, inputs["k"], picked, texts, len(saliencies))

    def publish(self, result: WordClouds) -> dict[str, Any]:
        texts = [
            {"number": number, "caption": saliency.caption(), "pieces": excerpt(saliency, positions)}
            for number, saliency, positions in result.texts[:MAX_TEXTS]
        ]
        return {
            "_clouds": [self._cloud_traits(result, label) for label in result.cloud.labels],
            "_texts_shown": {"picked": result.picked, "count": len(result.texts), "texts": texts},
            "_result": {"notes": [f"{result.caption()}.", *result.notes()]},
        }

    def render_html(self) -> str:
        result: WordClouds = self.result
        body = "".join(self._cloud_html(result, label) for label in result.cloud.labels)
        if result.picked:
            body += f"<p><b>{html.escape(': '.join(result.picked))}</b></p>"
            for _, saliency, positions in result.texts[:MAX_TEXTS]:
                body += f"<p>{excerpt_html(excerpt(saliency, positions))}</p>"
        return html.block_html(result.caption(), body, result.notes())

    def render_png(self) -> bytes:
        from matplotlib.figure import Figure

        result: WordClouds = self.result
        labels = result.cloud.labels
        figure = Figure(figsize=(4.5 * len(labels), 2.8), layout="constrained")
        panels = figure.subplots(1, len(labels), squeeze=False)[0]
        for ax, label in zip(panels, labels, strict=True):
            if self._layout(result, label):
                ax.imshow(result.cloud.wordcloud(label, result.count, SIZE))
            ax.set_title(html.visible(label))
            ax.axis("off")
        return text_lines.png(figure)

    def _cloud_traits(self, result: WordClouds, label: str) -> dict[str, Any]:
        shared = result.shared
        words = [
            {"word": word, "share": round(share, 4), "size": size, "x": x, "y": y + rise, "width": round(width, 1)}
            | ({"also": [other for other in shared[word] if other != label]} if word in shared else {})
            for word, share, size, x, y, width, rise in self._layout(result, label)
        ]
        return {"label": label, "words": words, "size": SIZE}

    def _layout(self, result: WordClouds, label: str) -> list[Any]:
        """The layout of a class's cloud with the measures of each word; cached while the cloud stays the same."""
        cloud, key = result.cloud, (label, result.count)
        if self._layouts.get("cloud") is not cloud:
            self._layouts = {"cloud": cloud}
        if key not in self._layouts:
            words = cloud.layout(label, result.count, SIZE) if _has_words(cloud, label) else []
            path = cloud.font(label, result.count)
            self._layouts[key] = [(*word, *_measure(word[0], word[2], path)) for word in words]
        return self._layouts[key]  # type: ignore[no-any-return]

    def _cloud_html(self, result: WordClouds, label: str) -> str:
        """The words of a class in order, larger if they weigh more; a sanitizer would drop a drawing."""
        words = ""
        for word, share, *_ in self._layout(result, label):
            also = result.shared.get(word, [])
            tip = f"{word}: {share:.0%} of the largest" + (f"; also in {', '.join(also)}" if also else "")
            style = f"font-size:{80 + 150 * share:.0f}%" + (";text-decoration:underline" if also else "")
            words += f'<span style="{style}" title="{html.escape(tip)}">{html.escape(word)}</span> '
        return f'<p style="line-height:1.6"><b>{html.escape(label)}</b><br>{words}</p>'


def _texts_with(
    saliencies: Sequence[Saliency], unit: str, label: str, word: str
) -> list[tuple[int, Saliency, list[int]]]:
    """The texts of a class that contain a word, with its positions; highest score first."""
    rows = []
    for number, saliency in enumerate(saliencies):
        if saliency.prediction != label:
            continue
        if unit == "word":
            positions = [
                i for entry in saliency.words if display_word(entry.text.lower()) == word for i in entry.tokens
            ]
        else:
            positions = [i for i in saliency.row.content if display_word(saliency.tokens[i]) == word]
        if positions:
            rows.append((float(sum(saliency.scores[i] for i in positions)), number, saliency, positions))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [row[1:] for row in rows]


def _has_words(cloud: Cloud, label: str) -> bool:
    """Whether a class has a word with a positive weight; others are not drawn."""
    return bool((cloud.top(label, 1)["weight"] > 0).any())


def _measure(word: str, size: int, path: str) -> tuple[float, float]:
    """The width of a word, and its height above the baseline: wordcloud returns the corner of its visible part."""
    from PIL import ImageFont

    font = ImageFont.truetype(path, size)
    return float(font.getlength(word)), float(-font.getbbox(word, anchor="ls")[1])
