"""Whether `Answer.fields` finds what a model reads: `python -m tests.real.fields [COUNT] [SEED] [MODEL]`.

Each case has two to four documents, made-up invoices and letters, and a given reply in JSON, of which a third of the
values stand in no document. Of the others, some stand twice, and some are written in another notation. The model is
real/smollm2, or demo/notes: its vocabulary has neither brackets nor quotes, so it gets notes about people, and lines.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nbsal
from nbsal.support.intervals import wilson_interval

COUNT, SEED, MODEL = 24, 2, "real/smollm2"
NAMES = ["Mara Lindqvist", "Boris Varga", "Nora Okafor", "Ivo Brandt", "Helen Moreau", "Tomas Silva", "Lena Novak",
         "Oskar Haas", "Petra Nyman", "Yusuf Demir", "Anneke Visser", "Carla Ricci",
         "Samir Farouk", "Ellen Bright", "Olga Petrov"]  # fmt: skip
CITIES = ["Oslo", "Rouen", "Athens", "Naples", "Dakar", "Nantes", "Turku", "Leeds", "Porto", "Graz"]
GOODS = ["lamps", "chairs", "kettles", "printers", "helmets", "clocks", "blankets", "speakers"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
CARRIERS = ["Nordpost", "Blue Van", "Quickline", "Parcelino", "Harbour Freight", "Swift Mail"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
INVOICE = {  # a key, and the line that holds its value
    "invoice_number": "Invoice {}",
    "issue_date": "Issued: {}",
    "customer": "Bill to: {}",
    "subtotal": "Subtotal: {} EUR",
    "total": "Total: {} EUR",
    "due_date": "Due date: {}",
    "iban": "IBAN: {}",
}
LETTER = {
    "recipient": "Dear {},",
    "goods": "thank you for your order of {}.",
    "city": "They are packed in our warehouse in {} at the moment.",
    "delivery_day": "We expect to deliver them on {}.",
    "carrier": "The carrier is {}.",
    "phone": "If you have questions, please call {}.",
    "sender": "Kind regards, {}",
}
PEOPLE = "Mara Boris Vera Petra Stefan Nora Lena Yusuf Helen Tomas Carla Olga Ivan Emil Greta Hugo".split()
NOTED_CITIES = "Oslo Rouen Bergen Porto Ghent Turin Malmo Graz Lima Riga Lyon Leeds".split()
SIZES = ((INVOICE, 5), (LETTER, 4))  # how many values a reply has of each
SAME = 0.3  # how often subtotal and total are the same amount, on two lines
COPIED = 0.4  # how often another document has a value, too
COPY = "By the way, as written before: {}."


@dataclass(frozen=True)
class Field:
    """A value of a reply, as the reply writes it, and the documents (from 1) and characters where it stands."""

    key: str
    written: str  # with quotes, if it has any
    places: tuple[tuple[int, tuple[int, int]], ...]
    twice: bool


@dataclass(frozen=True)
class Case:
    documents: tuple[str, ...]
    fields: tuple[Field, ...]
    lines: bool = False

    @property
    def question(self) -> str:
        keys = [field.key for field in self.fields]
        return f"What is new of {keys[0]}?" if self.lines else f"Extract as JSON: {', '.join(keys)}."

    @property
    def reply(self) -> str:
        if self.lines:
            return "\n".join(f"{field.key}: {field.written}" for field in self.fields)
        return "{" + ", ".join(f'"{field.key}": {field.written}' for field in self.fields) + "}"


def amount(rng: random.Random) -> str:
    return f"{rng.randrange(100, 9999)}.{rng.randrange(1, 100):02}"


def date(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(2021, 2027), rng.randrange(1, 11), rng.randrange(1, 29)


def values(rng: random.Random, names: list[str]) -> dict[str, tuple[str, str]]:
    """A value for each key, as a document and as a reply writes it; each person has one role."""
    pick, made = rng.choice, {}
    for key in ("subtotal", "total"):
        number = amount(rng)
        made[key] = (f"{float(number):,.2f}", number)
    for key in ("issue_date", "due_date"):
        year, month, day = date(rng)
        told = f"{day} {MONTHS[month - 1]} {year}"
        made[key] = (told, pick([f'"{told}"', f'"{year}-{month:02}-{day:02}"']))
    texts = {
        "invoice_number": f"{pick('ABKRT')}{pick('DEGMX')}-{rng.randrange(1000, 9999)}",
        "customer": names.pop(),
        "iban": f"NL{rng.randrange(10, 99)} BANK {rng.randrange(1000, 9999)} {rng.randrange(1000, 9999)}",
        "recipient": names.pop(),
        "goods": f"{rng.randrange(2, 60)} {pick(GOODS)}",
        "city": pick(CITIES),
        "delivery_day": pick(DAYS),
        "carrier": pick(CARRIERS),
        "phone": f"{rng.randrange(200, 999)} {rng.randrange(1000, 9999)}",
        "sender": names.pop(),
    }
    return made | {key: (text, f'"{text}"') for key, text in texts.items()}


def cases(seed: int) -> Iterator[Case]:
    """Cases without end."""
    rng = random.Random(seed)
    while True:
        if (case := _case(rng)) is not None:
            yield case


def _case(rng: random.Random) -> Case | None:
    """A case; None if a value that shall stand nowhere happens to stand in a document."""
    count = rng.randrange(2, 5)
    kinds = [INVOICE, LETTER, *rng.choices([INVOICE, LETTER], k=count - 2)]
    rng.shuffle(kinds)
    names = rng.sample(NAMES, len(NAMES))
    made = [values(rng, names) for _ in kinds]
    if rng.random() < SAME:
        for each in made:
            each["subtotal"] = each["total"]
    # What is asked of the first invoice and the first letter; the other documents are of somebody else.
    asked = [(kinds.index(kind), key) for kind, size in SIZES for key in rng.sample([*kind], size)]
    absent = set(rng.sample(asked, len(asked) // 3))
    lines = []
    for at, (kind, each) in enumerate(zip(kinds, made, strict=True)):
        shown = {key for number, key in asked if number == at} | {*rng.sample([*kind], 2)}
        lines.append([(key, kind[key], each[key][0]) for key in kind if key in shown and (at, key) not in absent])
    if rng.random() < COPIED:
        at, key = rng.choice([pair for pair in asked if pair not in absent])
        lines[rng.choice([other for other in range(count) if other != at])].append((key, COPY, made[at][key][0]))
    documents, places = _documents(lines)
    rng.shuffle(asked)
    fields = []
    for at, key in asked:
        value, written = made[at][key]
        if (at, key) in absent and any(value in text for text in documents):
            return None
        own = tuple((number, span) for number, name, text, span in places if (name, text) == (key, value))
        fields.append(Field(key, written, own, sum(text == value for _, _, text, _ in places) > 1))
    return Case(tuple(documents), tuple(fields))


Lines = list[tuple[str, str, str]]  # the key of each, and the value that it holds
Places = list[tuple[int, str, str, tuple[int, int]]]  # document, key, value, characters


def _documents(lines: list[Lines]) -> tuple[list[str], Places]:
    """Documents of those lines, and where values stand."""
    places, documents = Places(), []
    for number, some in enumerate(lines, 1):
        text = ""
        for key, line, value in some:
            start = len(text) + line.index("{}")
            places.append((number, key, value, (start, start + len(value))))
            text += line.format(value) + "\n"
        documents.append(text.rstrip())
    return documents, places


def notes(seed: int) -> Iterator[Case]:
    """Cases of three lines about people, of whom one is in no document, without end."""
    rng = random.Random(seed)
    while True:
        names, cities = rng.sample(PEOPLE, 5), rng.sample(NOTED_CITIES, 5)
        sentences = [f"lives in {city}" for city in cities]
        documents = [f"{name} {sentence}." for name, sentence in list(zip(names, sentences, strict=True))[:4]]
        copied = [rng.randrange(2)] if rng.random() < COPIED else []
        documents += [documents[number] for number in copied]
        order = rng.sample(range(len(documents)), len(documents))
        fields = []
        for number in rng.sample((0, 1, 4), 3):
            name, sentence = names[number], sentences[number]
            start = len(name) + 1
            text = f"{name} {sentence}."
            own = [at for at, place in enumerate(order, 1) if documents[place] == text]
            places = tuple((at, (start, start + len(sentence))) for at in own)
            fields.append(Field(name, sentence, places, len(places) > 1))
        yield Case(tuple(documents[place] for place in order), tuple(fields), lines=True)


def outcomes(subject: Any, case: Case) -> list[tuple[str, Field, bool, dict[str, Any]]]:
    """What is right of each field: its kind, the field, whether that is right, and the row."""
    asked = [{"role": "user", "content": case.question}]
    answer = nbsal.answer(
        subject, asked, case.reply, documents=case.documents, method="occlusion", check=False, progress=False
    )
    rows = answer.fields().to_dict("records")
    assert [row["path"] for row in rows] == [field.key for field in case.fields]
    results = []
    for field, row in zip(case.fields, rows, strict=True):
        if not field.places:
            results.append(("invented: marked", field, row["verdict"] == "not from the documents", row))
            continue
        given = row["verdict"] == "from the documents"
        results.append(("given: verdict", field, given, row))
        results.append(("given: document", field, row["document"] in {number for number, _ in field.places}, row))
        results.append(("given: span", field, overlaps(row, field), row))
        if field.twice:
            results.append(("given twice: span", field, overlaps(row, field), row))
    return results


def overlaps(row: dict[str, Any], field: Field) -> bool:
    return any(row["document"] == number and row["start"] < end and start < row["end"]
               for number, (start, end) in field.places)  # fmt: skip


def main(count: int, seed: int, model: str) -> None:
    subject, start = nbsal.load(model), time.process_time()
    right, total = Counter[str](), Counter[str]()
    for number, case in zip(range(1, count + 1), (notes if model == "demo/notes" else cases)(seed), strict=False):
        for kind, field, ok, row in outcomes(subject, case):
            right[kind] += ok
            total[kind] += 1
            if not ok:
                print(f"  not right: {kind}: {field.written} of {field.places}, but {row}")
        counts = ", ".join(f"{kind} {right[kind]} of {total[kind]}" for kind in sorted(total))
        print(f"{number} cases of seed {seed}, {time.process_time() - start:.0f} CPU s: {counts}", flush=True)
    for kind in sorted(total):
        share = right[kind] / total[kind]
        low, high = wilson_interval(share, total[kind])
        print(f"{kind:20} {right[kind]:4} of {total[kind]:4}: {share:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    count, seed, model = [*sys.argv[1:], *[COUNT, SEED, MODEL][len(sys.argv) - 1 :]]
    main(int(count), int(seed), model)
