"""Reading a saved checkpoint, checked before transformers loads it: a damaged or hostile one ends in an error of nbsal.

Nothing is unpickled, no code of a checkpoint is run, and no more memory is taken than its weights call for.
"""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from nbsal.model.loading.saved_files import read_json
from nbsal.support.errors import InputError, ModelError, NbsalError
from nbsal.support.lazy import transformers

NO_SUCH_MODEL = "there is no such folder. Pass a folder, or the name of a model of the hub (name or owner/name)."
WEIGHTS, INDEX, ADAPTER = "model.safetensors", "model.safetensors.index.json", "adapter_config.json"
# Tasks in the registry of transformers; the last one is none, of models without a head. A model of the last two may be
# refused later, with a reason of its own.
TASKS = ("FOR_SEQUENCE_CLASSIFICATION_", "FOR_QUESTION_ANSWERING_", "FOR_TOKEN_CLASSIFICATION_", "FOR_CAUSAL_LM_",
         "FOR_MASKED_LM_", "FOR_MULTIPLE_CHOICE_", "FOR_SEQ_TO_SEQ_CAUSAL_LM_", "")  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
MAX_LABELS = 1_000_000
MAX_BLOCKS = 256  # or as many as there are tensors
PARAMETERS_PER_BYTE = 4  # 4-bit weights, and as much again for tied weights that are stored once
SMALL_MODEL = 2**24  # parameters and buffers that any checkpoint may have
_ADDRESS = "this is an address. Pass nbsal.Endpoint(url, model=...) for a server, or owner/name for a model of the hub."
_PICKLE = "It may run code when opened, so nbsal does not. Open it with the library that wrote it, and pass the model."
_OTHER_FILES = {
    ".gguf": "Such a file is opened as model=... alone. Pass the checkpoint that it was made from.",
    ".onnx": "Its layers cannot be read. Pass the checkpoint that it was exported from; or a function from texts to "
    "probabilities that runs it, which methods that hide words explain.",
    **dict.fromkeys((*PICKLES, ".pkl", ".pickle", ".joblib", ".keras"), _PICKLE),
}
_REPEATED = re.compile(r"(layer|block|expert|group)(s|_num|_sizes|_repeats)?$")  # parts that are built one by one
_HEADS = re.compile(r"heads?(_dim|_size)?$")
_TOKENIZER_FILES = ("tokenizer", "vocab.", "merges.txt", "spiece", "sentencepiece", "spm.")
_TOKENIZER_CLASS = re.compile(r"\w*(Tokenizer|TokenizerFast|Backend)", re.ASCII)


