"""The tiny random models that the probes explain, built with transformers alone, old or new."""

from functools import cache, partial
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, normalizers
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

SHORT = "A warm and funny film."
LONG = "Nothing works here, and nobody laughs at the dull jokes of this long film."
TYPED = "An  UNFORGETTABLE film"  # two blanks, capitals, and a word of several tokens
PROMPT, REPLY = "the dull jokes of this", " long film works here"
SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK] <s> </s>".split()
WORDS = "a an and at dull film funny here jokes laughs long nobody nothing of the this un warm works . , ? <".split()
PIECES = "##for ##get ##table ##s".split()
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
RANDOM = {"initializer_range": 0.3}


@cache
def tokenizer(special: bool = True, segments: bool = True):
    """Lower-case words and pieces; with [CLS] and [SEP] for encoders, without for language models."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *WORDS, *PIECES])}
    backend = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.Lowercase(), BertPreTokenizer()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if special:
        pair = "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
        ids = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
        backend.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=ids)
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    else:
        names |= {"bos_token": "<s>", "eos_token": "</s>"}
    inputs = ["input_ids", *["token_type_ids"] * (special and segments), "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=inputs, **names)


@cache
def _encoder(kind: str, labels: int = 2):
    torch.manual_seed(0)
    names = {number: f"label {number}" for number in range(labels)}
    ids = {name: number for number, name in names.items()}
    config = transformers.BertConfig(vocab_size=len(tokenizer()), id2label=names, label2id=ids, **SIZES, **RANDOM)
    return getattr(transformers, f"BertFor{kind}")(config).eval(), tokenizer()


# BERTs that classify texts and pairs, answer questions with spans, and label tokens.
classifier = partial(_encoder, "SequenceClassification")
reader = partial(_encoder, "QuestionAnswering")
tagger = partial(_encoder, "TokenClassification", 3)


@cache
def writer():
    """A Llama that writes replies."""
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "bos_token_id": 5, "eos_token_id": 6}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer(False)), **SIZES, **RANDOM, **ids)
    return transformers.LlamaForCausalLM(config).eval(), tokenizer(False)


@cache
def gpt2():
    """A GPT-2 that writes replies."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer(False)), n_embd=32, n_layer=3, n_head=4, bos_token_id=5, eos_token_id=6, **RANDOM
    )
    return transformers.GPT2LMHeadModel(config).eval(), tokenizer(False)


@cache
def translator():
    """A BART: an encoder and a decoder."""
    torch.manual_seed(0)
    layers = {f"{side}_{key}": 2 for side in ("encoder", "decoder") for key in ("layers", "attention_heads")}
    sizes = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "init_std": 0.3}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3}
    config = transformers.BartConfig(vocab_size=len(tokenizer()), **layers, **sizes, **ids, forced_eos_token_id=None)
    return transformers.BartForConditionalGeneration(config).eval(), tokenizer(segments=False)


def saved(model, tokenizer, folder: Path) -> str:
    """The folder of a model, for tools that take nothing else."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def logits(texts, model=None):
    """The classifier as a function of texts, for tools that take functions."""
    model, encode = model or classifier()[0], tokenizer()
    with torch.no_grad():
        return model(**encode(list(texts), padding=True, return_tensors="pt")).logits.numpy()
