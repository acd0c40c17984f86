"""Tiny random models of many architectures, saved and loaded as checkpoints."""

import math
from collections import Counter
from functools import cache
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import trainers as training
from transformers import PreTrainedTokenizerFast

import nbsal

CORPUS = [
    "The film is a warm and funny joy from start to end.",
    "A dull, endless bore that nobody needs; the plot hardly moves.",
    "Prices fell on Monday after the company reported a loss.",
    "The striker scored twice and the visitors won the final.",
    "Who wrote the book about the river and the mountain?",
]
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
# Weights are larger than usual: otherwise the output of tiny models hardly depends on their input.
COMMON = {"initializer_range": 0.15, "max_position_embeddings": 64}
ENCODERS = {
    "bert": ("BertConfig", SIZES, "wordpiece"),
    "roberta": ("RobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "bytes"),
    "distilbert": ("DistilBertConfig", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}, "wordpiece"),
    "electra": ("ElectraConfig", SIZES | {"embedding_size": 16}, "wordpiece"),
    "albert": ("AlbertConfig", SIZES | {"embedding_size": 16}, "pieces"),
    "deberta-v2": (
        "DebertaV2Config",
        SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
        "pieces",
    ),
    "mpnet": ("MPNetConfig", SIZES | {"pad_token_id": 0}, "wordpiece"),
    "xlm-roberta": ("XLMRobertaConfig", SIZES | {"pad_token_id": 0, "type_vocab_size": 1}, "pieces"),
    "modernbert": (
        "ModernBertConfig",
        SIZES | {"pad_token_id": 0, "local_attention": 16, "global_attn_every_n_layers": 2},
        "bytes",
    ),
}
DECODERS = {
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}, "bytes"),
    "llama": ("LlamaConfig", SIZES | {"num_key_value_heads": 2}, "pieces"),
    "qwen3": ("Qwen3Config", SIZES | {"num_key_value_heads": 2, "head_dim": 8}, "bytes"),
}
ARCHITECTURES = ENCODERS | DECODERS
# Architectures that only the table of methods and architectures runs, each with one head. None: without an LM head.
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = GROUPED | {"num_experts_per_tok": 2, "num_local_experts": 4}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
BART = {
    "d_model": 32, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "init_std": 0.15, "decoder_start_token_id": 3,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
    "initializer_factor": 0.5,  # the norms of T5 are steep near zero
}  # fmt: skip
OTHER_ENCODERS = {
    "deberta": ("DebertaConfig", SIZES | DISENTANGLED, "bytes"),
    "big-bird": ("BigBirdConfig", SIZES | {"attention_type": "original_full"}, "pieces"),
    "longformer": ("LongformerConfig", SIZES | {"attention_window": 16}, "bytes"),
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}, "pieces"),
    "bart": ("BartConfig", BART, "bytes"),
    "t5": ("T5Config", T5, "pieces"),
}
OTHER_DECODERS = {
    "opt": (
        "OPTConfig",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 48, "word_embed_proj_dim": 32},
        "bytes",
    ),
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
SINGLE_PRECISION = ("xlnet", "xglm", "mixtral", "qwen3-moe", "gpt-oss")  # they cannot run in float64
WITHOUT_LM_HEAD = ("longformer", "xlnet", "bart", "t5")  # that could decode their hidden layers
FIRST_POSITION = {
    "roberta": 1,
    "xlm-roberta": 1,
    "mpnet": 2,
}  # the position after the padding id; MPNet's padding id is 1 whatever its configuration says
HEADS = {
    "sequence": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "token": "AutoModelForTokenClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def pieces() -> list[tuple[str, float]]:
    """Letters and frequent parts of words of the corpus, with log-probabilities.

    A trainer would break ties at random, so that every run would test different inputs.
    """
    words = [f"▁{word}" for text in CORPUS for word in text.split()]
    spans = [word[i:j] for word in words for i in range(len(word)) for j in range(i + 1, min(len(word), i + 5) + 1)]
    counts = Counter(spans)
    single = sorted(piece for piece in counts if len(piece) == 1)
    longer = sorted(
        (piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece] * len(piece), piece)
    )
    return [(piece, math.log(counts[piece] / len(spans))) for piece in single + longer[:80]]


def wordpieces() -> list[str]:
    """The same parts in WordPiece notation."""
    starts = {piece[1:].lower() for piece, _ in pieces() if piece.startswith("▁")}
    inner = {piece.lower() for piece, _ in pieces() if not piece.startswith("▁")}
    letters = {piece for piece in inner if len(piece) == 1}
    return sorted((starts | letters) - {""}) + sorted(f"##{piece}" for piece in inner)


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A small tokenizer of that kind: "wordpiece", "bytes" (byte-level BPE) or "pieces" (SentencePiece)."""
    if kind == "wordpiece":
        vocabulary = {piece: i for i, piece in enumerate(SPECIAL + wordpieces())}
        result = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        result.normalizer = normalizers.BertNormalizer(lowercase=True)
        result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        result.decoder = decoders.WordPiece()
        result.add_special_tokens(SPECIAL)
    elif kind == "bytes":
        result = Tokenizer(models.BPE())
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        options = {"special_tokens": SPECIAL, "initial_alphabet": alphabet, "show_progress": False}
        result.train_from_iterator(CORPUS, training.BpeTrainer(vocab_size=320, **options))
    else:
        result = Tokenizer(models.Unigram([(special, 0.0) for special in SPECIAL] + pieces(), unk_id=1))
        result.normalizer = normalizers.NFKC()
        result.pre_tokenizer = pre_tokenizers.Metaspace()
        result.decoder = decoders.Metaspace()
        result.add_special_tokens(SPECIAL)
    cls, sep = result.token_to_id("[CLS]"), result.token_to_id("[SEP]")
    result.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    types = ["token_type_ids"] if kind == "wordpiece" else []  # as BERT's tokenizer, and the other two do not
    names["model_input_names"] = ["input_ids", *types, "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=result, model_max_length=64, **names)


def config(name: str, **settings):
    """The tiny configuration of an architecture."""
    config_class, sizes, tokenizer_kind = (ARCHITECTURES | OTHERS)[name]
    size = len(tokenizer(tokenizer_kind))
    common = {key: value for key, value in COMMON.items() if name != "xlnet" or "max" not in key}  # it has no maximum
    ids = {"vocab_size": size, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if name == "modernbert":
        ids |= {"cls_token_id": 2, "sep_token_id": 3}
    result = getattr(transformers, config_class)(**common | ids | sizes | settings)
    result.vocab_size = size
    return result


def model(name: str, head: str, seed: int = 0, **settings):
    """A random model of that architecture with that head."""
    torch.manual_seed(seed)
    settings = {"num_labels": 2 if head == "span" else 3} | settings
    return getattr(transformers, HEADS[head]).from_config(config(name, **settings)).eval()


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
