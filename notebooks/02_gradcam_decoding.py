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
# # What a hidden layer says
#
# A transformer embeds the tokens of a text, sends them through a stack of blocks, and computes the class from the last
# hidden states. Most explanations go back to the embeddings. *Decoding Layer Saliency in Language Transformers* (Hou
# and Castanon, ICML 2023) explains the class by **one hidden layer** instead, and uses the model's own LM head to say
# which tokens the scores of that layer belong to.
#
# This notebook builds the method from its first equation to its Algorithm 1, in a few lines each, and checks every
# step against the library. Then it tests what the method is worth, and which part of it makes the difference.
#
# **You will be able to** compute Grad-CAM and its decoding by hand, choose a layer, and say what decoding adds and what
# it does not. Twenty minutes; you should know what a gradient and a transformer block are. Everything runs without a
# network on a small model that comes with nbsal: six blocks, fine-tuned on movie reviews.
#
# | symbol | meaning |
# |---|---|
# | $h_0$, $h_l$ | the embedding output; the output of block $l$ (one row per position) |
# | $y_c$ | the logit of class $c$ |
# | $\alpha_l$ | gradient of $y_c$ times hidden state, at layer $l$ (one row per position) |
# | $s_l$ | ReLU of the sum of $\alpha_l$ over features (one score per position) |
# | $D$ | the probability that the LM head assigns to each token of the text (rows) at each position (columns) |
# | $\tau$ | how many of the likeliest tokens of a position count |

# %%
# %matplotlib inline
import os
import warnings

import pandas
import torch

import nbsal
from nbsal.figures import decoding_saliency

subject = nbsal.load("demo/reviews")
text = "A slow start, but the second half is warm, funny and beautifully played."
print(f"{subject.name}: {subject.depth} blocks of {subject.heads} heads, labels {subject.labels}")

# %% [markdown]
# ## Equations 1 and 2: Grad-CAM at a block
#
# The gradient of the logit $y_c$ says how much the logit would gain from more of each feature of $h_l$. Times the
# feature itself, it says what the feature contributed, to first order:
#
# $$\alpha_l = \frac{\partial y_c}{\partial h_l} \odot h_l, \qquad s_l = \mathrm{ReLU}\Big(\sum_k \alpha_l^k\Big).$$
#
# A `Trace` holds the hidden states and gradients of **all** layers from one forward and one backward pass, so the
# equations are two lines. They agree with the library's `GradCAM`:

# %%
trace = nbsal.trace.record(subject, subject.encode(text))
layer = 5
alpha = trace.hidden_grad[layer] * trace.hidden[layer]  # eq. 1: [text, position, feature]
by_hand = alpha.sum(-1).relu()[0]  # eq. 2: [position]
gradcam = nbsal.Explainer(subject, "gradcam", layer=layer)(text)
print("by hand and by nbsal differ by at most", f"{abs(by_hand.numpy() - gradcam.scores).max():.1e}")
gradcam

# %% [markdown]
# ## Positions are not words
#
# At layer 0, a row of $h_0$ is the embedding of one token, and its score is that token's. Above, every block has mixed
# each row with all others. Is the third row of block 5 still about the third token?
#
# Before it was fine-tuned, the model was trained to fill in masked words. Its LM head turns a hidden state into a
# distribution over the vocabulary. The paper uses this head at every layer as a decoder. Here is how often the token
# that it reads most clearly at a position is the one that stands there, and what it reads at the special tokens:

# %%
row = trace.encoded[0]
vocabulary = torch.arange(subject.lm_head.vocab_size)
read = pandas.DataFrame(index=row.tokens)
for level in range(subject.depth + 1):
    shares = subject.lm_head.probabilities(trace.hidden[level][0], vocabulary)
    read[f"l{level}"] = subject.tokenizer.convert_ids_to_tokens(shares.argmax(-1).tolist())
same = read.eq(read.index, axis=0).mean()
read.loc[["[CLS]", "[SEP]"]].T.assign(**{"positions read as their own token": same.map("{:.0%}".format)})

