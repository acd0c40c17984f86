"""Numbers of notebooks 03 and 04: conservation, and deletion with and without head masks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import nbsal
from nbsal.heads import HeadMask
from nbsal.passes.changed_gradients import ATTN_LRP
from tests.claims.texts import delete, deletion_sets, explainers, margins, shuffled

RIVALS = ("lrp", "partial-lrp", "rollout", "raw-attention", "attcat", "gradxact l5", "gae")
LAYERS = ("gradxact l4", "gradxact l5")


def notebook_03(most: int | None) -> None:
    subject = nbsal.load("demo/reviews")
    kinds = {kind: HeadMask.from_array(getattr(subject.mask, kind)) for kind in ("syntactic", "positional")}
    members = masks(subject, "mask-lrp")
    members |= {f"{kind} heads": nbsal.Explainer(subject, "mask-lrp", mask=mask) for kind, mask in kinds.items()}
    for name, texts in deletion_sets(subject).items():
        results = delete(members | explainers(subject, LAYERS), texts[:most])
        margins(name, results, "mask-lrp", [*list(members)[1:], "gradxact l5"])
        margins(name, results, "mask-lrp", LAYERS)


def notebook_04(most: int | None) -> None:
    for model, table, count in (("reviews", "reviews", 15), ("news", "news", 12), ("nli", "pairs", 12)):
        texts = nbsal.data.texts(shuffled(f"samples/{table}", 4)[:count])[:most]
        conservation(nbsal.load(f"demo/{model}"), texts)
    reviews, nli = nbsal.load("demo/reviews"), nbsal.load("demo/nli")
    conservation(reviews, nbsal.data.texts(shuffled("sst2", 4)[:15])[:most])
    sets: dict[str, Any] = {name: (reviews, texts) for name, texts in deletion_sets(reviews).items()}
    sets["MNLI"] = nli, nbsal.data.texts(shuffled("mnli", 0, nli, 14)[100:150])
    for name, (subject, texts) in sets.items():
        results = delete(explainers(subject, ["transformer-attribution", *RIVALS, LAYERS[0]]), texts[:most])
        for others in (RIVALS, LAYERS[:1]):
            margins(name, results, "transformer-attribution", others)


def conservation(subject: Any, texts: Sequence[Any]) -> None:
    """Print sums of AttnLRP at the embeddings, and sums of absolute values by layer."""
    sums, sizes = [], []
    for text in texts:
        trace = nbsal.trace.record(subject.double.with_gradients(ATTN_LRP), subject.encode(text))
        products = [trace.hidden[k] * trace.hidden_grad[k] / trace.values for k in range(subject.depth + 1)]
        sums.append(float(products[0].sum()))
        sizes.append([float(product.abs().sum()) for product in products])
        if not 0 < sums[-1] < 1:
            confidence = max(nbsal.Explainer(subject, "gradxact")(text).probabilities)
            print(f"{subject.name}: sum {sums[-1]:.2f} of sizes {sizes[-1][0]:.2f}, probability {confidence:.3f}")
    inside = sum(0 < total < 1 for total in sums)
    print(f"{subject.name}: {inside} of {len(sums)} sums at the embeddings lie between 0 and 1")
    print("  median sum of absolute values by layer:", np.median(sizes, 0).round(2), flush=True)


def masks(subject: Any, method: str) -> dict[str, Any]:
    """The mask that the model comes with, three random ones, the other heads, and all heads."""

    def through(mask: HeadMask) -> Any:
        return nbsal.Explainer(subject, method, mask=mask)

    return {
        method: through(subject.mask),
        f"{method}, random": [through(subject.mask.matched_random(seed)) for seed in (10, 11, 12)],
        f"{method}, inverted": through(~subject.mask),
        f"{method}, all": through(HeadMask.from_array(np.ones(subject.mask.shape, int))),
    }
