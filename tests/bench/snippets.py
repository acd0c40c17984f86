"""What a user of each tool writes: scores of every token of some texts, as short as the tool allows.

Each takes a model, its tokenizer and texts, and returns one list of scores a text, for what the model predicts.
"""


def ours(method):
    """This package, any method."""

    def told(model, tokenizer, texts):
        import nbsal

        subject = nbsal.load(model, tokenizer=tokenizer)
        return [s.scores for s in nbsal.Explainer(subject, method).map(texts, progress=False)]

    return told


def captum_gradxact(model, tokenizer, texts):
    """Gradient x activation at the embeddings, one batch."""
    from captum.attr import LayerGradientXActivation

    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    forward = lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
    target = forward(ids, mask).argmax(-1)
    method = LayerGradientXActivation(forward, model.bert.embeddings)
    scores = method.attribute(ids, target=target, additional_forward_args=mask).sum(-1).detach()
    return [row[own] for row, own in zip(scores, mask.bool(), strict=True)]


def captum_integrated(model, tokenizer, texts):
    """25 steps from padding, one batch, its points 64 at once."""
    from captum.attr import LayerIntegratedGradients

    inputs = tokenizer(texts, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    forward = lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
    target = forward(ids, mask).argmax(-1)
    baseline = ids.where(inputs["special_tokens_mask"].bool(), tokenizer.pad_token_id)
    method = LayerIntegratedGradients(forward, model.bert.embeddings)
    scores = method.attribute(
        ids, baseline, target=target, additional_forward_args=mask, n_steps=25, internal_batch_size=64
    ).sum(-1)
    return [row[own] for row, own in zip(scores.detach(), mask.bool(), strict=True)]


def captum_occlusion(model, tokenizer, texts):
    """Every position masked in turn, one batch."""
    import torch
    from captum.attr import Occlusion

    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    forward = lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
    with torch.no_grad():
        target = forward(ids, mask).argmax(-1)
        scores = Occlusion(forward).attribute(
            ids, (1,), baselines=tokenizer.mask_token_id, target=target, additional_forward_args=mask
        )
    return [row[own] for row, own in zip(scores, mask.bool(), strict=True)]


def captum_shapley(model, tokenizer, texts):
    """25 orders of padding uncovered, text by text."""
    import torch
    from captum.attr import ShapleyValueSampling

    method, found = ShapleyValueSampling(lambda ids: model(input_ids=ids).logits), []
    with torch.no_grad():
        for text in texts:
            inputs = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
            ids = inputs["input_ids"]
            baseline = ids.where(inputs["special_tokens_mask"].bool(), tokenizer.pad_token_id)
            target = model(input_ids=ids).logits.argmax(-1)
            found.append(method.attribute(ids, baseline, target=target, n_samples=25)[0])
    return found


def interpret_integrated(model, tokenizer, texts):
    """transformers-interpret: its only method."""
    from transformers_interpret import SequenceClassificationExplainer

    explain = SequenceClassificationExplainer(model, tokenizer)
    return [[score for _, score in explain(text)] for text in texts]


def ferret(kind, **settings):
    """One of ferret's explainers, text by text."""

    def told(model, tokenizer, texts):
        import ferret

        explain, found = getattr(ferret, kind)(model, tokenizer), []
        for text in texts:
            target = int(model(**tokenizer(text, return_tensors="pt")).logits.argmax())
            found.append(explain(text, target=target, call_args=settings).scores)
        return found

    return told


def interpreto(kind, **settings):
    """One of interpreto's explainers, by tokens."""

    def told(model, tokenizer, texts):
        import interpreto

        explain = getattr(interpreto, kind)(model, tokenizer, granularity=interpreto.Granularity.TOKEN, **settings)
        return [output.attributions for output in explain(texts)]

    return told


def inseq(kind, gathered):
    """One of inseq's methods, for the logit of the next token."""

    def told(model, tokenizer, texts):
        import inseq

        explain = inseq.load_model(model, kind, tokenizer=tokenizer)
        wanted = {"attributed_fn": "logit", "generation_args": {"max_new_tokens": 1}, "show_progress": False}
        found = explain.attribute(texts, **wanted).sequence_attributions
        return [one.aggregate(gathered, normalize=False).target_attributions[:-1, 0] for one in found]

    return told