# %% [markdown]
# The head reads every word as itself, at every layer. The exceptions are special tokens: `[SEP]` is read as a full stop
# at all layers but one, and `[CLS]` at the last. So in this model a position stays about its word, and decoding
# cannot change much. We come back to this at the end.
#
# ## The geometry (Figure 1)
#
# The paper draws the idea as a sphere whose axes are the tokens of the vocabulary; decoding places each hidden state
# on it. The paper's figure is a sketch. This one is computed from the two-word input *big dog*. A coordinate is the
# square root of a probability, and the third axis holds all other tokens together.

# %% tags=["gallery-geometry"]
decoding_saliency.toy_geometry(decoding_saliency.decoded_path(subject, "big dog"))

# %% [markdown]
# At every layer each word stays near its own corner. Some probability goes to other tokens, and none to the other word.
#
# ## Algorithm 1
#
# Let $D$ hold, for every *unique token of the input* (row) and every position (column), the probability that the head
# reads that token at that position. A token's score is the sum of the scores of all positions, weighted by these
# probabilities: $\hat s = D\, g(\alpha_l)$ with $g(\alpha) = \mathrm{ReLU}(\sum_k \alpha^k)$. That is line 9 of the
# algorithm. Equation 6 of the paper weights the features first and applies the ReLU at the end, $\hat s =
# \mathrm{ReLU}(\sum_k (D \alpha_l)^k)$, which is a slightly different estimate; both are here. A token that occurs
# twice has one row of $D$, and so the same score at both places.

# %%
unique, inverse = torch.tensor(row.ids).unique(return_inverse=True)
decode = subject.lm_head.probabilities(trace.hidden[layer][0], unique).T  # D: [unique token, position]
line_9 = decode @ alpha[0].sum(-1).relu()
equation_6 = (decode @ alpha[0]).sum(-1).relu()

decoded = nbsal.Explainer(subject, nbsal.Decoded(nbsal.GradCAM(layer=layer)))(text)
other_form = nbsal.Explainer(subject, nbsal.Decoded(nbsal.GradCAM(layer=layer), form="per_token"))(text)
print("line 9 differs from nbsal by at most", f"{abs(line_9[inverse].numpy() - decoded.scores).max():.1e}")
print("eq. 6 differs from nbsal by at most ", f"{abs(equation_6[inverse].numpy() - other_form.scores).max():.1e}")
own = decode[inverse, torch.arange(len(row))]
print(f"probability of a position's own token: median {own.median():.2f}, {(own > 0.5).sum()} of {len(row)} above 0.5")
decoded

# %% [markdown]
# ## Layer by layer
#
# One forward and one backward pass give the scores of all layers. In the map each layer is scaled to its own largest
# score. `nbsal.widgets.Layers(explainer, text=text)` shows the same as a view, whose rows can be pressed.

# %% tags=["gallery-layers"]
every = nbsal.Explainer(subject, "decoded-gradcam").every_layer(text)
axes = every.plot()

# %% [markdown]
# The layers disagree. Layers 0 to 3 score punctuation and function words too; layer 5 concentrates on *beautifully* and
# *warm*. Layer 4, one step below, gives these two almost nothing. Over all 160 reviews that come with nbsal, function
# words and punctuation are 49 % of the tokens. They have 43 to 51 % of the score at layers 0 to 3, 35 % at layer 4 and
# 14 % at layer 5 [1].
#
# The last layer is a special case. The classifier reads position 0 alone, so the whole gradient is at `[CLS]`, and
# undecoded Grad-CAM scores no word. Decoding passes a small part of the score on to words that the LM head still reads
# in `[CLS]`:

# %%
last = subject.depth
undecoded = nbsal.Explainer(subject, "gradcam", layer=last)(text)
through = nbsal.Explainer(subject, "decoded-gradcam", layer=last)(text)
reached = through.scores[~through.special].sum() / undecoded.scores.sum()
print(f"of the score of [CLS], {reached:.1%} reaches words of the text; the tokens with the largest part:")
through.top(5)[["token", "score"]].round(3)

