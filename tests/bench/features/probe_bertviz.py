"""What bertviz can do."""

import bertviz

from tests.bench.features import models
from tests.bench.features.registry import partly


def _attention(build=models.classifier, *texts):
    model, tokenizer = build()
    ids = tokenizer(*(texts or (models.SHORT,)), return_tensors="pt")
    model.set_attn_implementation("eager")
    attention = model(**ids, output_attentions=True).attentions
    return attention, tokenizer.convert_ids_to_tokens(ids["input_ids"][0])


def methods(folder):
    bertviz.head_view(*_attention(), html_action="return")
    bertviz.model_view(*_attention(), html_action="return")
    return "none: it draws attention weights"


def pairs(folder):
    attention, tokens = _attention(models.classifier, models.SHORT, models.LONG)
    page = bertviz.head_view(attention, tokens, sentence_b_start=tokens.index("[SEP]") + 1, html_action="return").data
    assert "Sentence A -> Sentence B" in page
    return "attention within and between"


def html(folder):
    page = bertviz.head_view(*_attention(), html_action="return").data
    return partly("a page with scripts, which it loads from the network") if "<script" in page else "a page"


def attention_view(folder):
    model, tokenizer = models.translator()
    model.set_attn_implementation("eager")
    source = tokenizer(models.SHORT, return_tensors="pt")
    target = tokenizer("a dull film", return_tensors="pt")["input_ids"]
    out = model(**source, decoder_input_ids=target, output_attentions=True)
    page = bertviz.model_view(
        encoder_attention=out.encoder_attentions,
        decoder_attention=out.decoder_attentions,
        cross_attention=out.cross_attentions,
        encoder_tokens=tokenizer.convert_ids_to_tokens(source["input_ids"][0]),
        decoder_tokens=tokenizer.convert_ids_to_tokens(target[0]),
        html_action="return",
    ).data
    assert "Cross" in page
    return "encoder, decoder and cross attention"


def neurons(folder):
    from bertviz.neuron_view import get_attention
    from bertviz.transformers_neuron_view import BertConfig, BertModel

    model = BertModel(BertConfig(len(models.tokenizer()), 32, 3, 4, 64))
    model.eval()
    result = get_attention(model, "bert", _Split(), models.SHORT, include_queries_and_keys=True)
    assert "queries" in result["all"]
    return "queries and keys of BERT, GPT-2 and RoBERTa, with classes of its own"


class _Split:
    """The tokenizer that the neuron view expects, of an older transformers."""

    cls_token, sep_token = "[CLS]", "[SEP]"

    def tokenize(self, text):
        return models.tokenizer().tokenize(text)

    def convert_tokens_to_ids(self, tokens):
        return models.tokenizer().convert_tokens_to_ids(tokens)
