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
# # Judging explanations
#
# A highlighted sentence convinces at once, which is the trouble with it. It convinces whether it is right or wrong.
# This notebook is about telling the two apart: games and deletion, intervals and paired tests, agreement between
# methods, and six occasions on which not to believe a map.
#
# Two questions must be kept apart. Is the map **faithful**: did the model decide because of these tokens? Is it
# **plausible**: would a person have marked the same ones? Only the first is about the model.
#
# **You will be able to** test an explanation by hiding words, compare methods on the same texts with intervals, and
# list the occasions on which a map should not be believed. Thirty minutes; you should have read notebook 01.
#
# Six methods are judged, none of which needs to be known: decoded Grad-CAM at layer 5 and plain Grad-CAM at layer 0
# (the embeddings), Simple (the size of the gradient), AttCAT (attention times gradient), rollout (attention alone)
# and occlusion (hide a token and look).
#
# All numbers below are computed here, on `demo/reviews` and on texts that come with nbsal (SST-2 with `NBSAL_DATA`).
# There is no paper to compare with; notebooks 05 and 06 do that.

# %%
# %matplotlib inline
import copy
import os

import numpy as np
import pandas
import torch
from matplotlib.figure import Figure

import nbsal

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the texts that come along
SIZE = int(os.environ.get("NBSAL_SIZE", 160)) or None  # texts; 0: all

pandas.set_option("display.precision", 3)
subject = nbsal.load("demo/reviews")
table = "sst2" if DATA else "samples/reviews"
frame = nbsal.data.load(table, shortest=10, tokenizer=subject.tokenizer)
frame = frame.sample(min(SIZE or len(frame), len(frame)), random_state=0)
texts, labels = nbsal.data.texts(frame), frame["label"].tolist()
explainers = {
    "decoded Grad-CAM l5": nbsal.Explainer(subject, "decoded-gradcam", layer=5),
    "Grad-CAM l0": nbsal.Explainer(subject, "gradcam", layer=0),
    "Simple l0": nbsal.Explainer(subject, "simple", layer=0),
    "AttCAT": nbsal.Explainer(subject, "attcat"),
    "rollout": nbsal.Explainer(subject, "rollout"),
    "occlusion": nbsal.Explainer(subject, "occlusion"),
}
cache = nbsal.evaluation.Cache()  # explanations are computed once and used by every measure
print(f"{subject.name} on {table}, {len(texts)} texts of 10 tokens or more")

# %% [markdown]
# ## One text, token by token
#
# The Hiding game takes the most important token away, then the next, and watches the decision. In a running notebook
# you drag along the curve; without a kernel you see both games whole. The band is the range of ten orders by chance: a
# curve inside the band says nothing.

# %%
view = nbsal.widgets.Games(
    explainers["decoded Grad-CAM l5"], text="The acting is fine, but the script is a tired and lifeless mess.", at=2
)
view.wait()

# %% [markdown]
# ## Many texts, with intervals
#
# One text proves nothing. Over many, accuracy is drawn against the share of tokens shown or hidden, and the area
# under the curve sums it up. Every area has a 95 % interval, over which it would plausibly range with other *texts* of
# the same kind. In the games, a hidden token is taken out of attention.

# %%
tenths = [step / 10 for step in range(11)]
orders = min(SIZE or 20, 20)  # random ones, for comparison
games = nbsal.evaluation.games(explainers, texts, labels, fractions=tenths, random=orders, cache=cache, progress=False)
games

# %% [markdown]
# The intervals overlap, and that says little: all methods were played on the *same* texts, and hard texts are hard
# for all of them. The right question is about the difference on the same texts. Of many comparisons some look
# significant by luck alone, so `p_holm` adjusts each p for the number of comparisons in the table:

# %%
ours = "decoded Grad-CAM l5"
pairs = games.paired(ours)
pairs.drop(columns="first").set_index(["game", "second"]).sort_index(ascending=False).round(3)

