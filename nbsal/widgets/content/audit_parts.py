"""What the Audit view shows of an audit: its words, slices and mistakes, and the texts that they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbsal.evaluation.audit.result import Audit, Effect
from nbsal.evaluation.audit.word_table import KINDS, adjusted_p, speaks_for
from nbsal.render import html
from nbsal.render.headline import Phrase, in_row, percent, phrases, plain
from nbsal.render.names import word_name
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.page.wire import utf16_positions

LISTED = 20  # texts of a word
MISTAKES = 300
MOST_TEXTS = 1000  # that a page holds
Decision = list[Any]  # the number of a text, and the class that each model decides without the words
Wired = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Hidden:
    """Words that are hidden from every text that has any of them, from the audited model and from the other one."""

    words: tuple[str, ...]
    effects: tuple[Effect, ...]

    def decisions(self, audit: Audit) -> list[Decision]:
        """The decisions without the words: mistakes first, and of those what changes."""
        columns = [self.effects[0].texts, *(effect.without for effect in self.effects)]
        wrong = set(audit.wrong)
        rows = [list(row) for row in zip(*columns, strict=True)]
        return sorted(rows, key=lambda row: (row[0] not in wrong, row[1] == audit.predictions[row[0]]))

    def listed(self, audit: Audit) -> list[Decision]:
        """The decisions that a page lists: as many as change, then others, in the same order."""
        rows = self.decisions(audit)
        chosen = sorted(rows, key=lambda row: row[1] == audit.predictions[row[0]])[:LISTED]
        return [row for row in rows if row in chosen]

    def sentence(self, audit: Audit) -> list[Phrase]:
        """What hiding the words does to the decisions of the audited model."""
        names = in_row([[("for", _quoted(word))] for word in self.words])
        together = " together" if len(self.words) > 1 else ""
        effect, own = self.effects[0], np.array(audit.predictions)
        before, after = own[list(effect.texts)], np.array(effect.without, int)
        if audit.labels is None:
            of = f"{int((before != after).sum())} of {plural(len(after), 'decision')}"
            them = "it" if len(self.words) == 1 else "any of them"
            return phrases("Hiding ", names, f"{together} changes {of} about texts with {them}.")
        gold, wrong = np.array(audit.labels)[list(effect.texts)], len(audit.wrong)
        corrects, breaks = (
            int(((after == gold) & (before != gold)).sum()),
            int(((after != gold) & (before == gold)).sum()),
        )
        right = plural(len(own) - wrong, "right decision")
        ends = f"corrects {corrects} of {plural(wrong, 'mistake')} and breaks {breaks} of {right}."
        return phrases("Hiding ", names, f"{together} {ends}")


@dataclass(frozen=True, eq=False)
class ShownAudit:
    """An audit with the words that are picked: `hidden` has each, or all of them together; and an opened text."""

    audit: Audit
    picked: tuple[str, ...]
    hidden: Sequence[Hidden]
    opened: int | None

    @property
    def together(self) -> Hidden | None:
        """The words as hidden at once; None if several are picked and there is no model to hide them from."""
        return self.hidden[0] if len(self.hidden) == 1 else None

    def caption(self) -> str:
        """The finding that matters most."""
        return self.audit.sentence

    def heading(self) -> str:
        """In how many texts the picked words are."""
        texts = {text for hidden in self.hidden for text in hidden.effects[0].texts}
        return f"{plural(len(texts), 'text')} with {' or '.join(map(_quoted, self.picked))}"

    def to_frame(self) -> "pandas.DataFrame":
        """The words, the most harmful first."""
        return self.audit.words


def hidden_word(audit: Audit, word: str) -> Hidden:
    """A word as the audit hid it."""
    place = next(place for place, effect in enumerate(audit.effects) if effect.word == word)
    return Hidden((word,), tuple(each.effects[place] for each in models(audit)))


def hide_together(audit: Audit, words: Sequence[str]) -> Hidden:
    return Hidden(tuple(words), tuple(each.hide(words) for each in models(audit)))


def models(audit: Audit) -> list[Audit]:
    """The audits of both models, or of the only one."""
    return [audit] if audit.other is None else [audit, audit.other]


def headline(audit: Audit) -> list[Phrase]:
    """The sentence of an audit, in which the word is marked, and that of the other model."""
    sentence: list[Phrase] = []
    for name, each in zip("AB", models(audit), strict=False):
        text = each.sentence if audit.other is None else f"{' ' * bool(sentence)}{name}: {each.sentence}"
        quoted = map(_quoted, each.words.word)
        mark = next((word for word in quoted if word in text), "")
        before, _, after = text.partition(mark) if mark else (text, "", "")
        sentence += phrases(before, ("for", mark), after) if mark else phrases(text)
    return sentence


def first_picked(audit: Audit) -> list[str]:
    """The word that the sentence names, or the first one."""
    words = list(dict.fromkeys(audit.words.word))
    return [word for word in words if _quoted(word) in audit.sentence][:1] or words[:1]


def audit_trait(audit: Audit) -> Wired:
    """Everything about the words, slices and mistakes, as the page draws it."""
    own = [str(each.provenance.get("model", "")) for each in models(audit)]
    return {
        "sentence": headline(audit),
        "classes": list(audit.classes),
        "judged": audit.labels is not None,
        "models": own,
        "hides": all(each.model is not None for each in models(audit)),
        "names": list(dict.fromkeys(effect.word for effect in audit.effects)),
        "words": list(_words(audit)),
        "slices": list(_slices(audit)),
        "mistakes": [_mistake(audit, each) for each in audit.corrections[:MISTAKES]] if audit.labels else [],
        "headings": headings(audit),
    }


def headings(audit: Audit) -> dict[str, str]:
    """What the words, the slices and the mistakes come to."""
    words, parts = audit.beyond_chance
    turns = int((audit.words.kind == "turns").sum())
    verb = f"{'pull' if audit.labels is None else 'mislead'}{'s' * (len(words) == 1)}"
    both_ways = f"; {turns} {'turns' if turns == 1 else 'turn'} decisions, for and against" if turns else ""
    corrected, wrong = sum(bool(each.words) for each in audit.corrections), len(audit.corrections)
    differ = "differs" if len(parts) == 1 else "differ"
    return {
        "words": f"{len(words)} of {plural(len(audit.words), 'word')} {verb} the model beyond chance{both_ways}",
        "slices": f"{len(parts)} of {plural(len(audit.slices), 'slice')} {differ} from all other texts beyond chance",
        "mistakes": f"{plural(wrong, 'mistake')}, of which hiding a few words corrects {corrected}",
    }


def text_numbers(audit: Audit) -> list[int]:
    """The texts that a page holds: the mistakes, then those of the words, the most harmful first."""
    numbers = [each.text for each in audit.corrections[:MISTAKES]] if audit.labels else []
    for word in dict.fromkeys(audit.words.word):
        numbers += [row[0] for row in hidden_word(audit, word).listed(audit)]
    return list(dict.fromkeys(numbers))[:MOST_TEXTS]


def text_trait(audit: Audit, number: int, names: Mapping[str, int]) -> Wired:
    """A text with its label and decisions; of each word the characters before it, its own, its score and its number.

    The score is in thousandths of the largest one of the text, the number that of an audited word, or -1.
    """
    largest = max((abs(score) for score in audit.scores[number]), default=0.0) or 1.0
    packed: list[list[int]] = [[] for _ in audit.parts(number)]
    positions = [utf16_positions(part) for part in audit.parts(number)]
    ends = [0] * len(packed)
    for place, ((part, start, end), score) in enumerate(zip(audit.spans[number], audit.scores[number], strict=True)):
        first, last = max(positions[part][start], ends[part]), positions[part][end]
        share = round(1000 * score / largest) if np.isfinite(score) else 0
        packed[part] += [first - ends[part], last - first, share, names.get(audit.word(number, place).casefold(), -1)]
        ends[part] = last
    return {
        "label": None if audit.labels is None else audit.labels[number],
        "decisions": [[each.predictions[number], round(each.confidences[number], 4)] for each in models(audit)],
        "parts": [list(pair) for pair in zip(audit.parts(number), packed, strict=True)],
    }


def decision_words(audit: Audit, row: Decision, word: str = "it") -> str:
    """The decisions with and without a word: "✗ labelled negative · positive 93 % → negative without it"."""
    number, *without = row
    names = [""] if audit.other is None else ["A: ", "B: "]
    parts = []
    for name, each, decided in zip(names, models(audit), without, strict=True):
        before, after = each.classes[each.predictions[number]], each.classes[decided]
        change = f"→ {after} without {word}" if after != before else f"with or without {word}"
        parts.append(f"{name}{before} {percent(each.confidences[number])} {change}")
    wrong = audit.labels is not None and audit.labels[number] != audit.predictions[number]
    label = [f"\N{BALLOT X} labelled {audit.classes[audit.labels[number]]}"] if wrong and audit.labels else []
    return " · ".join([*label, *parts])


def behind_words(audit: Audit, number: int) -> str:
    """What is behind a mistake about a text, or nothing if it is none."""
    mistake = next((each for each in audit.corrections if each.text == number), None)
    if mistake is None or audit.labels is None:
        return ""
    if not mistake.words:
        return "Hiding a few words does not correct it."
    names = plain(in_row([[("for", _quoted(word))] for word in mistake.words]))
    rule = "no fewer words do" if mistake.exact else "fewer may do"
    return f"Hiding {names} corrects it{f'; {rule}' * (len(mistake.words) > 1)}."


def _quoted(word: str) -> str:
    """A word as sentences name it."""
    return f"“{html.label(word)}”"


def _words(audit: Audit) -> Iterator[Wired]:
    numbers = set(text_numbers(audit))
    for row in audit.words.to_dict("records"):
        hidden = hidden_word(audit, row["word"])
        yield {
            "word": row["word"],
            "name": word_name(row["word"]),
            "label": speaks_for(row),
            "texts": row["texts"],
            "effects": [_effect(audit, row, end) for end in ["", "_other"][: len(models(audit))]],
            "random": row["flips_random"],
            "p": _number(adjusted_p(row)),
            "kind": KINDS[row["kind"]],
            "sentence": hidden.sentence(audit),
            "rows": [each for each in hidden.listed(audit) if each[0] in numbers],
        }


def _effect(audit: Audit, row: Mapping[Any, Any], end: str) -> Wired:
    names = ["flips"] if audit.labels is None else ["corrects", "breaks"]
    numbers = {name: _number(row.get(f"{name}{end}")) for name in ("pull", "low", "high", "excess")}
    return numbers | {"counts": [int(row[f"{name}{end}"]) for name in names]}


def _slices(audit: Audit) -> Iterator[Wired]:
    beyond_chance = set(audit.beyond_chance[1].index)
    for place, row in enumerate(audit.slices.to_dict("records")):
        counts = {name: row[name] for name in ("texts", "errors", "toward")}
        numbers = {name: _number(row[name]) for name in ("rate", "low", "high", "rest", "excess")}
        name = f"{row['slice']}: {row['value']}"
        yield {"name": name, "p": _number(row["p_holm"]), "beyond_chance": place in beyond_chance} | counts | numbers


def _mistake(audit: Audit, mistake: Any) -> Wired:
    return {
        "number": mistake.text,
        "words": list(mistake.words),
        "places": list(mistake.places),
        "sentence": behind_words(audit, mistake.text),
    }


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not np.isfinite(value) else round(float(value), 4)
