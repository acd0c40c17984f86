"""Questions whose source is known, and what is said of the replies: `python -m tests.answers.planted [METHOD ...]`."""

import random
import sys
from collections.abc import Iterator
from typing import Any

import nbsal

NAMES = "Mara Boris Anna Jonas Vera Oskar Petra Stefan".split()
CITIES = "Oslo Rouen Bergen Porto Ghent Turin Malmo Graz".split()
COUNT = 24  # right replies
DOCUMENTS = 4
METHODS = ("gae", "attn-lrp", "gradxact", "occlusion")


def questions() -> Iterator[tuple[str, list[str], str, int]]:
    """Questions "Where does X live?", their documents, the answer, and the number of the document that has it."""
    rng = random.Random(0)
    while True:
        names, cities = rng.sample(NAMES, DOCUMENTS), rng.sample(CITIES, DOCUMENTS)
        place = rng.randrange(DOCUMENTS)
        documents = [f"{name} lives in {city}." for name, city in zip(names, cities, strict=True)]
        yield f"Where does {names[place]} live?", documents, cities[place], place + 1


def replies(subject: Any, count: int = COUNT, **settings: Any) -> Iterator[tuple[Any, str, int]]:
    """The first right replies, with the answer and the number of its document."""
    for question, documents, city, place in questions():
        asked = [{"role": "user", "content": question}]
        reply = nbsal.answer(subject, asked, documents=documents, progress=False, **settings)
        if city in reply.text:
            count -= 1
            yield reply, city, place
        if not count:
            return


def main() -> None:
    """Print for each method how often the headline and the scores of the answer name its document."""
    subject = nbsal.load("demo/notes")
    for method in sys.argv[1:] or METHODS:
        named, scores = 0, 0
        for reply, city, place in replies(subject, method=method):
            finding = reply.picture().facts
            named += finding.part == city and f"depends on document {place}" in reply.picture().sentence
            scores += finding.proposed is not None and finding.proposed.name.sentence == f"document {place}"
        print(f"{method}: of {COUNT} right replies, headline {named}, scores of the answer {scores}", flush=True)


if __name__ == "__main__":
    main()
