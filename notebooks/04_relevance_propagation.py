# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     notebook_metadata_filter: kernelspec,jupytext,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Relevance, followed block by block
#
# A gradient says how an output *would* change. Relevance propagation says where it *came from*: it starts with a total
# of 1 at the logit of a class, and distributes this total backwards, layer by layer, down to the words. A rule
# conserves relevance if what arrives below is as much as what came from above.
#
# *Transformer Interpretability Beyond Attention Visualization* (Chefer et al., CVPR 2021) gives rules for transformers,
# and combines relevance with the gradients of attention: **transformer attribution**. This notebook computes a rule by
# hand, checks conservation on a real model, compares transformer attribution with attention rollout, shows a bug that
# appears in batches, and tests the methods.
#
# **You will be able to** apply a relevance rule by hand, check that it conserves relevance, test whether an explanation
# depends on the class, and compare relevance with simpler methods. Twenty minutes; you should know what a gradient is.
#
# The paper's experiments on images are not repeated here. Nor is that on text, the overlap with words that people
# marked in Movie Reviews, since that data set does not come with nbsal. (`nbsal.evaluation.token_f1_at` is the
# measure.)
#
# | symbol | meaning |
# |---|---|
# | $R$ | relevance: how much of the logit an activation accounts for |
# | $A^b$, $\nabla A^b$, $R^b$ | attention maps of block $b$, gradients of the logit with respect to them, relevance |
# | $\mathbb{E}_h$ | mean over attention heads |
# | $C$ | the product of all blocks' maps; its row of `[CLS]` is the explanation |

# %%
# %matplotlib inline
import os

import pandas
import torch

import nbsal
from nbsal.figures import printed, relevance

subject = nbsal.load("demo/reviews")
text = "The plot is thin, but the acting is wonderful."

# %% [markdown]
# ## The rule for a linear layer
#
# Let $y = Wx$. A rule must say how the relevance $R_y$ of the outputs is distributed over the inputs. Chefer et al.
# count only contributions $x_j w_{ij}$ that push the output *up*: input $j$ receives from output $i$ its share of all
# positive ones. Here is one layer with two outputs, whose relevance is 0.7 and 0.3:

# %%
x = torch.tensor([2.0, -1.0, 0.5])
weight = torch.tensor([[1.0, -1.0, 2.0], [-1.0, 0.5, 1.0]])
output_relevance = torch.tensor([0.7, 0.3])

contributions = x * weight  # [output, input]
positive = contributions.clamp(min=0)
shares = positive / positive.sum(1, keepdim=True)
input_relevance = output_relevance @ shares
table = torch.cat([contributions, shares, input_relevance[None]])
rows = ["contribution to output 0", "contribution to output 1", "share of output 0", "share of output 1", "relevance"]
pandas.DataFrame(table, rows, ["input 0", "input 1", "input 2"]).round(3).assign(total=table.sum(1))

# %% [markdown]
# The inputs receive 1 in total, as much as the outputs had. A transformer needs a few more rules:
#
# | operation | rule |
# |---|---|
# | linear layer | shares of the positive contributions |
# | product of two tensors (attention times values, queries times keys) | each factor receives half of the relevance |
# | sum of two tensors (residual connections) | each summand receives its share, rescaled so that the total stays |
# | layer norm, activation, softmax, dropout | relevance passes unchanged |
#
# nbsal runs the **stock** model and replaces only the *backward* of each operation by its rule. It copies no modelling
# code. An operation without a rule raises an error.
#
# ## Conservation, watched
#
# If every rule conserves relevance, it must sum to 1 at each layer, from the top block down to the embeddings.

# %%
maps = relevance.maps(subject, text)
print(f"sum of relevance at {len(maps.layer_sums)} layers: {maps.layer_sums.min():.8f} to {maps.layer_sums.max():.8f}")

# %% [markdown]
# Not all rules conserve relevance. `lrp@chefer` has the rules that the authors kept for their baselines. These treat
# positive and negative contributions as two separate sums, and give each of them the *whole* relevance. AttnLRP
# (Achtibat et al. 2024), nbsal's default method, distributes the logit itself instead of 1. It equals input times
# gradient of a modified model, and does not pass on what biases and softmax contribute.

# %%
lrp, older, attn_lrp = (nbsal.Explainer(subject, name)(text) for name in ("lrp", "lrp@chefer", "attn-lrp"))
print(f"sum at the embeddings: {lrp.scores.sum():.3f} (lrp), {older.scores.sum():,.0f} (lrp@chefer)")
absorbed = attn_lrp.provenance["absorbed"]
print(f"AttnLRP: {attn_lrp.scores.sum():.2f} of the logit {attn_lrp.scores.sum() + absorbed:.2f}")

