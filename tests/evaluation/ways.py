"""How often sentences call words "supported" that do not decide, and how often the ways of hiding agree.

`python -m tests.evaluation.ways` (about a minute of one core) prints two tables. With NBSAL_DATA set to a folder of
benchmark tables, its reviews are the first 300 of the validation part of SST-2; else they are the embedded ones.

What counts was written down before the first run:

- Planted guards decide by the verb of a message and by one shortcut; all other words do not decide. Sentences about
  their messages are made by a good method and by random scores, whose words mostly do not decide. A sentence that names
  any word that does not decide is *wrong*; it is *falsely supported* if its state is "supported".
- "pair" and "position" are the planted models of that name, on messages with the words of their shortcut, in the place
  that decides and elsewhere. In "duplicates" what decides stands twice: "urgent" in both sentences of a message, and
  quotation marks beside asterisks.
- Two ways agree on a review if hiding counts in both of them, or in neither.
"""

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice

import nbsal
from nbsal.explain.sentences.decision_facts import Check
from nbsal.explain.sentences.outcomes import NAMES
from nbsal.samples import planted
from nbsal.samples.planted import SHORTCUTS, VERBS, Message
from nbsal.support.intervals import wilson_interval
from tests.training.corpora import rows

METHODS = ("attn-lrp", "random")
CASES = {  # the planted model, and what its messages have
    "pair": ("pair", ({"quietly", "tonight"}, {"quietly"}, {"tonight"})),
    "position": ("position", ({"today first"}, {"today later"})),
    "duplicates, a word": ("word", ({"urgent"},)),
    "duplicates, two signs": ("punctuation", ({"quotation marks", "asterisks"},)),
}
AGAIN = {"duplicates, a word": " Emil sells the urgent chair."}  # after each message
REVIEWS = "demo/reviews-small"


def messages(case: str) -> Iterator[Message]:
    """Messages without end of one case."""
    _, features = CASES[case]
    for number, message in enumerate(planted.draw(0)):
        yield replace(message, features=frozenset(features[number % len(features)]))


def deciding(name: str, message: Message) -> set[str]:
    """The words that a planted model goes by in a message."""
    shortcut = SHORTCUTS[name]
    return {*VERBS[message.evidence], *(shortcut.words if shortcut.applies(message.features) else ())}


def named(check: Check) -> set[str]:
    return {check.candidates[number].text.casefold() for number in check.reported}


def tally(case: str, method: str, size: int) -> Counter[str]:
    """Of the sentences about messages of a case: how many are wrong, supported, or both, by both kinds of check."""
    name, _ = CASES[case]
    explain, counts = nbsal.Explainer(nbsal.load(planted.PREFIX + name), method), Counter[str]()
    for message in islice(messages(case), size):
        check = explain(message.text + AGAIN.get(case, ""), check="ways").check
        assert check is not None
        wrong = not named(check) <= deciding(name, message)
        counts["wrong" if wrong else "right"] += 1
        for kind, state in (("True", replace(check, ways=()).state), ("ways", check.state)):
            counts[f"{'wrong' if wrong else 'right'} {kind}"] += state == "supported"
    return counts


def share(count: int, of: int) -> str:
    if not of:
        return "0 of 0"
    low, high = wilson_interval(count / of, of)
    return f"{count} of {of}, {count / of:.1%} ({low:.1%} to {high:.1%})"


def print_planted(size: int) -> None:
    print("| messages | scores | falsely supported, check=True | check='ways' | rightly, check=True | check='ways' |")
    print("|---|---|---|---|---|---|")
    total = Counter[str]()
    for case in CASES:
        for method in METHODS:
            counts = tally(case, method, size)
            print(line(case, method, counts), flush=True)
            total += counts
    print(line("all", "all", total))


def line(case: str, method: str, counts: Counter[str]) -> str:
    cells = [share(counts[f"{side} {kind}"], counts[side]) for side in ("wrong", "right") for kind in ("True", "ways")]
    return f"| {case} | {method} | {' | '.join(cells)} |"


def reviews(size: int) -> list[str]:
    if os.environ.get("NBSAL_DATA"):
        return [row["sentence"] for row in rows("sst2", "validation")[:size]]
    return [row["text"] for row in nbsal.samples.texts("reviews")[:size]]


def print_agreement(size: int) -> None:
    explain, texts = nbsal.Explainer(nbsal.load(REVIEWS)), reviews(size)
    held, agreeing = Counter[str](), Counter[tuple[str, str]]()
    numbers, states = Counter[int](), Counter[str]()
    for text in texts:
        check = explain(text, check="ways").check
        assert check is not None
        states.update([f"{replace(check, ways=()).state} by check=True, {check.state} by check='ways'"])
        numbers[check.holding] += 1
        holds = {way.name: check.holds(way) for way in check.ways}
        held.update(name for name, value in holds.items() if value)
        agreeing.update(pair for pair in combinations(NAMES, 2) if holds.get(pair[0]) == holds.get(pair[1]))
    print(f"\n{len(texts)} reviews, {REVIEWS}, {explain.method.name}: hiding counts in")
    print("; ".join(f"{number} of the ways: {numbers[number]}" for number in sorted(numbers, reverse=True)))
    print("; ".join(f"{state}: {count}" for state, count in states.most_common()))
    print(f"\n| way | counts in | {' | '.join(f'agrees with {name}' for name in NAMES[1:])} |")
    print(f"|---|---|{'---|' * len(NAMES[1:])}")
    for name in NAMES:
        cells = [f"{agreeing[name, other] / len(texts):.1%}" if agreeing[name, other] else "" for other in NAMES[1:]]
        print(f"| {name} | {held[name]} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=60, help="planted messages of each case and method")
    parser.add_argument("--reviews", type=int, default=300)
    options = parser.parse_args()
    print_planted(options.messages)
    print_agreement(options.reviews)


if __name__ == "__main__":
    main()