# %% [markdown]
# A margin is by how much decoded Grad-CAM is better. Judge by `p_holm`; an interval is for one comparison alone. Seven
# of the twelve are below 0.05: decoded Grad-CAM is better than rollout, random orders and Grad-CAM at layer 0 in both
# games, and better than Simple in the Hiding game. From occlusion and AttCAT it cannot be told apart, and three of its
# four margins against them are negative.
#
# Two other sets, of 160 sentences of SST-2 each, have the same seven below 0.05 and one more: there occlusion hides
# *better*, by 0.05 and 0.06. On 80 short reviews of IMDB and Yelp five of the seven are left. From AttCAT it is never
# told apart. Numbers for other texts and seeds are printed by `python -m tests.claims 08`, with `NBSAL_DATA` set.
#
# How many texts does it take? The interval of a margin narrows with the square root of their number:

# %%
rows = {}
for count in (10, 40, len(texts)):
    part = nbsal.evaluation.games(
        {name: explainers[name] for name in (ours, "Simple l0")},
        texts[:count],
        labels[:count],
        fractions=tenths,
        random=0,
        cache=cache,
        progress=False,
    )
    hiding = part.paired(ours, "Simple l0").set_index("game").loc["hiding"]
    rows[f"{count} texts"] = hiding[["margin", "low", "high"]].astype(float)
pandas.DataFrame(rows).T.assign(width=lambda frame: frame["high"] - frame["low"]).round(3)

# %% [markdown]
# ## Hidden how?
#
# "Without this token" can mean three things: replaced by padding in full view of the others (as in the papers),
# replaced by the mask token, or taken away. In training the model never saw visible padding. If the order of methods
# depends on the way, the measure is about the way. AOPC, the area over the perturbation curve, is by how much the
# probability falls on average when the most important tokens are hidden; larger is better.

# %%
ways = {
    way: nbsal.evaluation.faithfulness(explainers, texts, way=way, random=3, cache=cache, progress=False)
    for way in ("pad", "mask", "remove")
}
aopc = pandas.DataFrame(
    {way: found.mean().query("measure == 'aopc'").set_index("explainer")["mean"] for way, found in ways.items()}
)
print("mean AOPC by way of hiding, and how well the ways agree on the order (Spearman):")
print(aopc.corr("spearman").round(2).to_string())
aopc.sort_values("remove", ascending=False)

# %% [markdown]
# The ways agree on the order of the methods here, though not on the values: against the mask token or removal, visible
# padding makes random orders, rollout and Simple look better, and the three best methods look worse than removal does,
# so that all are closer together. On 60 sentences of SST-2 it is the same; there padding also puts rollout before
# Grad-CAM at layer 0. With your model and texts, look again.
#
# ## Do methods agree with each other?
#
# Kendall's tau of two rankings is 1 where every pair of tokens stands the same way, 0 where they have nothing to do
# with each other. Two methods may differ because they answer different questions, so neither is wrong by that alone;
# and two that agree can both be wrong.

# %% tags=["gallery-agreement"]
agreement = nbsal.evaluation.rank_agreement(explainers, texts, cache=cache, progress=False).mean()
names = list(explainers)
grid = np.eye(len(names))
for pair, tau in agreement[agreement["measure"] == "kendall"][["explainer", "mean"]].itertuples(index=False):
    first, second = (names.index(name) for name in pair.split(" ~ "))
    grid[first, second] = grid[second, first] = tau
figure = Figure(figsize=(5.4, 4.4), layout="constrained")
ax = figure.subplots()
ax.imshow(grid, cmap="cividis", vmin=-0.2, vmax=1)
for i, j in np.ndindex(grid.shape):
    ax.text(j, i, f"{grid[i, j]:.2f}", ha="center", va="center", color="white" if grid[i, j] < 0.5 else "black")
ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
ax.set_yticks(range(len(names)), names)
ax.set_title("Kendall's tau between methods")
figure

