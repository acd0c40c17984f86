"""What is said of a citation: its verdict with a sign, why, and how likely its statement is without documents."""

from collections.abc import Sequence

from nbsal.explain.citations.verdicts import (
    DECORATION,
    ELSEWHERE,
    FROM_DOCUMENTS,
    INVENTED,
    SUPPORTED,
    UNCLEAR,
    Verdict,
)
from nbsal.explain.sentences.reply_facts import PartFacts
from nbsal.explain.sentences.reply_sentences import change_text, joined
from nbsal.support.validation import plural

SIGNS = {SUPPORTED: "✓", FROM_DOCUMENTS: "✓", DECORATION: "○", ELSEWHERE: "→", INVENTED: "✕", UNCLEAR: "?"}
NOTES = (  # on citations, and on fields
    "each statement is scored again without its documents, and with them alone",
    "change of the log-probability of each value without its place in the documents",
)
USED = {  # whether a document is cited, and whether it is used
    (True, True): "cited and used",
    (True, False): "cited, not used",
    (False, True): "used, not cited",
}
WOULD_DO = "would do as well"
ALL = "all documents"
FIELD_LINK = "gives the value"


def verdict_words(verdict: str, instead: str = "") -> str:
    """A verdict with its sign, and the document that a statement is from instead.

    >>> verdict_words("decoration"), verdict_words("elsewhere", "document 2")
    ('○ decoration', '→ elsewhere: document 2')
    """
    return f"{SIGNS[verdict]} {verdict}{f': {instead}' if instead else ''}"


def reason(
    verdict: Verdict,
    cited: Sequence[str],
    instead: str = "",
    also: Sequence[str] = (),
    missing: Sequence[int] = (),
    misquotes: bool = False,
) -> str:
    """Why a citation of documents with these names has its verdict.

    `also` are the documents that would do as well, `missing` the numbers that no document has, and `misquotes` whether
    a quote does not stand in the documents letter by letter.

    >>> reason("decoration", ["document 1"])
    'Document 1 says so, but the statement would stand without it: the question says it too, or the model knows it.'
    >>> reason("unclear", ["document 1"], "document 2")
    'Document 1 says so, but the statement needs document 2.'
    >>> reason("elsewhere", [], "document 2", missing=[9])
    'The statement comes from document 2. There is no document 9.'
    """
    several, names = len(cited) > 1, joined(cited)
    it = "them" if several else "it"
    says = f"{names[:1].upper()}{names[1:]} {'say' if several else 'says'} so"
    part = f"Only a part of the statement comes from {names or 'the documents'}; where the rest comes from is unclear."
    sentence = {
        SUPPORTED: f"{says}, and the statement needs {' or '.join([it, *also])}.",
        DECORATION: f"{says}, but the statement would stand without {it}: the question says it too, or the model "
        "knows it.",
        ELSEWHERE: f"The statement comes from {instead}{f', not from {names}' if names else ''}.",
        INVENTED: "The statement comes from no document: the model knows it, or made it up.",
        UNCLEAR: f"{says}, but the statement needs {instead}." if instead else part,
    }[verdict]
    there = f" There is no document {joined([*map(str, missing)])}." if missing else ""
    return sentence + there + (" Its quote does not stand there letter by letter." if misquotes else "")


def effects_text(word: str, changes: Sequence[tuple[float, float, str]], count: int) -> str:
    """How likely a word of so many tokens is before and after each change, given both log-probabilities.

    >>> effects_text("Oslo", [(-0.1, -3.0, "without document 1"), (-3.0, -3.0, "with document 2 alone")], 1)
    'probability of “Oslo”: 90.5 % → 5.0 % without document 1 · still 5.0 % with document 2 alone'
    """
    texts = [
        f"{change_text(PartFacts('', '', '', (), (), before, count=count), after)} {how}"
        for before, after, how in changes
    ]
    return f"probability of “{word}”: {' · '.join(texts)}"


def fall_text(drop: float) -> str:
    """By how much the log-probability of a field's value falls without its place in the documents.

    >>> fall_text(3.25), fall_text(0.01)
    ('−3.2 nats', '0.0 nats')
    """
    return f"{0.0 - round(drop, 1):.1f} nats".replace("-", "\N{MINUS SIGN}")


def finding(verdicts: Sequence[str], noun: str) -> str:
    """How many citations, or fields, have each verdict.

    >>> finding(["supported", "decoration", "supported"], "citation")
    '3 citations: 2 supported, 1 decoration'
    """
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in SIGNS if verdict in verdicts)
    return f"{plural(len(verdicts), noun)}: {counts}"


def offer(count: int, passes: int) -> str:
    """What the check of so many citations takes.

    >>> offer(5, 24)
    'Check 5 citations (at most 24 passes)'
    """
    return f"Check {plural(count, 'citation')} (at most {passes:,} passes)"
