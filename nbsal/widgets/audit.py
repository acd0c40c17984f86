"""The Audit view: what a classifier goes by over many texts, and the texts, slices and mistakes behind each word."""

from collections.abc import Iterable, Mapping
from typing import Any

import traitlets

from nbsal.evaluation.audit import page
from nbsal.evaluation.audit.result import Audit as FinishedAudit
from nbsal.explain.lazy import Explainer
from nbsal.render import html, text_lines
from nbsal.render.headline import plain
from nbsal.render.names import word_name
from nbsal.render.text_lines import Bars, ScoredText
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import Text, checked, plural, text_list
from nbsal.widgets.base import View
from nbsal.widgets.content import audit_parts as parts
from nbsal.widgets.content.audit_parts import Hidden, ShownAudit
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset
from nbsal.widgets.page.last_value import LastValue

EXAMPLES, ROWS = 4, 8  # texts, and rows of each table, of static HTML
BARS, PICTURED = 12, 3  # words and texts of a picture


@checked
class Audit(View):
    """The words that a classifier goes by: a finished Audit, or an Explainer with texts and, if there are any, labels.

    `picked` are the words whose texts are listed, with what hiding all of them does; None is the word that the first
    sentence names, or else the first word. `opened` is the number of a text that is shown in full. `groups`, `other`
    and `least` are those of `nbsal.audit`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "occlusion")
    >>> view = Audit(explain, ["A dull film.", "A dull joy.", "A joy."], [1, 0, 1], least=1).wait()
    >>> view.picked, view.selected()["number"].tolist()
    (['dull'], [0, 1])
    """

    inputs = ("picked", "opened")
    accepts = (FinishedAudit,)
    _esm = asset("audit.js")
    _css = asset("audit.css")

    picked = traitlets.List(traitlets.Unicode(), default_value=None, allow_none=True).tag(sync=True, page=True)
    opened = traitlets.Int(None, allow_none=True, min=0).tag(sync=True, page=True)
    _audit = traitlets.Dict().tag(sync=True)
    _texts = traitlets.Dict().tag(sync=True)
    _choice = traitlets.Dict().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: Any,
        texts: Iterable[Text] | None = None,
        labels: Iterable[Any] | None = None,
        *,
        groups: Mapping[str, Iterable[Any]] | None = None,
        other: Explainer | None = None,
        least: int | None = None,
        **settings: Any,
    ) -> None:
        arguments: dict[str, Any] = {"labels": labels, "groups": groups, "other": other, "least": least}
        self._input_texts = None if texts is None else list(text_list(texts))
        self._arguments = {name: value for name, value in arguments.items() if value is not None}
        self._cache: Any = None
        self._finished: FinishedAudit | None = None
        self._constant = LastValue()
        super().__init__(source, **settings)
        self.observe(self._on_selection, names="picked")

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        if not self._input_texts:
            raise InputError("Audit needs at least one text. Pass texts=[...].", argument="texts", value=None)
        return {}

    def from_result(self, result: FinishedAudit) -> dict[str, Any]:
        if self._input_texts is not None or self._arguments:
            message = "A finished Audit has its texts and labels. Pass it alone, or an Explainer with texts."
            raise InputError(message, argument="source", value=result)
        self._finished = result
        self.subject = getattr(result.model, "subject", None)  # whose worker hides words together
        return {}

    @property
    def audit(self) -> FinishedAudit | None:
        """The audit on display, or None before the first one."""
        return None if self.result is None else self.result.audit

    def selected(self) -> "pandas.DataFrame":
        """The texts that have a picked word, with the decision with and without it, mistakes first."""
        return self.result.audit.without(self.picked or [])  # type: ignore[no-any-return]

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> ShownAudit:
        audit = self._finished = self._finished or self._run(job)
        known = list(dict.fromkeys(audit.words.word))
        picked = parts.first_picked(audit) if inputs["picked"] is None else list(dict.fromkeys(inputs["picked"]))
        for word in picked:
            if word not in known:
                raise UnknownName("picked", word, known)
        opened, last = inputs["opened"], len(audit.texts) - 1
        if opened is not None and opened > last:
            raise InputError(f"opened={opened}, but texts are numbered 0 to {last}.", argument="opened", value=opened)
        can_hide = len(picked) > 1 and all(each.model is not None for each in parts.models(audit))
        hidden = [parts.hide_together(audit, picked)] if can_hide else [parts.hidden_word(audit, w) for w in picked]
        return ShownAudit(audit, tuple(picked), hidden, opened)

    def publish(self, result: ShownAudit) -> dict[str, Any]:
        audit, together = result.audit, result.together
        constant, texts = self._constant.get(id(audit), lambda: _constant_traits(audit))
        names = {name: number for number, name in enumerate(constant["names"])}
        rows = [] if together is None else together.listed(audit)
        numbers = {row[0] for row in rows} | ({result.opened} if result.opened is not None else set())
        extra = {number: parts.text_trait(audit, number, names) for number in numbers if number not in texts}
        choice = {
            "picked": list(result.picked),
            "texts": len(together.effects[0].texts) if together else 0,
            "rows": rows,
            "sentence": together.sentence(audit) if together else None,
            "more": extra,
            "behind": "" if result.opened is None else parts.behind_words(audit, result.opened),
        }
        return {
            "picked": list(result.picked),
            "_audit": constant,
            "_texts": texts,
            "_choice": choice,
            "_result": {"notes": audit.notes},
        }

    def render_html(self) -> str:
        result: ShownAudit = self.result
        audit, titles = result.audit, parts.headings(result.audit)
        body = [html.headline_html(parts.headline(audit)), page.words_html(audit, titles["words"], ROWS)]
        body += [_texts_html(result)] if result.picked else []
        if result.opened is not None:
            behind = parts.behind_words(audit, result.opened)
            body += [html.heading_html(f"Text {result.opened}", behind), page.text_html(audit, result.opened)]
        if audit.labels is not None:
            body += [page.mistakes_html(audit, ROWS), page.slices_html(audit, titles["slices"], ROWS)]
        return html.block_html(audit.sentence, "".join(body), audit.notes, titled=False)

    def render_png(self) -> bytes:
        result: ShownAudit = self.result
        audit = result.audit
        texts = [ScoredText(plain(parts.headline(audit)), [], 1.0)]
        for hidden in result.hidden:
            for row in hidden.decisions(audit)[:PICTURED]:
                spans = page.spans_of(audit, row[0])
                texts.append(ScoredText(_caption(audit, row, hidden), spans, html.largest_score(spans)))
        figure = text_lines.draw(texts, notes=[" · ".join(audit.notes)], bars=_bars(audit))
        return text_lines.png(figure)

    def _run(self, job: jobs.Job) -> FinishedAudit:
        """Audit the texts; a cancelled audit resumes where it was."""
        from nbsal.evaluation.audit.measure import audit
        from nbsal.evaluation.cache import Cache

        self._cache = self._cache or Cache()
        run: dict[str, Any] = {"cache": self._cache, "progress": self.reporter(job), "cancel": job.cancel}
        return audit(self.explainer, self._input_texts or [], **self._arguments, **run)


