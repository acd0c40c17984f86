"""Clouds: what a model takes for each of its classes, a cloud of words a class; a click shows their texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.clouds import Cloud, display_word, rank
from nbsal.errors import InputError, UnknownName
from nbsal.render import html, png
from nbsal.saliency import Saliency
from nbsal.validation import Text
from nbsal.widgets import jobs
from nbsal.widgets.base import View
from nbsal.widgets.corpus_view import CorpusView, excerpt, excerpt_html
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

SIZE = (600, 300)  # a cloud's own pixels; a page scales it
LISTED = 20  # texts of a word that are listed
MOST = 200


@dataclass(frozen=True, eq=False)
class Ranked:
    """Clouds of so many words, and the texts of one of them."""

    cloud: Cloud
    count: int
    picked: tuple[str, str] | None
    texts: Sequence[tuple[int, Saliency, list[int]]]  # number, saliency, where the word stands
    known: int  # texts that were ranked; 0 where only their sums are known

    @property
    def shared(self) -> dict[str, list[str]]:
        """Words among the first of several classes, with these."""
        classes: dict[str, list[str]] = {}
        for label in self.cloud.labels:
            for word in self.cloud.top(label, self.count)[self.cloud.unit]:
                classes.setdefault(display_word(word), []).append(label)
        return {word: labels for word, labels in classes.items() if len(labels) > 1}

    def caption(self) -> str:
        """What the clouds are of."""
        texts = f" of {self.known} texts" if self.known else ""
        return f"the first {self.count} {self.cloud.unit}s of each class{texts}"

    def notes(self) -> list[str]:
        """How the classes overlap."""
        if len(self.cloud.labels) < 2:
            return ["Only one class was predicted."]
        return [f"Classes share {self.cloud.overlap(self.count):.1%} of their first {self.count} {self.cloud.unit}s."]

    def to_frame(self) -> "pandas.DataFrame":
        """One row a class and word."""
        import pandas

        tops = {label: self.cloud.top(label, self.count) for label in self.cloud.labels}
        frame = pandas.concat(tops, names=["class", "place"]).reset_index()
        return frame.assign(place=frame["place"] + 1, shared=frame[self.cloud.unit].map(display_word).isin(self.shared))


class Clouds(CorpusView):
    """Clouds of many texts by predicted class; words that several classes share are underlined.

    `k` is how many words a cloud has, `picked` the [class, word] whose texts are listed; `texts_with` finds them all.
    A Cloud that is there already is shown without texts.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> view = Clouds(explain, ["A warm film.", "A dull bore."], picked=["positive", "warm"])
    >>> view.wait().texts_with("positive", "warm")
    [0]
    """

    inputs = ("k", "unit", "picked")
    _esm = asset("clouds.js")
    _css = asset("clouds.css")

    k = traitlets.Int(30, min=1, max=MOST).tag(sync=True)
    unit = traitlets.Enum(("token", "word"), "token").tag(sync=True)
    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True)
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
        self.cloud: Cloud | None = None
        self._ranked: tuple[Any, str, Cloud | None] = None, "", None
        self._layouts: dict[Any, Any] = {}
        if isinstance(source, Cloud):
            self.cloud, self._found, self._texts = source, [], []
            View.__init__(self, **settings | {"_plain": True, "unit": source.unit})
        else:
            super().__init__(source, texts, **settings)
        self.observe(self._selected, names="picked")

    @traitlets.validate("picked")
    def _valid_picked(self, proposal: Any) -> Any:
        if proposal["value"] is not None and len(proposal["value"]) != 2:
            raise InputError(f"What is picked is [class, word], not {proposal['value']!r:.60}.")
        return proposal["value"]

    @traitlets.validate("unit")
    def _valid_unit(self, proposal: Any) -> Any:
        if self._plain and self.cloud is not None and proposal["value"] != self.cloud.unit:
            raise UnknownName("unit of this cloud", proposal["value"], [self.cloud.unit])
        return proposal["value"]

    def texts_with(self, label: str, word: str) -> list[int]:
        """The numbers of the texts of that class that have the word, where it counts most first."""
        return [number for number, *_ in _having(self._found, self.unit, label, word)]

    def selected(self) -> "pandas.DataFrame":
        """The texts of the word that is picked, a row each."""
        import pandas

        found = _having(self._found, self.unit, *self.picked) if self.picked else []
        rows = [(n, s.text, s.prediction, float(sum(s.scores[i] for i in places))) for n, s, places in found]
        return pandas.DataFrame(rows, columns=["number", "text", "prediction", "score"])

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        return self.seen([], wanted, job) if self._plain else super().compute(wanted, job)

    def seen(self, found: Sequence[Saliency], wanted: dict[str, Any], job: jobs.Job) -> Ranked:
        cloud: Any = self.cloud
        if not self._plain:
            of, unit, cloud = self._ranked
            if of is not found or unit != wanted["unit"]:
                cloud = rank(found, self.idf, unit=wanted["unit"])
                self._ranked = found, wanted["unit"], cloud
        picked = tuple(wanted["picked"]) if wanted["picked"] else None
        texts = _having(found, wanted["unit"], *picked) if picked else []
        return Ranked(cloud, wanted["k"], picked, texts, len(found))

    def publish(self, found: Ranked) -> None:
        self.cloud = found.cloud
        self._clouds = [self._wired(found, label) for label in found.cloud.labels]
        listed = [{"number": n, "caption": s.caption(), "pieces": excerpt(s, at)} for n, s, at in found.texts[:LISTED]]
        self._texts_shown = {"picked": found.picked, "count": len(found.texts), "texts": listed}
        self._result = {"notes": [f"{found.caption()}.", *found.notes()]}

    def html(self) -> str:
        found: Ranked = self.result
        body = "".join(self._cloud_html(found, label) for label in found.cloud.labels)
        if found.picked:
            body += f"<p><b>{html.escape(': '.join(found.picked))}</b></p>"
            body += "".join(f"<p>{excerpt_html(excerpt(s, at))}</p>" for _, s, at in found.texts[:LISTED])
        return html.block_html(found.caption(), body, found.notes())

    def picture(self) -> bytes:
        from matplotlib.figure import Figure

        found: Ranked = self.result
        labels = found.cloud.labels
        figure = Figure(figsize=(4.5 * len(labels), 2.8), layout="constrained")
        panels = figure.subplots(1, len(labels), squeeze=False)[0]
        for ax, label in zip(panels, labels, strict=True):
            if self._laid(found, label):
                ax.imshow(found.cloud.wordcloud(label, found.count, SIZE))
            ax.set_title(html.visible(label), parse_math=False)
            ax.axis("off")
        return png.draw_axes(panels[0])

    def _wired(self, found: Ranked, label: str) -> dict[str, Any]:
        shared = found.shared
        words = [
            {"word": word, "share": round(share, 4), "size": size, "x": x, "y": y + rise, "width": round(width, 1)}
            | ({"also": [other for other in shared[word] if other != label]} if word in shared else {})
            for word, share, size, x, y, width, rise in self._laid(found, label)
        ]
        return {"label": label, "words": words, "size": SIZE}

    def _laid(self, found: Ranked, label: str) -> list[Any]:
        """A class's layout, each word measured; kept while the cloud and its size stay."""
        key = label, found.count
        if self._layouts.get("of") is not found.cloud:
            self._layouts = {"of": found.cloud}
        if key not in self._layouts:
            placed = found.cloud.layout(label, found.count, SIZE) if _speaks(found.cloud, label) else []
            file = found.cloud.font(label, found.count)
            self._layouts[key] = [(*entry, *_measured(entry[0], entry[2], file)) for entry in placed]
        return self._layouts[key]  # type: ignore[no-any-return]

    def _cloud_html(self, found: Ranked, label: str) -> str:
        """Words in order, larger where they weigh more: a sanitiser would drop a drawing."""
        words = ""
        for word, share, *_ in self._laid(found, label):
            also = found.shared.get(word, [])
            tip = f"{word}: {share:.0%} of the largest" + (f"; in {', '.join(also)}" if also else "")
            style = f"font-size:{80 + 150 * share:.0f}%" + (";text-decoration:underline" if also else "")
            words += f'<span style="{style}" title="{html.escape(tip)}">{html.escape(word)}</span> '
        return f'<p style="line-height:1.6"><b>{html.escape(label)}</b><br>{words}</p>'

    def _title(self) -> str:
        return f"Clouds: {self.result.caption()}" if self.result is not None else "Clouds"


def _having(found: Sequence[Saliency], unit: str, label: str, word: str) -> list[tuple[int, Saliency, list[int]]]:
    """Texts of a class with a word, and where it stands in them; where it counts most first."""
    rows = []
    for number, saliency in enumerate(found):
        if saliency.prediction != label:
            continue
        if unit == "word":
            places = [i for one in saliency.words if display_word(one.text.lower()) == word for i in one.tokens]
        else:
            places = [i for i in saliency.row.content if display_word(saliency.tokens[i]) == word]
        if places:
            rows.append((float(sum(saliency.scores[i] for i in places)), number, saliency, places))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [row[1:] for row in rows]


def _speaks(cloud: Cloud, label: str) -> bool:
    """Whether there is anything to draw for a class."""
    return bool((cloud.top(label, 1)["weight"] > 0).any())


def _measured(word: str, size: int, file: str) -> tuple[float, float]:
    """How long a word is, and how high it stands above its line: wordcloud places what is seen of it."""
    from PIL import ImageFont

    shape = ImageFont.truetype(file, size)
    return float(shape.getlength(word)), float(-shape.getbbox(word, anchor="ls")[1])
