"""How often verdicts on citations are right where the sources are known: `python -m tests.real.citations`.

Arguments: "smollm2" (made-up facts, SmolLM2-135M-Instruct) or "notes" (demo/notes), how many replies, and a seed. All
replies are given. Of each six, two cite the document that they are from ("supported"), and two another one
("elsewhere"); in one of each two, a second document says the same. One says what the question says as well
("decoration"), and one says what no document does ("not from the documents").
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

import nbsal
from nbsal.explain.citations.verdicts import DECORATION, ELSEWHERE, INVENTED, SUPPORTED, UNCLEAR
from nbsal.samples import embedded, facts
from nbsal.support.intervals import wilson_interval

KINDS = (
    ("supported", SUPPORTED),
    ("elsewhere", ELSEWHERE),
    ("supported, said twice", SUPPORTED),
    ("elsewhere, said twice", ELSEWHERE),
    ("decoration", DECORATION),
    ("invented", INVENTED),
)
ORDER = (SUPPORTED, ELSEWHERE, DECORATION, INVENTED, UNCLEAR)
SAYS = {  # what a reply says, by the beginning of the question
    "In which city": "{name} lives in {value}",
    "What is the job": "{name} works as a {value}",
    "On which day": "{name} visits the swimming pool every {value}",
    "What is the colour": "the bicycle of {name} is {value}",
    "Which instrument": "{name} practises the {value}",
}


@dataclass(frozen=True)
class CitedCase:
    """A reply with one citation, what the verdict on it should be, and the documents that it is from, from 1."""

    kind: str
    question: str
    documents: tuple[str, ...]
    reply: str
    verdict: str
    sources: tuple[int, ...]


def smollm2_cases(seed: int) -> Iterator[CitedCase]:
    """Replies about made-up people, without end."""
    rng = Random(seed)
    for number, question in enumerate(facts.questions(seed)):
        kind, verdict = KINDS[number % len(KINDS)]
        documents, value, (source,) = list(question.documents), question.value, question.sources
        others = [place for place in range(len(documents)) if place != source]
        sources, asked, cited = [source], question.text, source
        if kind.endswith("twice"):
            sources.append(others.pop(rng.randrange(len(others))))
            documents[sources[1]] = f"It is said that {_say(question.text, value)}, as everybody knows."
        if verdict == ELSEWHERE:
            cited = rng.choice(others)
        elif verdict == DECORATION:
            asked = f"I know that {_say(question.text, value)}. {asked}"
        elif verdict == INVENTED:
            pool = next(pool.split() for pool in facts.RELATIONS if value in pool.split())
            value = rng.choice([other for other in pool if other not in " ".join(documents)])
            cited = rng.randrange(len(documents))
        said = _say(question.text, value)
        reply = f"{said[0].upper()}{said[1:]} [{cited + 1}]."
        yield CitedCase(kind, asked, tuple(documents), reply, verdict, tuple(place + 1 for place in sources))


def _say(question: str, value: str) -> str:
    name = re.search(r"(?:does|of) (\w+ \w+)", question)
    says = next(says for begins, says in SAYS.items() if question.startswith(begins))
    assert name is not None, "every question names a person"
    return says.format(name=name[1], value=value)


def notes_cases(seed: int) -> Iterator[CitedCase]:
    """Replies of the made-up world of `demo/notes` that are from one document, without end: rows come again."""
    rng = Random(seed)
    rows = [row for row in embedded.texts("notes") if len(row["source"]) == 1]
    rounds = iter(lambda: rng.sample(range(len(rows)), len(rows)), None)
    for number, place in enumerate(chain.from_iterable(rounds)):
        kind, verdict = KINDS[number % 4]  # its questions state nothing, so that no reply is a decoration
        row, documents = rows[place], list(rows[place]["documents"])
        sources, said = [row["source"][0]], row["answer"].rstrip(".")
        if kind.endswith("twice"):
            others = [other for other in range(len(documents)) if other not in sources]
            sources.append(rng.choice(others))
            documents[sources[1]] = documents[sources[0]]
        others = [other for other in range(len(documents)) if other not in sources]
        cited = rng.choice(others) if verdict == ELSEWHERE and others else sources[0]
        verdict = verdict if others else SUPPORTED
        yield CitedCase(
            kind,
            row["question"],
            tuple(documents),
            f" {said} [{cited + 1}].",
            verdict,
            tuple(place + 1 for place in sources),
        )


WORLDS = {"smollm2": ("real/smollm2", smollm2_cases), "notes": ("demo/notes", notes_cases)}


def judged(subject: nbsal.Subject, case: CitedCase) -> str:
    """The verdict on the citation of a case; "unclear" if "elsewhere" names the wrong document."""
    asked = [{"role": "user", "content": case.question}]
    documents = list(case.documents)
    if subject.name != "demo/notes":  # whose vocabulary has no brackets
        documents = [f"[{number}] {text}" for number, text in enumerate(documents, 1)]
    explain = nbsal.Explainer(subject, "occlusion")
    answer = explain.reply(asked, case.reply, documents=documents, check=False, progress=False)
    (row,) = answer.citations().to_dict("records")
    named = row["verdict"] != ELSEWHERE or case.verdict != ELSEWHERE or row["used_instead"] in case.sources
    return str(row["verdict"]) if named else UNCLEAR


def report(pairs: Sequence[tuple[CitedCase, str]]) -> None:
    """Print what was found for each kind of reply, and the precision and recall of each verdict."""
    found = Counter((case.kind, verdict) for case, verdict in pairs)
    for kind in dict.fromkeys(case.kind for case, _ in pairs):
        print(f"{kind:22}", ", ".join(f"{found[kind, verdict]} {verdict}" for verdict in ORDER if found[kind, verdict]))
    for verdict in ORDER[:-1]:
        right = sum(case.verdict == verdict == said for case, said in pairs)
        for name, count in (
            ("recall", sum(case.verdict == verdict for case, _ in pairs)),
            ("precision", sum(said == verdict for _, said in pairs)),
        ):
            if count:
                low, high = wilson_interval(right / count, count)
                print(f"{verdict:22} {name:9} {right / count:.2f} ({low:.2f} to {high:.2f}), {right} of {count}")
    twice = [said for case, said in pairs if case.kind.endswith("twice")]
    missed = sum(said in (DECORATION, INVENTED) for said in twice)
    print(f"said twice, and called decoration or not from the documents: {missed} of {len(twice)}")


def main(world: str, count: int = 200, seed: int = 0) -> None:
    name, cases = WORLDS[world]
    subject, pairs, start = nbsal.load(name), [], time.process_time()
    for _, case in zip(range(count), cases(seed), strict=False):
        pairs.append((case, judged(subject, case)))
    print(f"{name}: {len(pairs)} replies, seed {seed}, {time.process_time() - start:.0f} CPU s")
    report(pairs)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
