"""Language models in GGUF files, as llama.cpp reads them, with the weights that their few bits stand for."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from nbsal.model.loading import checkpoint
from nbsal.support.errors import ModelError, file_error
from nbsal.support.lazy import transformers

SUFFIX = ".gguf"
_SERVED = "Or serve the model, and pass nbsal.Endpoint(url, model=...)."


def is_gguf(source: str) -> bool:
    """Whether a source is the path of such a file."""
    return source.lower().endswith(SUFFIX) and not Path(source).is_dir()


def load_gguf(source: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model in a file, and its tokenizer."""
    path = Path(source).expanduser()
    if not path.is_file():
        raise file_error("model", source, FileNotFoundError(2, "No such file", source))
    try:
        import accelerate  # noqa: F401 - transformers needs it
        import gguf  # noqa: F401
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    except ImportError as error:
        message = f"{source} is a GGUF file. To read it, install: pip install gguf accelerate. {_SERVED}"
        raise ModelError(message, part="gguf") from error
    place, options = str(path.parent), {"gguf_file": path.name, "trust_remote_code": False}
    with checkpoint.readable(source, "model"):
        config = transformers.AutoConfig.from_pretrained(place, **options)
        settings = json.loads(config.to_json_string())
        checkpoint.check_config(settings, source)
        checkpoint.check_blocks(settings, 0, source)
        causal = transformers.AutoModelForCausalLM
        checkpoint.check_size(causal.from_config, config, source)
        model = causal.from_config(config, dtype=dtype)
        weights = load_gguf_checkpoint(str(path), True, _Flat(model), dtype)["tensors"]
        missing = model.load_state_dict(weights, strict=False).missing_keys
        own = dict(model.named_parameters()) | dict(model.named_buffers())  # without those that are tied to others
        checkpoint.check_missing([name for name in missing if name in own], source)
        model.config.name_or_path = source
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
        return model.eval(), _without_others(tokenizer, config.vocab_size)


class _Flat:
    """A model by its parameters alone: transformers would look up their names anew in each module, for seconds."""

    def __init__(self, model: Any) -> None:
        self.config, self.state_dict = model.config, model.state_dict

    def named_children(self) -> tuple[()]:
        return ()


def _without_others(tokenizer: Any, size: int) -> Any:
    """A tokenizer without the tokens that its class adds to those of the file, which the model has no rows for."""
    if len(tokenizer) <= size:
        return tokenizer
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if token["id"] < size]
    roles = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    kept = {name: token for name, token in roles.items() if tokenizer.convert_tokens_to_ids(token) < size}
    backend, template = Tokenizer.from_str(json.dumps(parts)), tokenizer.chat_template
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, **kept)