# %% [markdown]
# With the first rules the sum stays 1, with the older ones it explodes. AttnLRP keeps less than half of the logit on
# this text: it explains in proportions, not the exact amount.
#
# nbsal sums relevance in float64, on a copy of the model, because the rule for sums divides by small numbers.
#
# ## From relevance to words
#
# Relevance at the embeddings is one possible explanation (`lrp`). Transformer attribution combines it with gradients:
# in every block, multiply the relevance of each attention weight by its gradient, keep what is positive, average over
# heads, add the identity for the residual connection, and multiply the maps of all $B$ blocks:
#
# $$\bar A^{b} = I + \mathbb{E}_h\big(\nabla A^{b} \odot R^{b}\big)^{+}, \qquad C = \bar A^{B-1} \cdots \bar A^{0}.$$
#
# These are the maps of the blocks and their product, without the identity (rows attend to columns):

# %% tags=["gallery-relevance"]
relevance.relevance_maps(maps)

# %% [markdown]
# In the top blocks only the row of `[CLS]` counts, which the classifier reads, and there *wonderful*. In the blocks
# below, relevance goes from *wonderful* to other words. The first row of $C$ is the explanation:

# %%
explain = nbsal.Explainer(subject, "transformer-attribution")
explain(text)

# %% [markdown]
# 99 % of the score lie on special tokens, for any text: the identity gives `[CLS]` a score of 1. Only the order and the
# proportions of the words mean something, and here *wonderful* has nearly everything.
#
# ## Rollout knows no class
#
# Attention rollout (Abnar and Zuidema 2020) multiplies raw attention maps in the same way. It uses no gradient and no
# relevance. Here it is beside $C$; the diagonal, which is mostly the identity, is left out of both:

# %%
relevance.rollout_maps(maps)

# %% [markdown]
# Attention rollout has its weight on `[CLS]` and `[SEP]`, $C$ on *wonderful*. Now explain both classes with several
# methods, and compare the largest change of a word's score with the largest score of a word:

# %%
words, changes = list(maps.row.content), {}
for name in ("rollout", "raw-attention", "transformer-attribution", "gae", "lrp"):
    negative, positive = (nbsal.Explainer(subject, name)(text, target=label).scores[words] for label in subject.labels)
    changes[name] = abs(negative - positive).max() / max(abs(negative).max(), abs(positive).max())
pandas.Series(changes, name="largest change / largest score").to_frame().round(3)

# %%
relevance.class_maps({label: explain(text, target=label) for label in subject.labels})

# %% [markdown]
# Rollout and raw attention do not depend on the class, so they cannot explain why it is *this* class and not the other.
# Relevance alone (`lrp`) changes by only 3 %. It is the gradient that makes transformer attribution and `gae` depend on
# the class: *thin* speaks for negative, *wonderful* for positive.
#
# ## Why the published rule mixes texts of a batch
#
# The rule for sums rescales by totals: $|{\textstyle\sum} R_a|$ and $|{\textstyle\sum} R_b|$ of the two summands. The
# published program takes them over the *whole* tensor. If the tensor is a batch, the total of one text leaks into the
# next. The program was run with one text at a time, where this makes no difference. Here is the rule for two texts of
# relevance 1, with totals over the batch and over each text:

# %%
torch.manual_seed(0)
summands = torch.randn(2, 2, 3, 4, dtype=torch.float64)  # [summand, text, position, feature]
arriving = torch.rand(1, 2, 3, 4, dtype=torch.float64)
arriving /= arriving.sum((2, 3), keepdim=True)


def sum_rule(summands, arriving, axes):
    """The relevance of two summands, with totals over some axes."""
    shares = summands * arriving / summands.sum(0)
    sizes, total = shares.sum(axes, keepdim=True), arriving.sum(axes, keepdim=True)
    return shares * sizes.abs() / sizes.abs().sum(0) * total / sizes


batch, texts = (1, 2, 3), (2, 3)
totals = {
    "as published, one at a time": [sum_rule(summands[:, [i]], arriving[:, [i]], batch).sum() for i in range(2)],
    "as published, in a batch": sum_rule(summands, arriving, batch).sum((0, 2, 3)),
    "totals of each text, in a batch": sum_rule(summands, arriving, texts).sum((0, 2, 3)),
}
pandas.DataFrame(totals, ["text 0", "text 1"], dtype=float).T.round(3)

# %% [markdown]
# In a batch, the published rule gives one text what belongs to the other. nbsal takes the totals of each text, so that
# a batch gives the scores of its single texts, whatever their lengths:

# %%
many = [text, "Dull.", "A warm, funny and surprisingly honest film about a family that cannot stop talking."]
alone = [explain(one) for one in many]
gaps = [abs(a.scores - b.scores).max() for a, b in zip(explain.map(many, progress=False), alone, strict=True)]
print("largest difference between a batch and its single texts:", f"{max(gaps):.1e}")