# %% [markdown]
# Most pairs agree little: the methods answer different questions. Only AttCAT and occlusion order most words alike
# (0.65; 0.64 on 60 sentences of SST-2), before AttCAT and Grad-CAM at layer 0 (0.46 and 0.48).
#
# ## Choose on one half, report on the other
#
# Whoever tries seven layers and reports the best one has reported luck as well. `best_layer` chooses on some texts;
# play the games on others.

# %%
half = len(texts) // 2
start = nbsal.Explainer(subject, "decoded-gradcam")
chosen = nbsal.evaluation.best_layer(start, texts[:half], labels[:half], cache=cache, progress=False)
every = {f"l{layer}": one for layer, one in nbsal.evaluation.at_layers(start).items()}
rest = nbsal.evaluation.games(
    every, texts[half:], labels[half:], fractions=tenths, random=0, cache=cache, progress=False
)
print(f"chosen on the first {half} texts: layer {chosen}; areas on the other {len(texts) - half}:")
rest.auc().pivot(index="game", columns="explainer", values="auc").round(3)

# %% [markdown]
# ## What people marked
#
# Where people marked the words that carry a judgement, `rationale_agreement` says how well an explanation finds them:
# area under precision and recall, and F1 over runs of words. Below are five reviews with the words a reader would
# mark. This measures **plausibility**. A perfectly faithful map of a model that looks at the wrong words fails it, as
# it should.

# %%
marked = {
    "A warm and funny film about a family that cannot stop talking.": ["warm and funny"],
    "The acting is fine, but the script is a tired and lifeless mess.": ["tired and lifeless mess"],
    "Beautifully shot, clever, and far shorter than it feels.": ["Beautifully shot, clever"],
    "Two hours of noise that I will never get back.": ["noise", "never get back"],
    "I laughed from the first minute to the last.": ["laughed"],
}
spans = [[(text.index(w), text.index(w) + len(w)) for w in words] for text, words in marked.items()]
nbsal.evaluation.rationale_agreement(explainers, list(marked), spans, progress=False)

# %% [markdown]
# Five texts show how it is done and nothing more: the intervals reach from 0 to 1.
#
# ## Where the truth is known
#
# nbsal comes with tiny classifiers that were trained to go by a word which is no evidence: "urgent" anywhere, "quietly"
# and "tonight" only together, "today" as the first word only, quotation marks or asterisks, the name Dana. In each text
# below, the planted word decides against the evidence. How often does it have the highest score of all words?

# %%
names = ["decoded-gradcam", "gradcam", "simple", "gradxact", "integrated", "attcat", "rollout", "gae", "attn-lrp"]
planted = nbsal.evaluation.planted([*names, "occlusion", "random"], size=min(SIZE or 100, 100), progress=False)
planted

# %% [markdown]
# Integrated gradients, gradient times input, GAE, AttnLRP, Simple and occlusion find the word nearly always. Rollout
# misses two of five models altogether, Grad-CAM and AttCAT one, decoded Grad-CAM mostly the name. Each model is one
# training run, and models of an earlier version of the recipe fooled other methods: a method that misses here cannot be
# relied on, one that finds all five still has to be judged on your model. The documentation has all methods.
#
# # When not to believe a map
#
# ## 1. When it would look the same for another class
#
# Explain each class in turn. A map that is the same for both classes cannot say why the model chose one of them.

# %%
change = {}
for name, explain in explainers.items():
    both = [explain.map(texts[:12], targets=label, progress=False) for label in subject.labels]
    taus = [nbsal.evaluation.kendall(one.order, other.order) for one, other in zip(*both, strict=True)]
    change[name] = np.mean(taus)
pandas.Series(change, name="Kendall's tau between the maps of the two classes").round(2).to_frame()

