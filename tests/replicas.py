"""Reference implementation of decoded saliency: Algorithm 1 and equation 6 as loops, on stock outputs of one text."""

import copy

import torch

# Models with a final norm: their last hidden state is not the output of their last block.
PRE_NORM = (
    "modernbert",
    "gpt2",
    "llama",
    "qwen3",
)
HEADS = {
    "bert": lambda lm, h: lm.cls(h),
    "roberta": lambda lm, h: lm.lm_head(h),
    "distilbert": lambda lm, h: lm.vocab_projector(lm.vocab_layer_norm(lm.activation(lm.vocab_transform(h)))),
    "electra": lambda lm, h: lm.generator_lm_head(lm.generator_predictions(h)),
    "albert": lambda lm, h: lm.predictions(h),
    "deberta-v2": lambda lm, h: lm.cls(h),
    "mpnet": lambda lm, h: lm.lm_head(h),
    "xlm-roberta": lambda lm, h: lm.lm_head(h),
    "modernbert": lambda lm, h: lm.decoder(lm.head(lm.model.final_norm(h))),
    "gpt2": lambda lm, h: lm.lm_head(lm.transformer.ln_f(h)),
    "llama": lambda lm, h: lm.lm_head(lm.model.norm(h)),
    "qwen3": lambda lm, h: lm.lm_head(lm.model.norm(h)),
}


def hidden_and_gradient(name, model, inputs, layer, pick):
    """h_l and d pick(logits) / d h_l of one text, [position, width]."""
    model = copy.deepcopy(model)
    last = []
    if name in PRE_NORM:
        blocks = model.base_model.h if name == "gpt2" else model.base_model.layers
        blocks[-1].register_forward_hook(lambda module, args, output: last.append(output))
    output = model(**inputs, output_hidden_states=True)
    hidden = last[0] if name in PRE_NORM and layer == model.config.num_hidden_layers else output.hidden_states[layer]
    (gradient,) = torch.autograd.grad(pick(output), hidden)
    return hidden[0].detach(), gradient[0]


def alpha(method, hidden, gradient):
    """Equation 1, or the other features a layer method scores."""
    return gradient.abs() if method == "simple" else gradient * hidden


def g(method, vector):
    """The score of a layer method for the features of one position."""
    total = vector.sum()
    return total.clamp_min(0) if method == "gradcam" else total


def undecoded(method, hidden, gradient):
    """One score per position; those of Simple sum to 1."""
    scores = torch.stack([g(method, row) for row in alpha(method, hidden, gradient)])
    return scores / scores.sum() if method == "simple" else scores


def decoded(name, lm, ids, method, hidden, gradient, form="per_position", tau=None, renormalise=False):
    """Algorithm 1 (per_position) or equation 6 (per_token), with the score of each type at all of its positions."""
    features = alpha(method, hidden, gradient)
    if method == "simple":  # its g divides by the sum over the text
        features = features / features.sum()
    with torch.no_grad():
        logits = HEADS[name](lm, hidden[None])[0]
    probabilities = logits.softmax(-1)  # line 4, [n, V]
    unique = sorted(set(ids))
    if renormalise:
        probabilities = probabilities / probabilities[:, unique].sum(-1, keepdim=True)
    scores = {}
    for token in unique:  # lines 6 to 12
        score = torch.zeros((), dtype=hidden.dtype)
        weighted = torch.zeros_like(features[0])
        for j in range(len(ids)):
            column = probabilities[j, unique]
            rank = int((column > probabilities[j, token]).sum())
            if tau is not None and rank >= tau:
                continue
            score += g(method, probabilities[j, token] * features[j])
            weighted += probabilities[j, token] * features[j]
        scores[token] = score if form == "per_position" else g(method, weighted)
    return torch.stack([scores[token] for token in ids])