# %% [markdown]
# ## Is it any good here?
#
# AOPC is the mean loss of the decision's probability as the most important tokens are replaced by padding (high is
# good), log-odds the mean change of its logarithm (low is good). Of the other methods, `gae` and `attcat` combine
# attention with gradients, `partial-lrp` stops relevance at the top block's attention, and gradient times activation
# uses no attention.

# %%
SIZE = int(os.environ.get("NBSAL_SIZE", 24))  # texts
names = ("transformer-attribution", "gae", "attcat", "attn-lrp", "lrp", "partial-lrp", "rollout", "raw-attention")
explainers = {name: nbsal.Explainer(subject, name) for name in names}
explainers["gradient x activation l5"] = nbsal.Explainer(subject, "gradxact", layer=5)
explainers["random order"] = [nbsal.Explainer(subject, "random", seed=seed) for seed in range(3)]
reviews = nbsal.data.load("samples/reviews", shortest=14, tokenizer=subject.tokenizer).sample(SIZE, random_state=0)
results = nbsal.evaluation.faithfulness(explainers, reviews["text"].tolist(), progress=False)
here = results.mean().pivot(index="explainer", columns="measure", values="mean").sort_values("aopc", ascending=False)
paper = printed.frame(printed.DELETION, printed.LOSSES)["SST-2"]
side = {f"{name}, {where}": frame[name] for name in paper for where, frame in (("here", here), ("paper", paper))}
pandas.DataFrame(side).reindex(here.index).rename_axis(index=None).style.format("{:.3f}", na_rep="")

# %%
margins = results.paired("transformer-attribution", measures=["aopc"])
margins["p_holm"] = margins["p_holm"].map(lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}")
margins[["second", "margin", "low", "high", "p_holm"]].round(3).replace(-0.0, 0.0)

# %% [markdown]
# The *paper* columns are Table 1 of Song et al. 2024, who ran the same methods on BERT base and SST-2 (Chefer et al.
# report other data). Their row GAE stands here as transformer attribution, because that is what their code computes;
# `gae` here is the GAE of Chefer et al., ICCV 2021. The second table has how much better transformer attribution is
# than each other method, with 95 % intervals and adjusted p-values of paired tests.
#
# **These rules need the gradient.** Transformer attribution is better than `rollout` and `raw-attention`, and far
# better than relevance alone: `lrp` is below random orders, and `rollout` little above them. The lead over
# `partial-lrp` is not beyond chance here. On three other sets of reviews it beats these four by 0.05 to 0.29 in AOPC,
# with adjusted p-values of at most 0.02. On 50 pairs of MNLI, explained by `demo/nli`, only the lead over `lrp` is
# beyond chance [1].
#
# **The gradient does not need these rules.** `gae` and `attcat` combine attention with gradients, and gradient times
# activation uses no attention either. None of them is worse here. On the other four sets `gae` is ahead
# of transformer attribution by 0.01 to 0.06, beyond chance on three; gradient times activation at layer 5 by 0.02 to
# 0.10, beyond chance on two, but at layer 4 it is behind on three [1].
#
# **What follows for you.** Do not use `lrp` or `rollout` alone to explain a decision. Start with AttnLRP, whose rules
# are others and whose mean is the highest here (its lead over transformer attribution is not beyond chance), or with
# `gae`. Then test them on your own model and texts, as above.
#
# ## Where to go next
#
# * [`03_head_mask_discovery`](03_head_mask_discovery.ipynb) and [`06_mask_lrp_paper`](06_mask_lrp_paper.ipynb) let
#   relevance pass through selected heads only.
# * [`08_judging_explanations`](08_judging_explanations.ipynb) tests methods on a model of yours.
#
# ## Exercises
#
# 1. Give an output of the small layer a negative relevance. Does the rule still conserve the total?
# 2. Which block adds most to `[CLS]`'s attention to *wonderful*?
# 3. Does rollout change if you explain the other class? And if you change one word?
#
# <details><summary>Answers</summary>
#
# 1. Yes: with `output_relevance = torch.tensor([0.7, -0.3])` the inputs receive 0.4. The shares are of the
#    contributions, and each output distributes what it has, whatever its sign.
# 2. Block 5: `maps.blocks[:, 0, maps.row.tokens.index("wonderful")]` is 0.006 there, and less than 0.001 elsewhere.
# 3. Not for the class, by construction; for a word yes, since the attention maps change.
#
# </details>
#
# [1] Printed by `python -m tests.claims 04` in a checkout of nbsal, with the benchmark tables in the folder
# `NBSAL_DATA`.
