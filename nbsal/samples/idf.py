"""How rare each token is in everyday text: `python -m nbsal.samples.idf` counts the paragraphs of WikiText it is in."""

import argparse
import json
import math
from collections import Counter
from pathlib import Path

from nbsal.samples.base import tokenizer
from nbsal.samples.corpora import rows

TABLE = Path(__file__).parent / "idf.json"


def count(texts: list[str]) -> Counter[str]:
    """In how many of the texts each token of the embedded models' tokenizer stands."""
    found = Counter[str]()
    reader = tokenizer()
    for ids in reader(texts, add_special_tokens=False, verbose=False)["input_ids"]:
        found.update(reader.convert_ids_to_tokens(sorted(set(ids))))
    return found


def load() -> dict[str, float]:
    """log((1 + documents) / (1 + documents with the token)), for every token that was seen.

    >>> table = load()
    >>> table["the"] < table["film"] < table["lobster"]
    True
    """
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    return {token: math.log((1 + stored["documents"]) / (1 + n)) for token, n in stored["counts"].items()}


def main() -> None:
    argparse.ArgumentParser(prog="python -m nbsal.samples.idf", description=__doc__).parse_args()
    texts = [row["text"] for row in rows("wikitext2", "articles")]
    counts = dict(sorted(count(texts).items()))
    table = {"documents": len(texts), "counts": counts}
    TABLE.write_text(json.dumps(table, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(counts)} tokens in {len(texts)} paragraphs -> {TABLE.name}")


if __name__ == "__main__":
    main()