@contextmanager
def readable(source: str, argument: str, part: str = "checkpoint") -> Iterator[None]:
    """Raise ModelError instead of whatever else goes wrong while a checkpoint is read."""
    try:
        yield
    except (NbsalError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the tokenizers library panics with one
        reason = (str(error).strip().splitlines() or [""])[0]
        message = f"The {part} of {argument}={source!r} cannot be read. {type(error).__name__}: {reason:.200}"
        raise ModelError(message, part=part) from error


def is_missing_folder(source: str) -> bool:
    """Whether a source is the path of a folder that is not there; what may be a name on the hub is none."""
    is_hub_name = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", source) and not source.startswith((".", "/", "~"))
    if is_hub_name or source.startswith("demo/"):
        return False
    try:
        return not Path(source).expanduser().exists()
    except (OSError, RuntimeError):  # a name that is too long, or the home folder of nobody
        return True


def check(source: str, argument: str) -> None:
    """Refuse a folder or hub id whose configuration or weights cannot be those of a model."""
    folder = Path(source)
    if folder.is_file():
        advice = _OTHER_FILES.get(folder.suffix.lower(), "Pass the folder that contains it.")
        raise InputError(f"{argument}={source!r} is a file. {advice}", argument=argument, value=source)
    if not folder.is_dir():
        return
    if (folder / ADAPTER).exists():
        message = f"{argument}={source!r} is an adapter. Merge it with merge_and_unload(), and save the whole model."
        raise ModelError(message, part="adapter")
    if not (folder / "config.json").is_file():
        message = f"{argument}={source!r} is a folder without a config.json. Pass a folder that save_pretrained wrote."
        raise ModelError(message, part="checkpoint")
    config = read_json(folder / "config.json")
    check_config(config, source)
    check_blocks(config, sum(_tensor_count(path) for path in _weight_files(folder, config, argument)), source)


def check_blocks(config: dict[str, Any], tensors: int, source: str) -> None:
    """Refuse a configuration with more blocks than there are weights for; MAX_BLOCKS need not be counted."""
    for name, value in _entries(config):
        if _REPEATED.search(name) and isinstance(value, int) and value > max(MAX_BLOCKS, tensors):
            message = f"{source}: its configuration says {name}={value:,}, but there are only {tensors:,} weights."
            raise ModelError(message, part=name)


def check_config(config: dict[str, Any], source: str) -> None:
    """Refuse values in config.json that would run code of others or take all memory before any weight is read."""
    for name, value in _entries(config):
        if "_implementation" in name and isinstance(value, str) and re.search("[/:]", value):
            message = f"{source}: config.json asks for the code {value!r:.60} ({name}), which nbsal does not run."
            raise ModelError(message, part=name)
        too_large = isinstance(value, int) and abs(value) > (MAX_LABELS if name == "num_labels" else sys.maxsize)
        negative = _HEADS.search(name) and isinstance(value, int) and value < 0
        if too_large or negative or (isinstance(value, float) and math.isnan(value)):
            raise ModelError(f"{source}: config.json has an impossible value of {name}.", part=name)


def check_hub_config(source: str) -> None:
    """Refuse the configuration of a hub id for the same values as that of a folder."""
    if not Path(source).is_dir():
        check_config(transformers.PreTrainedConfig.get_config_dict(source)[0], source)


def check_size(build: Callable[[Any], Any], config: Any, source: str) -> None:
    """Refuse a configuration of a model that is much larger than its weights: missing ones would be allocated."""
    path = Path(source)
    if not path.exists():
        return
    model = None
    with suppress(Exception), torch.device("meta"):  # what cannot be built fails with its own error
        model = build(config)
    if model is None:
        return
    size = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    stored = sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob("*.safetensors")))
    if size > max(SMALL_MODEL, PARAMETERS_PER_BYTE * stored):
        message = f"{source}: its configuration describes {size:,} numbers, but the weights have only {stored:,} bytes."
        raise ModelError(message, part="weights")


def check_unused(model: Any, unused: Any, source: str) -> None:
    """Refuse weights of blocks that the configuration leaves out; heads of other tasks may be left unused."""
    pattern = re.compile(r"\.\d+\.")
    blocks = {pattern.sub(".#.", name) for name in model.state_dict()}
    extra = sorted(name for name in unused if pattern.search(name) and pattern.sub(".#.", name) in blocks)
    depth = getattr(model.config, "num_hidden_layers", 1)
    if extra or depth < 1:
        message = f"{source}: config.json says {depth} layers, but the weights have more."
        raise ModelError(message, part=extra[0] if extra else "blocks")


def check_missing(names: Iterable[str], source: str) -> None:
    """Refuse a checkpoint without some weights of its model."""
    if missing := sorted(names):
        listed = ", ".join(missing[:3])
        message = f"{source} lacks weights ({listed}), which would be random. Pass a checkpoint with a trained head."
        raise ModelError(message, part=missing[0])


def read_config(source: str, argument: str) -> Any:
    """Read the configuration of the checkpoint that was passed as `argument`, or raise ModelError."""
    try:
        return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(_unreadable(source, argument, error), part="checkpoint") from error