# %% [markdown]
# Rollout never changes. Simple cannot tell either, for another reason: it takes the *size* of a gradient, and with two
# classes the two gradients are nearly mirror images. For the same reason AttCAT, occlusion and Grad-CAM at layer 0
# change sides completely, so with two classes this check is an easy one. Grad-CAM drops negative scores; tokens of
# which it says nothing tie, and a tie is ordered by the score before it was cut off. Decoding leaves few such ties, as
# a little of every position's score goes to other words, so decoded Grad-CAM changes less. Thirty other reviews and 30
# sentences of SST-2 give the same values to within 0.01, and -0.58 and -0.51 for decoded Grad-CAM.
#
# ## 2. When it would look the same for another model
#
# Replace the top blocks and the classifier by random ones. The model now knows nothing about reviews. An explanation
# that still looks the same was explaining the text, or the embeddings, but not the decision (Adebayo et al. 2018).

# %%
broken = copy.deepcopy(subject.model)
torch.manual_seed(0)
for name, parameter in broken.named_parameters():
    if (
        any(part in name for part in ("layer.3.", "layer.4.", "layer.5.", "pooler", "classifier"))
        and parameter.ndim > 1
    ):
        torch.nn.init.normal_(parameter, std=0.05)
ruined = nbsal.load(broken, tokenizer=subject.tokenizer, lm=nbsal.samples.build_lm())  # decoded by the same LM head
kept = {}
for name, explain in explainers.items():
    other = nbsal.Explainer(ruined, explain.method)
    maps = [one.map(texts[:12], targets="positive", progress=False) for one in (explain, other)]
    kept[name] = np.mean([nbsal.evaluation.kendall(a.order, b.order) for a, b in zip(*maps, strict=True)])
pandas.Series(kept, name="Kendall's tau between the trained and the ruined model").round(2).to_frame()

# %% [markdown]
# Values far from zero are a failure: rollout, and the gradient's size at the embeddings (Simple), draw much the same
# map for a model that knows nothing. What they show is in the text and the lower blocks, not in the decision. Decoded
# Grad-CAM, Grad-CAM, AttCAT and occlusion pass. With five different random seeds, on these reviews and on 20 sentences
# of SST-2, rollout has 0.76 to 0.79, Simple 0.45 to 0.55, and the others -0.23 to 0.18.
#
# ## 3. When the model is wrong
#
# A map explains what the model *did*. The shipped reviews have four kinds, and the model is good at one or two of
# them:

# %%
samples = nbsal.data.load("samples/reviews").iloc[:SIZE]
decided = explainers["rollout"].map(samples["text"].tolist(), progress=False)  # any method: only decisions count here
right = [one.prediction == subject.labels[label] for one, label in zip(decided, samples["label"], strict=True)]
samples.assign(right=right).groupby("kind")["right"].agg(["mean", "size"]).round(2)

# %%
irony = "I loved the ending, because it meant I could finally go home."
for word in ("loved", "", "hated"):
    one = explainers[ours](irony.replace("loved", word))
    print(f"{word or '(nothing)':9} {one.prediction}, {one.probabilities.max():.1%}")
explainers[ours](irony)

# %% [markdown]
# The map is faithful: without *loved*, or with *hated* in its place, the model decides otherwise. It tells you why the
# model fails at irony. It does not tell you that it fails; that takes a label.
#
# ## 4. When chance is in it
#
# LIME and Shapley draw samples. Explain one text with several seeds before you interpret the order of its words. More
# samples help, at a price.

# %%
text = texts[0]
SEEDS = min(SIZE or 4, 4)
rows = {}
for samples_drawn in (20, 100):
    runs = [nbsal.Explainer(subject, "lime", samples=samples_drawn, seed=seed)(text).order for seed in range(SEEDS)]
    taus = [nbsal.evaluation.kendall(runs[i], runs[j]) for i in range(SEEDS) for j in range(i)]
    rows[f"{samples_drawn} samples"] = {"mean tau between seeds": np.mean(taus), "least": min(taus)}
pandas.DataFrame(rows).T.round(2)

# %% [markdown]
# ## 5. When a full stop turns it over
#
# An edit that means nothing should change nothing. Take the final full stop away and compare the rankings of the
# words that stay.

