"""Answers whose citations have every verdict, by made-up numbers of a model that reads only some documents."""

from dataclasses import dataclass, replace

import numpy as np

import nbsal
from nbsal.ablation.engine import Ablation
from nbsal.explain.citations.cited import CitedReply, measure_citations

ASKED = [{"role": "user", "content": "Where does Mara live, and when does the ferry leave?"}]
DOCUMENTS = {
    "Timetable": "In summer the ferry to Drobak leaves at nine from the old pier.",
    "Address": "Mara lives in Oslo, in a small flat above a bookshop.",
    "Work": "Boris works as a baker near the harbour, mostly in the mornings.",
    "Summer party": "Nora plays the cello at the summer party until the last song.",
}
STATEMENTS = [
    ("Mara lives in Oslo", "[2]", "supported"),
    ("The ferry leaves at nine", "[1]", "decoration"),
    ("Boris works as a baker", "[4]", "elsewhere"),
    ("The museum is free on Sundays", "[3]", "not from the documents"),
    ("Nora leaves from the old pier", "[4]", "unclear"),
]
LIKELY, UNLIKELY = np.log(0.9), np.log(0.01)


def reply_of(statements):
    return " ".join(f"{text} {mark}." for text, mark, _ in statements)


@dataclass(frozen=True)
class Invented:
    """An experiment whose words need those documents that their statement's verdict asks for."""

    reply: CitedReply
    verdicts: tuple[str, ...]
    ablation: Ablation

    @property
    def reading(self):
        return self.reply.reading

    def with_units(self, units, way):
        return self

    def numbers(self, subsets, meter=None):
        values = np.full((len(subsets), len(self.reading.reply_ids)), LIKELY)
        for statement, verdict in zip(self.reply.statements, self.verdicts, strict=True):
            cited, *_ = statement.citation.cites
            other = cited % len(self.reply.documents) + 1
            givers = {"supported": [cited], "elsewhere": [other], "unclear": [cited, *[other] * 9]}.get(verdict, [])
            for word, document in zip(statement.words, (givers * len(statement.words)), strict=False):
                gone = ~subsets[:, document - 1]
                values[np.ix_(gone, list(word.tokens))] = UNLIKELY
        return values


def answer(subject, statements=STATEMENTS, documents=DOCUMENTS, method="gradxact", experiment=Invented):
    """An answer that has run those subsets of documents that its citations need."""
    reply = reply_of(statements)
    plain = nbsal.answer(subject, ASKED, reply, documents=documents, method=method, progress=False)
    invented = experiment(
        plain.cited(), tuple(verdict for _, _, verdict in statements), plain.running.experiment.ablation
    )
    return replace(plain, subsets=measure_citations(plain.cited(), invented))
