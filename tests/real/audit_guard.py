"""What NanoGuard goes by: `python -m tests.real.audit_guard [PROMPTS] [LENGTH] [FILE]` audits it and saves the audit.

Occlusion proposes the words. The scanner pads each text to 512 tokens, its attention reads the padding, and a pass
takes 0.2 s. With fewer tokens (`LENGTH`) it is quicker, and probabilities differ by some hundredths at most.
`guard_audit.nbsal` holds the audit of the prompts in `prompts.jsonl` that the command makes without arguments.
"""

import sys
import time
from pathlib import Path

import nbsal
from tests import real
from tests.real import guard

SAVED = real.FOLDER / "guard_audit.nbsal"
LENGTH = 32


def main(count: int = 200, length: int = LENGTH, path: Path = SAVED) -> None:
    rows = real.prompts()[:count]
    scanner = guard.scanner()
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    start = time.process_time()
    explain = nbsal.Explainer(guard.as_module(scanner, length), "occlusion", level="word")
    audit = nbsal.audit(explain, texts, labels, least=2, progress=False)
    audit.save(path)
    print(f"{time.process_time() - start:.0f} CPU s")
    report(audit)


def report(audit: nbsal.Audit) -> None:
    """Print the finding, the words that matter most and the mistakes."""
    print(audit.sentence)
    for note in audit.notes:
        print(note)
    print(audit.words.head(12).round(3).to_string(index=False))
    print(audit.mistakes.to_string(index=False))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *map(Path, sys.argv[3:4]))
