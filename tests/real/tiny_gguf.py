"""A tiny random Llama in a GGUF file, written by the library of llama.cpp."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
LETTERS = [*"abcdefghijklmnopqrstuvwxyzĠ.<|>"]
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "model.layers": "blk", "lm_head": "output",
}  # fmt: skip


def halves_apart(weight, heads):
    """A query or key weight as llama.cpp has it, where the two numbers that rotate together are neighbours."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write(path: Path, without: str = "-") -> Any:
    """Write the file, but for tensors with a name that holds `without`, and return the model."""
    import gguf

    torch.manual_seed(0)
    tokens = [*LETTERS, "ab", "Ġc", "<|end|>"]
    config = transformers.LlamaConfig(vocab_size=len(tokens), num_key_value_heads=2, initializer_range=0.2, **SIZES)
    model = transformers.LlamaForCausalLM(config).eval()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["a b", "Ġ c"])
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}")
    for name, weight in ((name, weight) for name, weight in model.state_dict().items() if without not in name):
        array = weight.numpy()
        if ".q_proj" in name or ".k_proj" in name:
            array = halves_apart(array, 4 if ".q_proj" in name else 2)
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
