"""Count the paragraphs of WikiText-2 that contain each token: `python -m tests.training.idf`."""

import argparse
import json
from collections import Counter

from nbsal.samples.base import tokenizer
from nbsal.samples.idf import TABLE
from tests.training.corpora import rows


def count(texts: list[str]) -> Counter[str]:
    """The number of texts that contain each token of the embedded models' tokenizer."""
    counts = Counter[str]()
    wordpiece = tokenizer()
    for ids in wordpiece(texts, add_special_tokens=False, verbose=False)["input_ids"]:
        counts.update(wordpiece.convert_ids_to_tokens(sorted(set(ids))))
    return counts


def main() -> None:
    argparse.ArgumentParser(prog="python -m tests.training.idf", description=__doc__).parse_args()
    texts = [row["text"] for row in rows("wikitext2", "articles")]
    counts = dict(sorted(count(texts).items()))
    table = {"documents": len(texts), "counts": counts}
    TABLE.write_text(json.dumps(table, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(counts)} tokens in {len(texts)} paragraphs -> {TABLE.name}")


if __name__ == "__main__":
    main()