# %% [markdown]
# These are mostly full stops and commas. In other texts the part is smaller: 0.8 % in the median review [1]. The last
# layer is no place to explain this model at.
#
# ## The threshold, and the two ways to sum
#
# Algorithm 1 lets a token count only where it is among the $\tau$ likeliest of a position. Does that change the order
# of the words, and does the choice between line 9 and equation 6? Each variant is compared with *plain* decoding, which
# is line 9 without a threshold. `kendall` is the rank correlation of the scores. `jaccard@5` is the number of tokens
# that are among the top five of both, divided by the number among the top five of either.

# %%
frame = nbsal.data.load("samples/reviews")
few = frame["text"].sample(20, random_state=0).tolist()


def decoded_at(level, **settings):
    return nbsal.Explainer(subject, nbsal.Decoded(nbsal.GradCAM(layer=level), **settings))


variants = {
    "plain": decoded_at(5),
    "tau = 1": decoded_at(5, tau=1),
    "tau = 3": decoded_at(5, tau=3),
    "eq. 6": decoded_at(5, form="per_token"),
    "undecoded": nbsal.Explainer(subject, "gradcam", layer=5),
}
agreement = nbsal.evaluation.rank_agreement(variants, few, progress=False).mean()
with_plain = agreement[agreement["explainer"].str.startswith("plain ~")]
with_plain.pivot(index="explainer", columns="measure", values="mean").rename_axis(index=None, columns=None).round(2)

# %% [markdown]
# At layer 5 neither a threshold nor the form of the sum changes the five most important tokens by much. Leaving out
# the decoding altogether changes them more (0.87), but not much, since most positions are read as their own token.
#
# At the *last* layer a small $\tau$ is harmful. Only one position has a gradient there, so with $\tau = 1$ only one
# token can have a score. All other tokens tie, and ties are ordered as the text is read. nbsal warns:

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    collapsed = decoded_at(last, tau=1)(text)
print(caught[0].message)
print("tokens with a score above 0:", [row.tokens[i] for i in range(len(row)) if collapsed.scores[i] > 0])

# %% [markdown]
# ## Is it any good? The two games
#
# The paper tests explanations by insertion and deletion, which it calls games. The Revealing game starts from an empty
# text and shows the most important tokens first: a good explanation restores the decision early, so a *large* area
# under the curve is better. The Hiding game removes the most important tokens first: the decision should fall early,
# so a *small* area is better. Hidden tokens are taken out of attention, so that no other token sees them.
#
# The y axis is the accuracy against the labels, the x axis the share of tokens that were revealed or hidden. "random"
# is the mean of twenty random orders; its band is their standard deviation. Simple l0 is the size of the gradient at
# the embeddings.

# %%
SIZE = int(os.environ.get("NBSAL_SIZE", 160))  # texts
frame = frame.sample(SIZE, random_state=0)
explainers = {
    "Grad-CAM l0": nbsal.Explainer(subject, "gradcam", layer=0),
    "decoded Grad-CAM l5": nbsal.Explainer(subject, "decoded-gradcam", layer=5),
    "Simple l0": nbsal.Explainer(subject, "simple", layer=0),
    "Grad-CAM l5, undecoded": nbsal.Explainer(subject, "gradcam", layer=5),
}
tenths = [step / 10 for step in range(11)]
games = nbsal.evaluation.games(
    explainers, frame["text"].tolist(), frame["label"].tolist(), fractions=tenths, random=min(SIZE, 20), progress=False
)
decoding_saliency.game_curves(games)

# %% [markdown]
# Both curves of layer 5 run together. They come near the full accuracy with a tenth of the tokens. When a tenth is
# hidden the accuracy is about 0.62, and about 0.35 at its lowest, since without the words for its class a text is
# called the other one. The empty text is always called positive, which is right for half of the reviews. These are the
# areas, beside those of the paper:

# %%
areas = games.auc().pivot(index="explainer", columns="game", values="auc").loc[games.explainers]
paper_l7 = "decoded Grad-CAM l5"  # the paper's best layer is 7 of 12
paper = pandas.DataFrame(  # Table 1a: RoBERTa base on the validation sentences of SST-2
    {"revealing": [0.797, 0.867, 0.799, 0.748], "hiding": [0.713, 0.609, 0.756, 0.770]},
    index=["Grad-CAM l0", paper_l7, "Simple l0", "random"],
)
side = {f"{game}, {where}": table[game] for game in paper for where, table in (("here", areas), ("paper", paper))}
table = pandas.DataFrame(side).loc[games.explainers].rename({paper_l7: f"{paper_l7} (paper: l7 of 12)"})
table.style.format("{:.3f}", na_rep="")

