"""Tiny random models of many architectures, each saved and loaded as a checkpoint of its own."""

from functools import cache
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import trainers as training
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The film is a warm and funny joy from start to end.",
    "A dull, endless bore that nobody needs; the plot hardly moves.",
    "Prices fell on Monday after the company reported a loss.",
    "The striker scored twice and the visitors won the final.",
    "Who wrote the book about the river and the mountain?",
]
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
# Weights larger than usual: tiny models of the usual scale hardly react to their input.
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
HEADS = {
    "sequence": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "token": "AutoModelForTokenClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer of that manner, trained on a few sentences: WordPiece, byte-level BPE or sentence pieces."""
    options = {"special_tokens": SPECIAL, "show_progress": False}
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = training.WordPieceTrainer(vocab_size=160, **options)
    elif kind == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = training.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, **options)
    else:
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.NFKC()
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = training.UnigramTrainer(vocab_size=120, unk_token="[UNK]", **options)
    made.train_from_iterator(CORPUS, trainer)
    cls, sep = made.token_to_id("[CLS]"), made.token_to_id("[SEP]")
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **names)


def config(name: str, **settings):
    """The tiny configuration of an architecture."""
    kind, sizes, manner = ARCHITECTURES[name]
    size = len(tokenizer(manner))
    ids = {"vocab_size": size, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if name == "modernbert":
        ids |= {"cls_token_id": 2, "sep_token_id": 3}
    made = getattr(transformers, kind)(**COMMON | ids | sizes | settings)
    made.vocab_size = size
    return made


def model(name: str, head: str, seed: int = 0, **settings):
    """A random model of that architecture with that head."""
    torch.manual_seed(seed)
    settings = {"num_labels": 2 if head == "span" else 3} | settings
    made = getattr(transformers, HEADS[head]).from_config(config(name, **settings))
    return made.eval()


def lm_head(name: str) -> str:
    """Which kind of LM head the architecture has."""
    return "causal" if name in DECODERS else "masked"


def save(folder: Path, name: str, head: str, seed: int = 0, **settings) -> Path:
    """A checkpoint folder with model and tokenizer, made once."""
    path = folder / f"{name}-{head}-{seed}-{abs(hash(str(settings))) % 10**6}"
    if not path.exists():
        model(name, head, seed, **settings).save_pretrained(path)
        tokenizer(ARCHITECTURES[name][2]).save_pretrained(path)
    return path
