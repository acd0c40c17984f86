"""Tiny random models of many architectures, saved and loaded as checkpoints."""

from pathlib import Path

import nbsal
from nbsal.testing import tiny_models
from nbsal.testing.tiny_models import ARCHITECTURES as TINY
from nbsal.testing.tiny_models import CORPUS as CORPUS
from nbsal.testing.tiny_models import HEADS as HEADS
from nbsal.testing.tiny_models import SIZES, tokenizer
from nbsal.testing.tiny_models import SPECIAL as SPECIAL

RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
LOCAL = {
    "pad_token_id": 0,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "local_attention": 16,
    "global_attn_every_n_layers": 2,
}
ENCODERS = {
    "bert": TINY["bert"],
    "roberta": TINY["roberta"],
    "distilbert": ("DistilBertConfig", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}, "wordpiece"),
    "electra": ("ElectraConfig", SIZES | {"embedding_size": 16}, "wordpiece"),
    "albert": ("AlbertConfig", SIZES | {"embedding_size": 16}, "pieces"),
    "deberta-v2": ("DebertaV2Config", SIZES | RELATIVE, "pieces"),
    "mpnet": ("MPNetConfig", SIZES | {"pad_token_id": 0}, "wordpiece"),
    "xlm-roberta": ("XLMRobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "pieces"),
    "modernbert": ("ModernBertConfig", SIZES | LOCAL, "bytes"),
}
DECODERS = {
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}, "bytes"),
    "llama": TINY["llama"],
    "qwen3": ("Qwen3Config", SIZES | {"num_key_value_heads": 2, "head_dim": 8}, "bytes"),
}
ARCHITECTURES = ENCODERS | DECODERS
# Architectures that only the table of methods and architectures runs, each with one head. None: without an LM head.
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = GROUPED | {"num_experts_per_tok": 2, "num_local_experts": 4}
BART = {
    "d_model": 32, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "init_std": 0.15, "decoder_start_token_id": 3,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
    "initializer_factor": 0.5,  # the norms of T5 are steep near zero
}  # fmt: skip
OTHER_ENCODERS = {
    "deberta": ("DebertaConfig", SIZES | RELATIVE, "bytes"),
    "big-bird": ("BigBirdConfig", SIZES | {"attention_type": "original_full"}, "pieces"),
    "longformer": ("LongformerConfig", SIZES | {"attention_window": 16}, "bytes"),
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}, "pieces"),
    "bart": ("BartConfig", BART, "bytes"),
    "t5": ("T5Config", T5, "pieces"),
}
OPT = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 48, "word_embed_proj_dim": 32}
NEO = {
    "hidden_size": 32, "num_layers": 3, "num_heads": 4, "window_size": 4, "max_position_embeddings": 600,
    "attention_types": [[["global", "local", "global"], 1]],
}  # fmt: skip
OTHER_DECODERS = {
    "opt": ("OPTConfig", OPT, "bytes"),
    "gpt-neo": ("GPTNeoConfig", NEO, "bytes"),
    "gpt-neox": ("GPTNeoXConfig", SIZES, "bytes"),
    "gemma2": ("Gemma2Config", GROUPED, "pieces"),
    "gemma3": ("Gemma3TextConfig", GROUPED, "pieces"),
    "phi3": ("Phi3Config", SIZES | {"num_key_value_heads": 2}, "pieces"),
    "cohere": ("CohereConfig", SIZES | {"num_key_value_heads": 2}, "bytes"),
    "bloom": ("BloomConfig", {"hidden_size": 32, "n_layer": 3, "n_head": 4}, "bytes"),
    "falcon": ("FalconConfig", SIZES, "bytes"),
    "xglm": ("XGLMConfig", {"d_model": 32, "num_layers": 3, "attention_heads": 4, "ffn_dim": 48}, "pieces"),
    "mixtral": ("MixtralConfig", EXPERTS, "pieces"),
    "qwen3-moe": ("Qwen3MoeConfig", EXPERTS | {"num_experts": 4, "moe_intermediate_size": 24}, "bytes"),
    "gpt-oss": ("GptOssConfig", EXPERTS, "bytes"),
    "mamba": ("MambaConfig", {"hidden_size": 32, "num_hidden_layers": 3, "state_size": 4}, "bytes"),
}
OTHERS = OTHER_ENCODERS | OTHER_DECODERS
SINGLE_PRECISION = ("gpt-neo", "xlnet", "xglm", "mixtral", "qwen3-moe", "gpt-oss")  # they cannot run in float64
WITHOUT_LM_HEAD = ("longformer", "xlnet", "bart", "t5")  # that could decode their hidden layers
# The position after the padding id; MPNet's padding id is 1 whatever its configuration says.
FIRST_POSITION = {"roberta": 1, "xlm-roberta": 1, "mpnet": 2}


def config(name: str, **settings):
    """The tiny configuration of an architecture."""
    return tiny_models.config((ARCHITECTURES | OTHERS)[name], **settings)


def model(name: str, head: str, seed: int = 0, **settings):
    """A random model of that architecture with that head."""
    return tiny_models.build((ARCHITECTURES | OTHERS)[name], head, seed, **settings)


def lm_head(name: str) -> str:
    """The kind of LM head of an architecture."""
    return "causal" if name in DECODERS | OTHER_DECODERS else "masked"


def save(folder: Path, name: str, head: str, seed: int = 0, **settings) -> Path:
    """A checkpoint folder with model and tokenizer, written on first use."""
    path = folder / f"{name}-{head}-{seed}-{abs(hash(str(settings))) % 10**6}"
    if not path.exists():
        model(name, head, seed, **settings).save_pretrained(path)
        tokenizer((ARCHITECTURES | OTHERS)[name][2]).save_pretrained(path)
    return path


def load(folder: Path, name: str, head: str) -> nbsal.Subject:
    """A subject in the highest precision that its model runs in, with an LM head if there is one to decode with."""
    alone = head == "causal" or name in WITHOUT_LM_HEAD
    lm = None if alone else save(folder, name, lm_head(name), seed=1)
    return nbsal.load(save(folder, name, head), lm=lm, dtype="float32" if name in SINGLE_PRECISION else "float64")