# %% [markdown]
# `margin` is how much better the decoded layer 5 is than `second`, with its 95 % interval. `p_holm` is the p-value of
# a paired permutation test over texts, adjusted for the six comparisons (Holm). Read it before the curves.

# %%
others = ["Grad-CAM l0", "Grad-CAM l5, undecoded", "Simple l0"]
margins = games.paired("decoded Grad-CAM l5", others)[["second", "game", "margin", "low", "high", "p_holm"]]
margins["p_holm"] = margins["p_holm"].map(lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}")
margins.round(3).replace(-0.0, 0.0)

# %% [markdown]
# **The layer matters.** Grad-CAM at layer 5 beats Grad-CAM at the embeddings in both games, here as in the paper. The
# levels differ, since our model is much smaller and the texts are others. On other texts [1]:
#
# | texts | Hiding: l5 better than l0 by | Revealing: by |
# |---|---|---|
# | SST-2, 160 sentences | 0.17 | 0.05 |
# | SST-2, 160 other sentences | 0.15 | 0.05 |
# | IMDB and Yelp, 80 short reviews | 0.22 | not beyond chance |
#
# **Decoding hardly matters.** The paper never shows the same layer *undecoded*, where each position simply scores the
# token at which it stands. That row is ours. In the Hiding game it does as well as the decoded layer; in the Revealing
# game it is ahead by 0.008, which is not beyond chance after adjustment. On the three other sets no difference is
# beyond chance either, at layers 5 and 4 [1]. It is not so everywhere: on AG News decoding itself helps in the Hiding
# game ([`05_decoding_paper`](05_decoding_paper.ipynb)). The size of the gradient, Simple l0, reveals as well as the
# decoded layer, and hides worse.
#
# **What follows for you.** Choose the layer, on other texts than those that you report: `nbsal.evaluation.best_layer`.
# Compare it with the same layer undecoded, and keep the decoding only if it is better on your texts. What decoding does
# give is a score for each token even where positions are not words, as at the last layer. nbsal's default, AttnLRP,
# needs no choice of a layer.
#
# ## Where to go next
#
# * [`05_decoding_paper`](05_decoding_paper.ipynb) draws the figures and tables of the paper.
# * [`08_judging_explanations`](08_judging_explanations.ipynb) is about intervals, agreement, and when not to believe an
#   explanation.
#
# ## Exercises
#
# 1. Compute $\hat s$ at layer 3 by hand, as above, and compare it with the library.
# 2. At which layer does the head read the fewest positions as their own token, and what does it read there instead?
# 3. Play the games with `tau=1` at the last layer. What do you expect, and why?
# 4. Choose the layer with `nbsal.evaluation.best_layer` on one half of the texts and report the other half. (It takes
#    the layer with the largest difference of the two areas, revealing minus hiding.)
#
# <details><summary>Answers</summary>
#
# 1. Replace `layer = 5` by `layer = 3`, run the cells of equations 1 and 2 and of Algorithm 1 again; the differences
#    stay at rounding.
# 2. `same.idxmin()` is layer 6; `read["l6"]` shows that `[CLS]` and `[SEP]` are read as a full stop.
# 3. No better than random orders. One token has a score, in most texts `[CLS]`, which is no word. All words tie, and
#    are hidden in the order of the text. Add `"tau = 1": decoded_at(last, tau=1)` to the explainers; the areas are 0.66
#    (Revealing; random 0.67) and 0.72 (Hiding; random 0.67, where less is better) [1].
# 4. [`08_judging_explanations`](08_judging_explanations.ipynb) does it in "Choose on one half, report on the other".
#
# </details>
#
# [1] Printed by `python -m tests.claims 02` in a checkout of nbsal, with the benchmark tables in the folder
# `NBSAL_DATA`.
