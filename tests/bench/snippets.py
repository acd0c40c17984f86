"""The code that a user of each tool writes to score every token of some texts, as short as the tool allows.

Each function takes a model, its tokenizer and texts, and returns one list of scores per text, for the predicted class.
"""


def ours(method):
    """Any method of this package."""

    def explain_texts(model, tokenizer, texts):
        import nbsal

        subject = nbsal.load(model, tokenizer=tokenizer)
        return [s.scores for s in nbsal.Explainer(subject, method).map(texts, progress=False)]

    return explain_texts


def captum_gradxact(model, tokenizer, texts):
    """Gradient x activation at the embeddings, one batch."""
    from captum.attr import LayerGradientXActivation

    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    forward = lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
    target = forward(ids, mask).argmax(-1)
    method = LayerGradientXActivation(forward, model.bert.embeddings)
    scores = method.attribute(ids, target=target, additional_forward_args=mask).sum(-1).detach()
    return [row[positions] for row, positions in zip(scores, mask.bool(), strict=True)]


def captum_integrated(model, tokenizer, texts):
    """25 steps from padding, one batch, 64 points of the path at once."""
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
    return [row[positions] for row, positions in zip(scores.detach(), mask.bool(), strict=True)]


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
    return [row[positions] for row, positions in zip(scores, mask.bool(), strict=True)]


def captum_shapley(model, tokenizer, texts):
    """25 permutations in which padding is replaced by the tokens, one text at a time."""
    import torch
    from captum.attr import ShapleyValueSampling

    method, scores = ShapleyValueSampling(lambda ids: model(input_ids=ids).logits), []
    with torch.no_grad():
        for text in texts:
            inputs = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
            ids = inputs["input_ids"]
            baseline = ids.where(inputs["special_tokens_mask"].bool(), tokenizer.pad_token_id)
            target = model(input_ids=ids).logits.argmax(-1)
            scores.append(method.attribute(ids, baseline, target=target, n_samples=25)[0])
    return scores


def interpret_integrated(model, tokenizer, texts):
    """transformers-interpret: its only method."""
    from transformers_interpret import SequenceClassificationExplainer

    explain = SequenceClassificationExplainer(model, tokenizer)
    return [[score for _, score in explain(text)] for text in texts]


def ferret(kind, **settings):
    """One of ferret's explainers, one text at a time."""

    def explain_texts(model, tokenizer, texts):
        import ferret

        explain, scores = getattr(ferret, kind)(model, tokenizer), []
        for text in texts:
            target = int(model(**tokenizer(text, return_tensors="pt")).logits.argmax())
            scores.append(explain(text, target=target, call_args=settings).scores)
        return scores

    return explain_texts


def interpreto(kind, **settings):
    """One of interpreto's explainers, with scores of tokens."""

    def explain_texts(model, tokenizer, texts):
        import interpreto

        explain = getattr(interpreto, kind)(model, tokenizer, granularity=interpreto.Granularity.TOKEN, **settings)
        return [output.attributions for output in explain(texts)]

    return explain_texts


def inseq(kind, aggregation):
    """One of inseq's methods, for the logit of the next token."""

    def explain_texts(model, tokenizer, texts):
        import inseq

        explain = inseq.load_model(model, kind, tokenizer=tokenizer)
        options = {"attributed_fn": "logit", "generation_args": {"max_new_tokens": 1}, "show_progress": False}
        outputs = explain.attribute(texts, **options).sequence_attributions
        return [output.aggregate(aggregation, normalize=False).target_attributions[:-1, 0] for output in outputs]

    return explain_texts


def shap(algorithm):
    """One of shap's explainers of texts, with as many evaluations as 24 permutations need."""

    def explain_texts(model, tokenizer, texts):
        import shap
        import torch

        def logits(texts):
            with torch.no_grad():
                return model(**tokenizer(list(texts), padding=True, return_tensors="pt")).logits.numpy()

        masker = shap.maskers.Text(tokenizer, mask_token=tokenizer.mask_token, collapse_mask_token=False)
        explain, targets, scores = shap.Explainer(logits, masker, algorithm=algorithm), logits(texts).argmax(-1), []
        for text, target in zip(texts, targets, strict=True):
            count = len(tokenizer(text)["input_ids"]) - 2
            values = explain([text], max_evals=12 * (2 * count + 1), silent=True).values[0]
            scores.append(values[:, target])
        return scores

    return explain_texts


def shapiq(kind, budget=0, orders=0):
    """One of shapiq's approximators, for a budget of coalitions or as many as some permutations need."""

    def explain_texts(model, tokenizer, texts):
        import numpy as np
        import shapiq
        import torch

        def logits(ids):
            with torch.no_grad():
                return model(input_ids=ids).logits

        scores = []
        for text in texts:
            ids = tokenizer(text, return_tensors="pt")["input_ids"][0]
            target, count = int(logits(ids[None]).argmax()), len(ids) - 2

            def game(coalitions, ids=ids, target=target):
                rows = ids.repeat(len(coalitions), 1)
                rows[:, 1:-1][~torch.tensor(coalitions)] = tokenizer.mask_token_id
                return np.concatenate([logits(batch)[:, target].numpy() for batch in rows.split(64)])

            explain = getattr(shapiq, kind)(n=count, random_state=0)
            values = explain.approximate(budget=budget or orders * (count - 1) + 2, game=game)
            scores.append(values.get_n_order_values(1))
        return scores

    return explain_texts


def gim(model, tokenizer, texts):
    """gim-explain: its only method."""
    import gim

    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in texts]
    return [gim.explain(model, each, tokenizer=tokenizer) for each in ids]