def read_weights(
    model_class: Any, source: str, dtype: torch.dtype, argument: str, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Load a checkpoint; return the model and the report of transformers about missing and unexpected weights.

    Only safetensors are read: nothing is unpickled, and no code from the checkpoint is run.
    """
    safe = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    try:
        model, report = model_class.from_pretrained(source, dtype=dtype, **safe, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        hint = " Weights must be safetensors: load and save them once with model.save_pretrained(folder)."
        raise ModelError(_unreadable(source, argument, error) + hint, part="checkpoint") from error
    return model, report


def _unreadable(source: str, argument: str, error: Exception) -> str:
    reason = str(error).strip().splitlines()[0]
    if Path(source).is_dir():
        return f"{argument}={source!r} is a folder without a readable checkpoint. {reason}"
    if is_missing_folder(source):
        return f"{argument}={source!r}: {_ADDRESS if '://' in source else NO_SUCH_MODEL}"
    return f"{argument}={source!r} is neither a local folder nor a model of the hub (name or owner/name). {reason}"


def model_class(config: Any, source: str) -> Any:
    """The class of the model that a configuration names, if it is one of transformers' language models."""
    from transformers.models.auto import modeling_auto

    names = config.architectures
    name = names[0] if isinstance(names, list) and names else None
    registered: set[str] = set()
    for task in TASKS:
        for classes in getattr(modeling_auto, f"MODEL_{task}MAPPING_NAMES").values():
            registered |= {classes} if isinstance(classes, str) else set(classes)
    if not isinstance(name, str) or name not in registered:
        message = f"The checkpoint {source} is of no language model in transformers: its architecture is {names!r:.80}."
        raise ModelError(message, part="architecture")
    return getattr(transformers, name)


def saved_tokenizer(source: str, argument: str) -> Any:
    """The tokenizer of a folder or a hub id; None if it has none; ModelError if it is damaged."""
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    folder = Path(source)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if folder.is_dir() and not any(name.startswith(_TOKENIZER_FILES) for name in names):
        return None
    try:
        with readable(source, argument, "tokenizer"):
            settings = get_tokenizer_config(source)
            kind = settings.get("tokenizer_class") or "Tokenizer"
            if not _TOKENIZER_CLASS.fullmatch(kind):  # transformers would load any of its classes of that name
                raise ValueError(f"tokenizer_class={kind!r:.60} is no tokenizer")
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
            if not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
                raise TypeError(f"{type(tokenizer).__name__} is no tokenizer")
            if not tokenizer.model_max_length > 0:
                raise ValueError("model_max_length must be positive")
            return tokenizer
    except ModelError:
        if folder.is_dir():
            raise
        return None


def _weight_files(folder: Path, config: dict[str, Any], argument: str) -> list[Path]:
    """The safetensors files of a folder: all of them lie in it."""
    listed = config.get("transformers_weights")
    index = listed if isinstance(listed, str) and listed.endswith(".index.json") else INDEX
    names = [listed] if listed is not None and index != listed else [WEIGHTS]
    if index == listed or (not (folder / WEIGHTS).is_file() and (folder / INDEX).is_file()):
        _check_name(index, folder)
        names = sorted(set(_weight_map(folder / index).values()), key=str)
    for name in names:
        _check_name(name, folder)
        if not (folder / name).is_file():
            pickles = [path.name for path in folder.iterdir() if path.suffix in PICKLES]
            hint = f" Weights must be safetensors, which run no code; it has {pickles[0]}." if pickles else ""
            advice = (
                " Load it once with transformers and save it with model.save_pretrained(folder)." if pickles else ""
            )
            message = f"{argument}={str(folder)!r} is a folder without the weights {name}.{hint}{advice}"
            raise ModelError(message, part="weights" if pickles else "checkpoint")
    return [folder / name for name in names]


def _weight_map(path: Path) -> dict[str, Any]:
    content = read_json(path).get("weight_map")
    if not isinstance(content, dict) or not content:
        raise ModelError(f"{path} has no weight_map.", part=path.name)
    return content


def _check_name(name: Any, folder: Path) -> None:
    """Refuse a name of a file that could lie outside the folder."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ModelError(f"{folder} names {name!r:.80}, which is not a file of the folder.", part="weights")


def _tensor_count(path: Path) -> int:
    with safe_open(path, framework="pt") as file:
        return len(file.keys())


def _entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values inside a configuration, each with the name of the entry that holds it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _entries(part, name if "_implementation" in name else key)
    elif isinstance(value, list):
        for part in value:
            yield from _entries(part, name)
    else:
        yield name, value
