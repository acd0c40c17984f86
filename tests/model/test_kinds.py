"""Models of other kinds are refused in words when they are loaded; odd labels of token classifiers work."""

from types import SimpleNamespace

import pytest
import torch
import transformers

import nbsal
from nbsal.model import encoder_decoder, refusals
from nbsal.model.running.attention_maps import HeadSwitch
from nbsal.support.errors import ModelError
from tests import zoo
from tests.cases import cases
from tests.raising import refuses, refuses_part

TEXT = "The film is a warm and funny joy."
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
IMAGES = {"image_size": 8, "patch_size": 4}
SOUND = {
    "conv_dim": (8,), "conv_stride": (2,), "conv_kernel": (2,), "num_feat_extract_layers": 1,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
SEQUENCES = {
    "vocab_size": 50, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
}  # fmt: skip
T5 = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
CLIP = {"text_config": SIZES | {"vocab_size": 50}, "vision_config": SIZES | IMAGES, "projection_dim": 8}
WHISPER = SEQUENCES | {
    "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
PERCEIVER = {
    "vocab_size": 50, "d_model": 16, "d_latents": 16, "num_latents": 4, "num_self_attends_per_block": 1,
    "num_self_attention_heads": 2, "num_cross_attention_heads": 2, "max_position_embeddings": 16,
}  # fmt: skip
FUNNEL = {"vocab_size": 50, "block_sizes": [1, 1], "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 16}
# The model, its configuration, and the part that the error names.
OTHERS = [
    ("CLIPModel", ("CLIPConfig", CLIP), "input"),
    ("CLIPForImageClassification", ("CLIPConfig", CLIP), "input"),
    ("CLIPTextModel", ("CLIPTextConfig", CLIP["text_config"]), "head"),
    ("Wav2Vec2ForSequenceClassification", ("Wav2Vec2Config", SIZES | SOUND), "input"),
    ("Wav2Vec2ForCTC", ("Wav2Vec2Config", SIZES | SOUND), "input"),
    ("ViTForImageClassification", ("ViTConfig", SIZES | IMAGES), "input"),
    ("WhisperForConditionalGeneration", ("WhisperConfig", WHISPER), "input"),
    ("T5Model", ("T5Config", T5), "encoder"),
    ("T5EncoderModel", ("T5Config", T5), "head"),
    ("BertModel", ("BertConfig", SIZES), "head"),
    ("GPT2Model", ("GPT2Config", {"n_embd": 16, "n_layer": 1, "n_head": 2}), "head"),
]


UNREADABLE = [
    # Without decoder_start_token_id, it cannot read a text a second time.
    ("T5ForSequenceClassification", ("T5Config", T5), "head"),
    ("PerceiverForSequenceClassification", ("PerceiverConfig", PERCEIVER), "hidden_size"),
    ("CanineForSequenceClassification", ("CanineConfig", SIZES | {"upsampling_kernel_size": 4}), "vocab_size"),
    ("FunnelForSequenceClassification", ("FunnelConfig", FUNNEL), "hidden states"),
]


@cases("name, config, part", UNREADABLE)
def test_unsupported_architectures_are_refused(name, config, part):
    model = getattr(transformers, name)(getattr(transformers, config[0])(**config[1])).eval()
    with refuses_part(part):
        nbsal.Explainer(nbsal.load(model), "gradcam").ids([5, 6, 7])


@cases("name, config, part", OTHERS)
def test_models_of_other_kinds_are_refused(name, config, part):
    model = getattr(transformers, name)(getattr(transformers, config[0])(**config[1]))
    for refusing in (nbsal.load, nbsal.Subject):
        with pytest.raises(ModelError) as caught:
            refusing(model)
        assert caught.value.part == part and type(model).__name__ in str(caught.value)


def token_classifier(**labels):
    """A token classifier whose configuration has those labels."""
    model = zoo.model("bert", "token", num_labels=3)
    for name, value in labels.items():
        setattr(model.config, name, value)
    return nbsal.Subject(model, zoo.tokenizer("wordpiece"))


def test_a_label_that_names_two_classes_is_refused():
    explain = nbsal.Explainer(token_classifier(id2label={0: "O", 1: "PER", 2: "PER"}), "gradcam")
    with refuses("target"):
        explain(TEXT, target=(3, "PER"))


@pytest.mark.parametrize("head", ["sequence", "token"])
@pytest.mark.parametrize("id2label", [{0: "O", 1: "B-PER"}, {}])
def test_a_configuration_with_another_number_of_labels_is_refused(head, id2label):
    model = zoo.model("bert", head, num_labels=3)
    model.config.id2label = id2label
    with refuses_part("labels"):
        nbsal.Explainer(nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece")), "gradcam")(TEXT)


def test_an_encoder_that_reads_no_tokens_is_refused():
    class Encoder:
        def forward(self, pixel_values):
            return pixel_values

    with refuses_part("input"):
        encoder_decoder.check_reads_tokens(SimpleNamespace(get_encoder=Encoder))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("device", lambda model: model.register_parameter("far", torch.nn.Parameter(torch.ones(1, device="meta")))),
        ("quantization", lambda model: setattr(model.config, "quantization_config", SimpleNamespace(quant_method="x"))),
    ],
)
def test_relevance_of_a_model_that_cannot_be_copied_is_refused(load, part, change):
    subject = load("bert")
    change(subject.model)
    with refuses_part(part):
        nbsal.Explainer(subject, "lrp")


def test_weights_of_4_bits_are_refused_on_the_processor(load):
    model = load("bert").model
    refusals.check_quantization(model)
    model.config.quantization_config = SimpleNamespace(load_in_4bit=True)
    with refuses_part("quantization"):
        refusals.check_quantization(model)


def test_heads_are_switched_only_where_their_number_is_known():
    switch = HeadSwitch(torch.zeros(2, 4, dtype=torch.bool))
    with refuses_part("attention maps"):
        switch.on_weights(torch.ones(1, 3, 5, 5))
