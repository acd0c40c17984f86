"""HTML pages: the highlighted texts of a whole data set, and the index of a paper's figures.

The pages need no scripts and follow the light or dark mode of the browser.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbsal.explain.saliency import Saliency
from nbsal.render import colours, html
from nbsal.support.errors import InputError
from nbsal.support.validation import check_one_per_text, checked

LEVELS = 8  # shades of a colour
PAGE_STYLE = (
    "body{font-family:sans-serif;max-width:64em;margin:1.5em auto;padding:0 1em;line-height:1.5}"
    "section{margin:1.6em 0;content-visibility:auto;contain-intrinsic-size:auto 14em}"
    "h2{font-size:1.05em;margin:0 0 .3em}p{margin:.2em 0;overflow-wrap:anywhere;white-space:pre-wrap}"
    "small{opacity:.8}img{max-width:100%;box-sizing:border-box;background:#fff;padding:.4em;border-radius:4px}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85em}caption{text-align:left;opacity:.8}"
    "th,td{border-bottom:1px solid #8886}"
)


@checked
@dataclass(frozen=True)
class Page:
    """A page; `title` is plain text, `body` is HTML and `stylesheet` is CSS.

    >>> "<title>a &lt; b</title>" in Page("a < b", "<p>body</p>").to_html()
    True
    """

    title: str
    body: str
    stylesheet: str = ""

    def to_html(self) -> str:
        """Return the page as a complete HTML document."""
        return html.page_html(self.title, f"<style>{PAGE_STYLE}{self.stylesheet}</style>{self.body}")

    def save(self, path: str | Path) -> None:
        """Write the page to a self-contained file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        scoped = f"<style>{self.stylesheet}</style>" if self.stylesheet else ""
        return f"<div>{scoped}{self.body}</div>"


@checked
def supplement(
    explanations: Mapping[str, Sequence[Saliency]],
    labels: Sequence[str] | None = None,
    title: str = "Highlighted texts",
) -> Page:
    """The supplement of Hou and Castanon: every text of a data set as each explainer highlights it, on one page.

    `labels` are the gold labels. Colours are scaled to each text's largest score and have few shades, so that a page
    holds thousands of texts.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> page = supplement({"gradcam": explain.map(["A <b> joy"], progress=False)})
    >>> "&lt;" in page.body, "<b>" in page.body
    (True, False)
    """
    sizes = {name: len(saliencies) for name, saliencies in explanations.items()}
    if len(set(sizes.values())) != 1:
        raise InputError(
            f"Every explainer must explain the same texts, but explanations={sizes}.",
            argument="explanations",
            value=sizes,
        )
    texts = list(zip(*explanations.values(), strict=True))
    if labels is not None:
        check_one_per_text(labels, "labels", len(texts))
    gold = [None] * len(texts) if labels is None else labels
    sections = [
        _text_section(number, dict(zip(explanations, saliencies, strict=True)), label)
        for number, (saliencies, label) in enumerate(zip(texts, gold, strict=True))
    ]
    legend = f'<i class="f{LEVELS}">for the class</i> <i class="a{LEVELS}">against the class</i>'
    note = f"<p><small>Colours are scaled to each text's largest score. {legend}</small></p>"
    return Page(title, f"<h1>{html.escape(title)}</h1>{note}{''.join(sections)}", _shade_rules())


@checked
def picture(png: bytes, alternative: str) -> str:
    """Return an HTML image with the picture embedded; `alternative` is its alt text.

    >>> picture(b"", "nothing")
    '<img alt="nothing" src="data:image/png;base64,">'
    """
    return f'<img alt="{html.escape(alternative)}" src="data:image/png;base64,{b64encode(png).decode()}">'


@checked
def section(number: str, title: str, note: str, body: str) -> str:
    """Return the HTML of a figure or table with its number, title and a note below; `body` is HTML.

    >>> section("Table 1", "Areas", "two texts", "").startswith('<section><h2 id="Table-1">Table 1. Areas</h2>')
    True
    """
    head = f'<h2 id="{html.escape(number.replace(" ", "-"))}">{html.escape(number)}. {html.escape(title)}</h2>'
    return f'<section>{head}<div class="wide">{body}</div><p><small>{html.escape(note)}</small></p></section>'


@checked
def contents(numbers: Sequence[str]) -> str:
    """Return links to the sections with these numbers.

    >>> contents(["Figure 1"])
    '<nav><a href="#Figure-1">Figure 1</a></nav>'
    """
    links = (f'<a href="#{html.escape(n.replace(" ", "-"))}">{html.escape(n)}</a>' for n in numbers)
    return f"<nav>{' · '.join(links)}</nav>"


def _text_section(number: int, saliencies: Mapping[str, Saliency], label: str | None) -> str:
    first = next(iter(saliencies.values()))
    gold = "" if label is None else f", gold {label}"
    head = f"{number}: predicted {first.outcome()}{gold}"
    lines = [
        f"<p><small>{html.escape(name)}</small> {''.join(_shaded_spans(saliency))}</p>"
        for name, saliency in saliencies.items()
    ]
    return f"<section><h2>{html.escape(head)}</h2>{''.join(lines)}</section>"


def _shaded_spans(saliency: Saliency) -> Iterator[str]:
    """Yield the text as HTML with a CSS class per shade."""
    for number, part in enumerate(saliency.scored_spans()):
        if number:
            yield " ‖ "
        for span in part:
            share = (span.score or 0.0) / (saliency.largest or 1.0)
            level = min(LEVELS, round(abs(share) * LEVELS))
            text = html.escape(span.text)
            yield f"<i class={'f' if share > 0 else 'a'}{level}>{text}</i>" if level else text


def _shade_rules() -> str:
    """Return one CSS rule per shade, in the colours of all other views."""
    rules = ["i{font-style:normal;border-radius:3px}"]
    for sign, name in ((1, "f"), (-1, "a")):
        for level in range(1, LEVELS + 1):
            (r, g, b), alpha = colours.colour(sign * level, LEVELS)
            line = "" if sign > 0 else ";text-decoration:underline dotted"
            rules.append(f".{name}{level}{{background:rgba({r},{g},{b},{alpha:.2f}){line}}}")
    return "".join(rules)
