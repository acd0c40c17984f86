"""What an answer shows, in words and shares: names of sources, phrases of the reply, its matrix and its headline."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbsal.answers.reading import Reading
from nbsal.answers.sources import Source
from nbsal.render.headline import Phrase, percent

ALONE = 0.4  # share above which one source is named alone
MOST = 0.5
NOTABLE = 0.1  # share against from which a source is named
OWN = 0.1  # change of a token's probability without all sources, below which the model wrote from itself
LONG = 40  # words from which the matrix has sentences instead of phrases
SHORT_WORD = 3  # characters
PHRASE = 6  # words at most
NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten".split()
SO_FAR = "the reply so far"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SourceName:
    """What a source is called: on its card, above a column, and in a sentence."""

    label: str
    short: str
    sentence: str
    title: str = ""


@dataclass(frozen=True)
class Contribution:
    """What the sources add to a part of the reply (all of it if `part` is blank), or to its token rather than a rival.

    `shares` are those of each source and, last, of the reply so far; `change` is by what share the probability of a
    token changes without any source, where that is known.
    """

    part: str
    rival: str
    shares: Sequence[float]
    change: float | None = None
    about_target: bool = True


def source_names(sources: Sequence[Source]) -> list[SourceName]:
    """The names of the sources of a prompt.

    >>> [name.label for name in source_names([Source("message", "Where?", role="user"), Source("document", "Oslo.")])]
    ['You', 'Document 1']
    """
    users = [number for number, source in enumerate(sources) if source.role == "user"]
    documents = [number for number, source in enumerate(sources) if source.kind == "document"]
    names = []
    for number, source in enumerate(sources):
        if source.kind == "document":
            place = documents.index(number) + 1
            name = SourceName(f"Document {place}", f"Doc {place}", f"document {place}", source.title)
        elif source.kind == "prompt":
            name = SourceName("Prompt", "Prompt", "the prompt")
        elif source.role == "user":
            last = number == users[-1]
            name = SourceName("You", "You", "your question" if last else f"your message {users.index(number) + 1}")
        else:
            role = {"assistant": "model"}.get(source.role, source.role)
            name = SourceName(role.capitalize(), role.capitalize(), f"the {role} message")
        names.append(name)
    return names


def phrases(reading: Reading) -> list[tuple[int, ...]]:
    """The tokens of each phrase of a short reply, or of each sentence of a long one.

    A phrase ends behind punctuation, and before a short word that follows a longer one: "was borrowed | by Boris,".
    """
    words = reading.reply_units("word")
    if sum(unit.text[:1].isalnum() for unit in words) >= LONG:
        return [unit.tokens for unit in reading.reply_units("sentence")]
    found: list[list[int]] = []
    size, before = 0, ""
    for unit in words:
        is_word = unit.text[:1].isalnum()
        after_mark = before != "" and not before[:1].isalnum()
        if not found or (is_word and (after_mark or size >= PHRASE or len(unit.text) <= SHORT_WORD < len(before))):
            found.append([])
            size = 0
        found[-1] += unit.tokens
        size, before = size + is_word, unit.text
    return [tuple(tokens) for tokens in found]


def shares(reading: Reading, scores: Floats) -> Floats:
    """What each source adds, and last what the reply so far does, as signed shares whose sizes sum to 1.

    `scores` are those of a target, one for each token of prompt and reply. The template's own tokens are left out.
    """
    number_of_reply = len(reading.prompt.sources)
    owners = np.array([*reading.prompt.owners, *[number_of_reply] * len(reading.reply_ids)])[: len(scores)]
    owners[np.array(reading.row.special)[: len(scores)]] = -1
    sums = [float(scores[owners == number].sum()) for number in range(number_of_reply + 1)]
    total = float(np.abs(sums).sum())
    return np.array(sums) / total if total else np.zeros(len(sums))


def matrix(reading: Reading, scores: Floats) -> Floats:
    """The shares of every source in each phrase of the reply, [phrase, source and reply so far]."""
    return np.stack([shares(reading, scores[list(tokens)].sum(0)) for tokens in phrases(reading)])


def matrix_finding(table: Floats, names: Sequence[SourceName]) -> str:
    """Which source most phrases lean on.

    >>> matrix_finding(np.array([[0.8, 0.2], [0.3, -0.7]]), [SourceName("Prompt", "Prompt", "the prompt")])
    'Two of two phrases lean on the prompt'
    """
    best = [int(row.argmax()) for row in table if row.max() > 0]
    if not best:
        return "No phrase leans on a source"
    source = max(sorted(set(best)), key=best.count)
    count, total = best.count(source), len(table)
    name = names[source].sentence if source < len(names) else SO_FAR
    verb = "leans" if count == 1 else "lean"
    noun = "phrase" if total == 1 else "phrases"
    return f"{_number(count).capitalize()} of {_number(total).lower()} {noun} {verb} on {name}"


def headline(contribution: Contribution, names: Sequence[SourceName]) -> list[Phrase]:
    """Where a part of the reply comes from, in one sentence.

    >>> document = SourceName("Document 1", "Doc 1", "document 1", "Address")
    >>> "".join(text for _, text in headline(Contribution("Oslo", "", [0.9, 0.1]), [document]))
    '“Oslo” comes mostly from document 1, Address (90\u202f%).'
    """
    lead = _lead(contribution)
    change = contribution.change
    if change is not None and abs(change) < OWN and not contribution.rival:
        words = f"rom the model itself: the sources change it by {percent(abs(change), 0)}."
        return [("text", "▲ "), *_start(lead, "comes mostly f", "Mostly f", words)]
    shares, so_far = list(contribution.shares[:-1]), contribution.shares[-1]
    order = sorted(range(len(shares)), key=lambda number: -shares[number])
    best = order[0] if order and shares[order[0]] > 0 else None
    about = contribution.about_target
    if contribution.part and so_far > ALONE and (best is None or so_far > shares[best]):
        verb = _verb("follows", about, so_far)
        rest: list[Phrase] = []
        if best is not None and shares[best] >= NOTABLE:
            rest.append(("text", f"; {names[best].sentence} gives {percent(shares[best], 0)}"))
        return [*_whole(lead), ("text", f" {verb} {SO_FAR} ({percent(so_far, 0)})"), *rest, ("text", ".")]
    if best is None:
        return [*_whole(lead), ("text", " has no source that speaks for it.")]
    if shares[best] > ALONE:
        verb = _verb("comes", about, shares[best])
        against = _against(contribution, names)
        return [
            *_whole(lead),
            ("text", f" {verb} "),
            *_named(names[best]),
            _share(shares[best]),
            *against,
            ("text", "."),
        ]
    listed = [best, *(number for number in order[1:2] if shares[number] > 0)]
    pairs = [f"{names[i].sentence}{_gives(i == best, names[i])} {percent(shares[i], 0)}" for i in listed]
    return _start(lead, "has n", "N", f"o single source: {', '.join(pairs)}.")


def _verb(verb: str, about_target: bool, share: float) -> str:
    """What a reply does with a source that has this share of the score."""
    size = "mostly" if share > MOST else "largely"
    return f"{verb} {size} from" if about_target else f"attends {size} to"


def _gives(is_first: bool, name: SourceName) -> str:
    """The verb, which only the first source needs, and those whose name ends with a number."""
    return " gives" if is_first or name.sentence[-1].isdigit() else ""


def _lead(contribution: Contribution) -> list[Phrase]:
    if not contribution.part:
        return []
    rival: list[Phrase] = []
    if contribution.rival:
        rival = [("text", " rather than “"), ("against", contribution.rival), ("text", "”")]
    return [("text", "“"), ("class", named_part(contribution.part)), ("text", "”"), *rival]


def _whole(lead: list[Phrase]) -> list[Phrase]:
    return lead or [("class", "The reply")]


def _start(lead: list[Phrase], behind: str, alone: str, rest: str) -> list[Phrase]:
    """A clause behind what it is about, or alone where that is the whole reply."""
    return [*lead, ("text", f" {behind}{rest}")] if lead else [("text", f"{alone}{rest}")]


def _named(name: SourceName) -> list[Phrase]:
    if not name.title:
        return [("for", name.sentence)]
    return [("text", f"{name.sentence}, "), ("for", name.title)]


def _share(share: float) -> Phrase:
    return "text", f" ({percent(share, 0)})"


def _against(contribution: Contribution, names: Sequence[SourceName]) -> list[Phrase]:
    """The source that speaks most against it, or for the rival."""
    shares = contribution.shares[:-1]
    worst = min(range(len(shares)), key=lambda number: shares[number])
    if shares[worst] > -NOTABLE:
        return []
    if not contribution.rival:
        return [("text", f"; {names[worst].sentence} speaks against it")]
    return [("text", f"; {names[worst].sentence} speaks for “"), ("against", contribution.rival), ("text", "”")]


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def named_part(text: str) -> str:
    """A part of a text as a sentence names it, without the punctuation at its end.

    >>> named_part(" in Oslo.")
    'in Oslo'
    """
    return text.strip().rstrip(".,;:!?") or text.strip()


def joined(names: Sequence[str]) -> str:
    """Names in a row.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