def _constant_traits(audit: FinishedAudit) -> tuple[parts.Wired, dict[int, parts.Wired]]:
    """What the page draws of an audit whatever is picked, and the texts."""
    constant = parts.audit_trait(audit)
    names = {name: number for number, name in enumerate(constant["names"])}
    return constant, {number: parts.text_trait(audit, number, names) for number in parts.text_numbers(audit)}


def _caption(audit: FinishedAudit, row: parts.Decision, hidden: Hidden) -> str:
    """The number of a text, and its decisions."""
    word = "it" if len(hidden.words) == 1 else "them"
    return f"{row[0]} · {parts.decision_words(audit, row, word)}"


def _texts_html(result: ShownAudit) -> str:
    """The texts of the picked words, and what hiding those does."""
    audit = result.audit
    body = html.heading_html(result.heading(), "mistakes first" if audit.labels else "changed first")
    for hidden in result.hidden:
        body += html.headline_html(hidden.sentence(audit))
        for row in hidden.decisions(audit)[:EXAMPLES]:
            body += page.text_html(audit, row[0], hidden.words)
            body += f'<div style="{html.SMALL}">{html.escape(_caption(audit, row, hidden))}</div>'
    return body


def _bars(audit: FinishedAudit) -> list[Bars]:
    """The words that change most decisions, to the right what is corrected and to the left what breaks."""
    judged = audit.labels is not None
    names = ["corrects", "breaks"] if judged else ["flips"]
    frame = audit.words
    frame = frame[frame[names].sum(axis=1) > 0].head(BARS) if len(frame) else frame
    most = max((int(frame[name].max()) for name in names if len(frame)), default=1)
    rows = []
    for row in frame.to_dict("records"):
        rows.append((word_name(row["word"]), row[names[0]] / most, f"{names[0]} {row[names[0]]}"))
        if judged:
            rows.append(("", -row["breaks"] / most, f"breaks {row['breaks']}"))
    title = "Decisions that hiding a word corrects (right) or breaks (left)" if judged else "Decisions that change"
    return [Bars(f"{title} · {plural(len(audit.words), 'word')} tried", rows)] if rows else []
