"""Heads: blocks by heads, to be switched on and off while Mask-LRP explains the text with those that are on."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import traitlets
from numpy.typing import NDArray

from nbsal import trace
from nbsal.errors import InputError, UnknownName
from nbsal.explainer import Explainer
from nbsal.heads.statistics import HeadStudy
from nbsal.methods import catalogue
from nbsal.methods.relevance import MaskLRP
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.render import colours, png
from nbsal.saliency import Saliency
from nbsal.widgets import jobs
from nbsal.widgets.base import View
from nbsal.widgets.cached_view import CachedView
from nbsal.widgets.explainer_view import HighlightView, view_choices
from nbsal.widgets.export import asset
from nbsal.widgets.head_grid import CHOICES, KINDS, HeadGrid, rows_shown, toggle_heads

SYNT, POS = 0.1, 0.8  # the thresholds of a study's mask
LONGEST = 512  # tokens up to which a head's attention is drawn: it is their number's square
CELL = 24  # pixels of a head in a picture


class Heads(CachedView):
    """Which heads pass relevance on, and what each looks at.

    `kind` chooses among the heads found to follow syntax or position, `toggled` lists those [block, head] that are
    switched the other way, and `mask` is what comes of both. With a `study`, `synt` and `pos` are its thresholds.
    `head` is the one whose attention is shown, from the selected tokens or from all. A plain HeadMask or HeadStudy is
    shown without a text.

    >>> import nbsal
    >>> view = Heads(nbsal.load("demo/reviews"), text="A warm and funny film.", kind="none", toggled=[[2, 0]])
    >>> view.mask, view.wait().result.prediction
    (HeadMask(1 of 72 heads: nsubj 0, obj 0, amod 0, advmod 0, positional 0), 'positive')
    """

    reads = (*HighlightView.inputs, "kind", "synt", "pos", "toggled")
    inputs = (*reads, "head")
    rests: ClassVar[dict[str, tuple[str, ...] | None]] = {
        "grid": ("kind", "synt", "pos", "toggled"),
        "attention": ("text", "head"),
    }
    _esm = asset("heads.js")
    _css = asset("heads.css")

    kind = traitlets.Enum(CHOICES, "both").tag(sync=True)
    synt = traitlets.Float(SYNT, min=0.0, max=1.0).tag(sync=True)
    pos = traitlets.Float(POS, min=0.0, max=1.0).tag(sync=True)
    toggled = traitlets.List(traitlets.Any()).tag(sync=True)
    head = traitlets.List(traitlets.Any(), default_value=None, allow_none=True).tag(sync=True)
    _heads = traitlets.Dict().tag(sync=True)
    _attention = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, text: Any = None, *, study: HeadStudy | None = None, **settings: Any) -> None:
        self.study = source if isinstance(source, HeadStudy) else study
        self.grid: HeadGrid | None = None
        if isinstance(source, HeadMask | HeadStudy):
            self._known, self._given = {}, None
            self._found = source if isinstance(source, HeadMask) else None
            View.__init__(self, **settings)
            return
        if isinstance(source, Subject):
            source = Explainer(source, "mask-lrp", mask=self._own(source, None))
        elif not isinstance(source, Explainer):
            kinds = "an Explainer, a Subject, a HeadStudy or a HeadMask"
            raise InputError(f"{type(self).__name__} shows {kinds}, not {type(source).__name__}.")
        self._found = self._own(source.subject, source.method)
        source = self.bound(source)
        super().__init__(source, text, **{"_choices": self.offered(source)} | settings)

    def bound(self, source: Explainer) -> Explainer:
        """The explainer whose heads are switched: Mask-LRP, where another one was given."""
        if isinstance(source.method, MaskLRP):
            return source
        return Explainer(source.subject, "mask-lrp", mask=self._found, long=source.long)

    def offered(self, source: Explainer) -> dict[str, Any]:
        """What the page may choose from: methods that read heads."""
        known = {name for name in catalogue.names() if isinstance(catalogue.create(name), MaskLRP)}
        found = view_choices(source)
        methods = [entry for entry in found["methods"] if entry[0] in known | {source.method.name}]
        return found | {"methods": methods}

    @property
    def mask(self) -> HeadMask:
        """The heads that are on."""
        return self._mask({name: getattr(self, name) for name in Heads.reads})

    @traitlets.validate("toggled")
    def _valid_toggled(self, proposal: Any) -> Any:
        return [self._checked(head) for head in proposal["value"]]

    @traitlets.validate("head")
    def _valid_head(self, proposal: Any) -> Any:
        return None if proposal["value"] is None else self._checked(proposal["value"])

    def adjusted(self, wanted: dict[str, Any]) -> Explainer:
        own: Any = self.explainer.method
        method = own if wanted["method"] == own.name else catalogue.create(wanted["method"])
        if isinstance(method, MaskLRP):
            masked = replace(method, mask=self._mask(wanted))
            return Explainer(self.subject, masked, long=self.explainer.long)
        return super().adjusted(wanted)

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        return self.find_grid(None, wanted, job) if self.explainer is None else super().compute(wanted, job)

    def find_grid(self, reading: Saliency | None, wanted: dict[str, Any], job: jobs.Job) -> HeadGrid:
        """The heads and what they follow."""
        return HeadGrid(
            self._base(wanted), rows_shown(self._base(wanted), wanted["kind"]), wanted["toggled"], self.study
        )

    def find_attention(self, reading: Saliency, wanted: dict[str, Any], job: jobs.Job) -> dict[str, Any] | None:
        """Where the chosen head looks on this text: [query, key] of one byte each."""
        if wanted["head"] is None or len(reading.row) > LONGEST:
            return None
        maps, tops = self.cached("maps", wanted["text"], lambda: self._maps(wanted["text"]))
        at = tuple(wanted["head"])
        return {"head": list(at), "size": maps.shape[-1], "top": float(tops[at]), "map": maps[at].tobytes()}

    def show_attention(self, found: dict[str, Any] | None) -> None:
        """The chosen head's attention."""
        self._attention = found or {}

    def show_grid(self, found: HeadGrid | None) -> None:
        """The heads; while there is no new grid, the old one stays."""
        if found is not None:
            self.grid = found
            on = found.before.selected.astype(int).tolist()
            self._heads = {"kinds": found.kinds(), "about": found.about(), "on": on, "studied": found.study is not None}

    def publish(self, found: Any) -> None:
        if isinstance(found, HeadGrid):
            self.show_grid(found)
        else:
            super().publish(found)

    def html(self) -> str:
        text = "" if isinstance(self.result, HeadGrid) else self.result.to_html()
        return text + ("" if self.grid is None else self.grid.to_html())

    def picture(self) -> bytes:
        sheet = png.Picture()
        if isinstance(self.result, Saliency):
            sheet.shaded(self.result.caption(), self.result.scored_spans(), self.result.largest)
        if self.grid is not None:
            draw_grid(sheet, self.grid)
        return sheet.png()

    def _own(self, subject: Subject, method: Any) -> HeadMask | None:
        """The heads found for that model; none are where nobody looked."""
        if self.study is not None:
            return self.study.mask()
        found = getattr(method, "mask", None) or subject.mask
        return found if found is not None else HeadMask.from_array(np.zeros((subject.depth, subject.heads)))

    def _base(self, wanted: dict[str, Any]) -> HeadMask:
        if self.study is not None:
            return self.study.mask(synt=wanted["synt"], pos=wanted["pos"])
        assert self._found is not None, "a view without a study has a mask"
        return self._found

    def _mask(self, wanted: dict[str, Any]) -> HeadMask:
        return toggle_heads(rows_shown(self._base(wanted), wanted["kind"]), wanted["toggled"])

    def _maps(self, text: Any) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Every head's attention as shares of its largest, [block, head, query, key], and that largest."""
        read = trace.record(self.subject, self.subject.encode(text), needs={"attention"})
        maps = np.stack([read.attention[block][0].float().cpu().numpy() for block in range(self.subject.depth)])
        tops = maps.max((-1, -2))
        return np.rint(255 * maps / tops[..., None, None]).astype(np.uint8), tops

    def _checked(self, head: Any) -> list[int]:
        shape = self.study.shape if self.study is not None else self._found.shape  # type: ignore[union-attr]
        valid = [range(size) for size in shape]
        if not isinstance(head, list | tuple) or len(head) != 2:
            raise InputError(f"A head is [block, head], not {head!r:.60}.")
        for place, known in zip(head, valid, strict=True):
            if place not in known:
                raise UnknownName("head", list(head), [f"blocks 0 to {shape[0] - 1}, heads 0 to {shape[1] - 1}"])
        return [int(place) for place in head]


def draw_grid(sheet: png.Picture, grid: HeadGrid) -> None:
    """The heads, a row a block, on a picture's sheet."""
    on = grid.mask.selected
    for block, kinds in enumerate(grid.kinds()):
        sheet.write(f"block {block}", size=9)
        for head, kind in enumerate(kinds):
            sheet.x = CELL * (3.0 + head)
            shade = (colours.FOR, 0.45, False) if on[block, head] else None
            sheet.write(f" {KINDS[kind] or '·'} ", bold=bool(on[block, head]), shade=shade)
        sheet.feed()
    sheet.notes(grid.notes())
