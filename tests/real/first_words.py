"""Whether methods and hiding name the same first word of NanoGuard's prompts: `python -m tests.real.first_words`.

Arguments: how many prompts of `prompts.jsonl`, and the tokens that each is padded to.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence

import nbsal
from tests import real
from tests.real import guard

METHODS = ("attn-lrp",)


def first_word(saliency: nbsal.Saliency) -> int:
    """The number of the word with the highest score, equal words apart."""
    return int(saliency.by_word()["score"].to_numpy().argmax())


def agreement(subject: nbsal.Subject, texts: Sequence[str], methods: Sequence[str]) -> dict[str, int]:
    """In how many texts the first word of a method is that of hiding, for each method."""
    words = {
        name: [first_word(each) for each in nbsal.Explainer(subject, name, **level).map(texts, progress=False)]
        for name, level in [("occlusion", {"level": "word"}), *((name, {}) for name in methods)]
    }
    return {name: sum(a == b for a, b in zip(words[name], words["occlusion"], strict=True)) for name in methods}


def main(count: int = 100, length: int = guard.LENGTH) -> None:
    rows = real.prompts()[:count]
    start = time.process_time()
    same = agreement(guard.as_module(guard.scanner(), length), [row["text"] for row in rows], METHODS)
    print(f"{count} prompts {dict(Counter(row['label'] for row in rows))}, padded to {length} tokens")
    for name, number in same.items():
        print(f"{name:12} {number} first words as by hiding")
    print(f"{time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