# %%
dotted = [text for text in texts if text.endswith(".")][:12]
steady = {}
for name, explain in explainers.items():
    before, after = explain.map(dotted, progress=False), explain.map([t[:-1] for t in dotted], progress=False)
    taus = []
    for one, other in zip(before, after, strict=True):
        words = set(other.row.content)
        taus.append(nbsal.evaluation.kendall([i for i in one.order if i in words], other.order))
    steady[name] = np.mean(taus)
pandas.Series(steady, name="Kendall's tau with and without the final full stop").round(2).to_frame()

# %% [markdown]
# No method is turned over by it: on twelve texts all are alike, rollout included, which knows least of the decision.
# On 30 other reviews they are too (0.92 to 0.97). Of 30 sentences of SST-2, one loses its decision with its full stop
# (*so much facile technique, such cute ideas, so little movie*: 50.04% before), and with it four methods turn over; on
# the other 29 they stay at 0.92 to 0.94.
#
# ## 6. When it does not add up, or did not see everything
#
# Some methods promise that their scores sum to what they explain. The provenance of a result holds the gap; a wide
# gap means too few steps, or a path through inputs that mean nothing. And a text that was cut is explained up to the
# cut. Both stand under the picture, and in `saliency.notes()`.

# %%
long = " ".join(["It goes on and on."] * 90) + " But the end is wonderful, " + "and wonderful, " * 40 + "and warm."
for steps in (5, 50):
    print(f"{steps} steps:", nbsal.Explainer(subject, "integrated", steps=steps)(text).notes()[-1])
cut = nbsal.Explainer(subject, "gradcam", layer=5)(long)
print("cut:", cut.prediction, "|", cut.notes()[-1])
whole = nbsal.Explainer(subject, "gradcam", layer=5, long="window")(long)
print("in windows:", whole.prediction, "|", whole.notes()[-1])

# %% [markdown]
# The text ends with praise that the model did not read until it was given overlapping windows.
#
# ## A checklist
#
# 1. Play both games against orders by chance, on texts you did not tune on.
# 2. Report intervals, and paired differences rather than two intervals.
# 3. Say how tokens were hidden; try another way.
# 4. Set the layer's *undecoded* score, and a plain gradient, beside your method.
# 5. Explain the other class, and a ruined model.
# 6. Use more than one seed where chance is in it.
# 7. Keep faithful and plausible apart, and say which one you measured.
# 8. Look at texts that the model gets wrong.
#
# ## Exercises
#
# 1. Add `"one order": nbsal.Explainer(subject, "random")` to the explainers. Which of the warnings 1, 2 and 5 does it
#    fail, and is a method that passes them good?
# 2. Which method changes least without the final full stop, and is it faithful?
# 3. Load the table again and play the games on samples of 32 texts, with `random_state` 0 to 4. Which margins of the
#    Hiding game keep their sign, and which have an interval without zero?
#
# <details><summary>Answers</summary>
#
# 1. It fails 1 and 2 with a tau of 1, since it looks neither at the class nor at the model, and 5 with a tau near 0,
#    since a text of another length is another draw. Passing is necessary and not sufficient: Grad-CAM at layer 0 passes
#    all three, and hides worse than the decoded layer.
# 2. Rollout (0.97), though on twelve texts that is level with the others, and on others Simple is as steady. Rollout
#    hides no better than a random order (0.66 against 0.67): steadiness is no virtue by itself.
# 3. Against Grad-CAM at layer 0: 0.23, 0.05, 0.11, 0.03, 0.11, always of one sign, but only the first with an interval
#    without zero. Against Simple: 0.27, 0.04, 0.04, -0.02, 0.03. So 32 texts can miss a margin that is there (0.17 and
#    0.13 on all 160), and the lucky sample would have said twice as much. Nor are five samples enough to say how often:
#    with `random_state` 5 to 9, all five intervals against Grad-CAM at layer 0 and two against Simple are without
#    zero.
#
# </details>
