"""Tiny random models that write replies, their tokenizer, and chat templates of many families, written by hand."""

import threading
from functools import cache

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers import trainers as training

import nbsal
from nbsal.explain.prompt.prompts import read_prompt, tokenize_reply, with_reply
from nbsal.explain.prompt.sources import parse_prompt
from nbsal.support.errors import Cancelled
from tests import zoo

SOURCE = "The film is a warm joy. The plot is a bore. Who wrote the book?"
REPLY = " The company wrote it."
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SIZES = {
    "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "initializer_range": 0.15,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MODELS = {
    "llama": ("LlamaConfig", SIZES),
    "qwen3": ("Qwen3Config", SIZES),
    "mistral": ("MistralConfig", SIZES | {"sliding_window": None}),
    "gemma2": ("Gemma2Config", SIZES | {"query_pre_attn_scalar": 8, "sliding_window": 40}),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": 400, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 512, "initializer_range": 0.15}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    ),
}
SOURCES = {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48} | {
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "init_std": 0.15, "max_position_embeddings": 512,
    "vocab_size": 400, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
T5 = {
    "vocab_size": 400, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0, "initializer_factor": 0.5,
}  # fmt: skip
ENCODER_DECODERS = {
    "t5": ("T5Config", T5 | {"feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8}),
    "bart": ("BartConfig", SOURCES | {"decoder_start_token_id": 2, "forced_bos_token_id": 1}),
    "marian": ("MarianConfig", SOURCES | {"decoder_start_token_id": 0, "scale_embedding": True}),
    "pegasus": ("PegasusConfig", SOURCES | {"decoder_start_token_id": 0}),
    "mbart": ("MBartConfig", SOURCES | {"decoder_start_token_id": 2, "forced_bos_token_id": 4}),
    "m2m100": ("M2M100Config", SOURCES | {"decoder_start_token_id": 2, "forced_bos_token_id": 3}),
    "blenderbot": ("BlenderbotConfig", SOURCES | {"decoder_start_token_id": 1}),
    "mt5": ("MT5Config", T5),
    "umt5": ("UMT5Config", T5),
}
PROPHET = {
    "vocab_size": 400, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "pad_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 0, "init_std": 0.15,
}  # fmt: skip
WINDOWED = {"attention_window": 8, "max_encoder_position_embeddings": 512, "max_decoder_position_embeddings": 512}
LANGUAGES = {"langs": ["en", "de"], "src_vocab_size": 400, "tgt_vocab_size": 400}
ODD = {  # encoder-decoders that lay out their states in a way of their own: padded, in several streams, by time
    "led": ("LEDConfig", SOURCES | WINDOWED | {"decoder_start_token_id": 2}),
    "prophetnet": ("ProphetNetConfig", PROPHET),
    "fsmt": ("FSMTConfig", SOURCES | LANGUAGES | {"decoder_start_token_id": 2}),
}
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "llama 3": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    "llama 2": "{% set first = messages[0] %}{% set has_system = first.role == 'system' %}"
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] "
    "{% if has_system and loop.index0 == 1 %}<<SYS>>\n{{ first.content }}\n<</SYS>>\n\n{% endif %}"
    "{{ m.content.strip() }} [/INST]{% elif m.role == 'assistant' %} {{ m.content.strip() }} {{ eos_token }}"
    "{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% set system = messages[0].content ~ '\n\n' if messages[0].role == 'system' else '' %}"
    "{% for m in messages %}{% if m.role != 'system' %}<start_of_turn>"
    "{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{% if loop.index0 == (1 if system else 0) %}{{ system }}{% endif %}{{ m.content | trim }}<end_of_turn>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}{{ eos_token }}"
    "{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}",
    "qwen 3": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content.split('</think>')[-1].lstrip('\n') if m.role == 'assistant' else m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "phi": "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "zephyr": "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content + eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "upper case": "{% for m in messages %}[{{ m.role }}] {{ m.content | upper }}\n{% endfor %}",
}
CITING = (
    "{% for d in documents or [] %}[{{ loop.index }}] {{ d.title }}: {{ d.text | trim }}\n{% endfor %}" + CHATML
)  # a template that places documents


@cache
def tokenizer(template: str | None = "chatml", bos: bool = False) -> transformers.PreTrainedTokenizerFast:
    """A byte-level tokenizer with that chat template, which may write a first token before every text."""
    result = Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    result.train_from_iterator(zoo.CORPUS, training.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, **options))
    if bos:
        result.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=result, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=512
    )
    made.chat_template = CITING if template == "citing" else TEMPLATES.get(template)
    return made


@cache
def source_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """The same tokens, with an end token behind each text and no chat template, as encoder-decoders have them."""
    source = tokenizer(None).backend_tokenizer.to_str()
    result = Tokenizer.from_str(source)
    result.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": 512}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=result, **names)


def load(name: str = "llama", dtype: torch.dtype = torch.float64, template: str | None = "chatml") -> nbsal.Subject:
    """A tiny model that writes replies: a decoder, or an encoder-decoder."""
    config, sizes = (MODELS | ENCODER_DECODERS | ODD)[name]
    torch.manual_seed(0)
    if name in MODELS:
        config = getattr(transformers, config)(**sizes)
        model = transformers.AutoModelForCausalLM.from_config(config).eval().to(dtype)
        return nbsal.load(model, tokenizer=tokenizer(template))
    forced = sizes.get("forced_bos_token_id")
    config = getattr(transformers, config)(**{k: v for k, v in sizes.items() if k != "forced_bos_token_id"})
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    model.generation_config.forced_bos_token_id = forced
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_()  # as trained Marian models have it
    return nbsal.load(model.to(dtype), tokenizer=source_tokenizer())


def answer(subject, method, reply=REPLY, options=None, **settings):
    """An explainer, and the answer that it gives for a reply to the source."""
    explain = nbsal.Explainer(subject, method, **options or {})
    return explain, explain.reply(SOURCE, reply, progress=False, **settings)


def values_of(model, ids, reading, number="logprob", **options):
    """The numbers of the reply's tokens, by the stock model alone."""
    size = reading.prompt.source_size
    output = model(input_ids=ids[:, :size], decoder_input_ids=ids[:, size:-1], use_cache=False, **options)
    logits = output.logits[0, reading.start - size - 1 :]
    outcomes = logits.log_softmax(-1) if number == "logprob" else logits
    return outcomes.gather(1, ids[0, reading.start :, None])[:, 0], output


def reading_of(subject, request):
    """A request, or a prompt, and a reply as the model reads them."""
    request = parse_prompt(request, []) if isinstance(request, str) else request
    prompt = read_prompt(subject, request, None, None)
    return with_reply(subject, prompt, tokenize_reply(subject, prompt, " Ann wrote it.")[0])


def cancelled(call, after):
    """The error of a call that is cancelled as soon as so many steps are done."""
    cancel = threading.Event()
    with pytest.raises(Cancelled) as caught:
        call(progress=lambda done, total: done >= after and cancel.set(), cancel=cancel)
    return caught.value
