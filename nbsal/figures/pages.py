"""Pages: a whole data set highlighted, and the index of a paper's figures; right in light and dark, without scripts."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbsal.errors import InputError
from nbsal.render import colours, html
from nbsal.saliency import Saliency

LEVELS = 8  # shades of a colour
PLAIN = (
    "body{font-family:sans-serif;max-width:64em;margin:1.5em auto;padding:0 1em;line-height:1.5}"
    "section{margin:1.6em 0;content-visibility:auto;contain-intrinsic-size:auto 14em}"
    "h2{font-size:1.05em;margin:0 0 .3em}p{margin:.2em 0;overflow-wrap:anywhere;white-space:pre-wrap}"
    "small{opacity:.8}img{max-width:100%;box-sizing:border-box;background:#fff;padding:.4em;border-radius:4px}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85em}caption{text-align:left;opacity:.8}"
    "th,td{border-bottom:1px solid #8886}"
)


@dataclass(frozen=True)
class Page:
    """A page of HTML; `body` is HTML already, `title` is plain text.

    >>> "<title>a &lt; b</title>" in Page("a < b", "<p>body</p>").to_html()
    True
    """

    title: str
    body: str
    sheet: str = ""

    def to_html(self) -> str:
        """The whole page."""
        return html.page_html(self.title, f"<style>{PLAIN}{self.sheet}</style>{self.body}")

    def save(self, path: str | Path) -> None:
        """Write it as a file of its own."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        scoped = f"<style>{self.sheet}</style>" if self.sheet else ""
        return f"<div>{scoped}{self.body}</div>"


def supplement(
    explanations: Mapping[str, Sequence[Saliency]],
    labels: Sequence[str] | None = None,
    title: str = "Highlighted texts",
) -> Page:
    """The supplement of Hou and Castanon: every text of a data set as every explainer highlights it, on one page.

    `labels` are the gold ones. Each text is coloured up to its own largest score, in a few shades, so that thousands of
    texts fit.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = supplement({"gradcam": explain.map(["A <b> joy"], progress=False)})
    >>> "&lt;" in found.body, "<b>" in found.body
    (True, False)
    """
    sizes = {len(found) for found in explanations.values()} | (set() if labels is None else {len(labels)})
    if len(sizes) != 1:
        raise InputError("The supplement needs one explanation a text from every explainer, and one label where given.")
    texts = zip(*explanations.values(), strict=True)
    parts = [
        _highlighted(number, dict(zip(explanations, said, strict=True)), None if labels is None else labels[number])
        for number, said in enumerate(texts)
    ]
    note = f"<p><small>Colours go up to each text's largest score. {_legend()}</small></p>"
    return Page(title, f"<h1>{html.escape(title)}</h1>{note}{''.join(parts)}", _shades())


def picture(png: bytes, alternative: str) -> str:
    """A picture as it stands in a page that needs no other file.

    >>> picture(b"", "nothing")
    '<img alt="nothing" src="data:image/png;base64,">'
    """
    return f'<img alt="{html.escape(alternative)}" src="data:image/png;base64,{b64encode(png).decode()}">'


def section(number: str, title: str, footing: str, body: str) -> str:
    """A figure or table with its number, what it shows, and what it rests on; `body` is HTML.

    >>> section("Table 1", "Areas", "two texts", "").startswith('<section><h2 id="Table-1">Table 1. Areas</h2>')
    True
    """
    head = f'<h2 id="{html.escape(number.replace(" ", "-"))}">{html.escape(number)}. {html.escape(title)}</h2>'
    return f'<section>{head}<div class="wide">{body}</div><p><small>{html.escape(footing)}</small></p></section>'


def contents(numbers: Iterable[str]) -> str:
    """Links to the sections of a page.

    >>> contents(["Figure 1"])
    '<nav><a href="#Figure-1">Figure 1</a></nav>'
    """
    links = (f'<a href="#{html.escape(n.replace(" ", "-"))}">{html.escape(n)}</a>' for n in numbers)
    return f"<nav>{' · '.join(links)}</nav>"


def _highlighted(number: int, said: Mapping[str, Saliency], label: str | None) -> str:
    first = next(iter(said.values()))
    gold = "" if label is None else f", gold {label}"
    head = f"{number}: predicted {first.prediction} ({float(first.probabilities.max()):.1%}){gold}"
    rows = (f"<p><small>{html.escape(name)}</small> {''.join(_shaded(one))}</p>" for name, one in said.items())
    return f"<section><h2>{html.escape(head)}</h2>{''.join(rows)}</section>"


def _shaded(saliency: Saliency) -> Iterator[str]:
    """The text with a class for every shade."""
    for at, part in enumerate(saliency.scored_spans()):
        if at:
            yield " ‖ "
        for stretch in part:
            share = (stretch.score or 0.0) / (saliency.largest or 1.0)
            level = min(LEVELS, round(abs(share) * LEVELS))
            text = html.escape(stretch.text)
            yield f"<i class={'f' if share > 0 else 'a'}{level}>{text}</i>" if level else text


def _shades() -> str:
    """One rule a shade, in the colours of every other view."""
    rules = ["i{font-style:normal;border-radius:3px}"]
    for sign, name in ((1, "f"), (-1, "a")):
        for level in range(1, LEVELS + 1):
            (r, g, b), alpha = colours.colour(sign * level, LEVELS)
            line = "" if sign > 0 else ";text-decoration:underline dotted"
            rules.append(f".{name}{level}{{background:rgba({r},{g},{b},{alpha:.2f}){line}}}")
    return "".join(rules)


def _legend() -> str:
    return f'<i class="f{LEVELS}">for the class</i> <i class="a{LEVELS}">against it</i>'
