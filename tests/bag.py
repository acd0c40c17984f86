"""A model that adds up one number per token, so that the exact attribution is known."""

import torch
import transformers
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

import nbsal
from tests import zoo


class BagPreTrainedModel(transformers.PreTrainedModel):
    """The base class that transformers requires."""

    config_class = transformers.BertConfig
    base_model_prefix = "bag"


class BagModel(BagPreTrainedModel):
    """Embeddings and one block."""

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layer = nn.ModuleList([nn.Identity()])
        self.is_causal = False

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids, attention_mask=None, **kwargs):
        return self.layer[0](self.embeddings(input_ids))


class BagForSequenceClassification(BagPreTrainedModel):
    """A linear function of the sum of the embeddings of all unmasked tokens."""

    def __init__(self, config):
        super().__init__(config)
        self.bag = BagModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, attention_mask=None, position_ids=None, token_type_ids=None, **kwargs):
        states = self.bag(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return SequenceClassifierOutput(logits=self.classifier((states * mask[..., None]).sum(1)))


def subject(dtype: torch.dtype = torch.float64) -> nbsal.Subject:
    """A subject with random weights and the WordPiece tokenizer of the zoo."""
    tokenizer = zoo.tokenizer("wordpiece")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_labels=3, num_attention_heads=1
    )
    config.classifier_pooling = "mean"
    torch.manual_seed(0)
    model = BagForSequenceClassification(config).to(dtype).eval()
    with torch.no_grad():
        model.bag.embeddings.weight.normal_()
    return nbsal.load(model, tokenizer=tokenizer)


def contributions(subject: nbsal.Subject, row, label: int) -> torch.Tensor:
    """The contribution of each token to the logit of a label."""
    model = subject.model
    return (model.bag.embeddings.weight[list(row.ids)] @ model.classifier.weight[label]).detach()
