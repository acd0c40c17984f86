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
# # Mask-LRP, figure by figure
#
# Every figure, table and numbered equation of *Better Explain Transformers by Illuminating Important Information* (Song
# et al. 2024). Notebook 03 introduces the method more slowly.
#
# **After this notebook you can** follow relevance through a masked block with the paper's equations, run an ablation
# that could have come out either way, and read a table of paired tests.
#
# **Time:** forty minutes, or five for the last table, which lists the paper's claims and whether they hold here. **Know
# before:** attention heads, softmax, gradients; notebook 04 explains relevance.
#
# **What differs from the paper.** The paper runs BERT base on five classification sets and three models on two sets of
# questions. Here are small embedded models: `demo/reviews` on SST-2 and on 60 short reviews each of IMDB and Yelp,
# `demo/nli` on MNLI (zero-shot: trained on SNLI), and `demo/answers` on SQuAD v1. For QQP and SQuAD v2 there are the
# paper's numbers only. Compare the *order* of methods with the paper, not the *levels* of numbers.
#
# **To run it yourself.** Without settings, texts written for nbsal stand in. `NBSAL_DATA=folder` uses the real sets
# (`sst2/validation.jsonl` and so on), `NBSAL_SIZE=0` all their texts, and `NBSAL_RESULTS=folder` stores results.
# `python -m nbsal.figures --paper mask-lrp --model NAME` draws the same with a checkpoint of Table 6.

# %%
# %matplotlib inline
import os
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
import pandas
import torch
from IPython.display import Markdown, display

import nbsal
from nbsal.figures import checkpoints, claims, explainers, flow, printed
from nbsal.figures import mask_lrp as paper
from nbsal.figures.store import Store
from nbsal.heads import HeadMask

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables and parses; None: the bundled samples
SIZE = int(os.environ.get("NBSAL_SIZE", 200 if DATA else 16)) or None  # texts of SST-2; 0: all
HALF = SIZE and max(SIZE // 2, min(SIZE, 4))  # pairs of MNLI, texts for the studies of the mask, and questions
LONG = SIZE and min(SIZE, 60)  # reviews of IMDB and of Yelp; None: all
RUNS = 2 if SIZE else 5  # random masks, and corruptions at each rate; 5 in the paper
FRACTIONS = [0.1, 0.3, 0.5, 0.7, 0.9] if SIZE else [tenth / 10 for tenth in range(1, 10)]
FRACTIONS = FRACTIONS[::2] if SIZE and SIZE < 10 else FRACTIONS  # a trial run has fewer points
store = Store(Path(os.environ.get("NBSAL_RESULTS") or tempfile.mkdtemp()))

# %%
reviews, nli, answers = (nbsal.load(f"demo/{name}") for name in ("reviews", "nli", "answers"))


def sample(table, subject, size, shortest=14, longest=None):
    """Texts of so many tokens or more, and fewer than so many characters, in random order."""
    frame = nbsal.data.load(table, shortest=shortest, tokenizer=subject.tokenizer)
    frame = frame if longest is None else frame[frame["text"].str.len() < longest]
    return nbsal.data.texts(frame.sample(len(frame), random_state=0).iloc[:size])


sets = {"SST-2": (reviews, sample("sst2" if DATA else "samples/reviews", reviews, SIZE))}
sets["MNLI"] = (nli, sample("mnli" if DATA else "samples/pairs", nli, HALF))
for title, table in (("IMDB", "imdb"), ("Yelp", "yelp_polarity")) if DATA else ():
    sets[title] = (reviews, sample(table, reviews, LONG, 0, LONG and 400))
stand_in = "" if DATA else "samples for "
titles = {name: f"{stand_in}{name}, {len(texts)} texts" for name, (_, texts) in sets.items()}
print(*(f"{title}: {sets[name][0].name}" for name, title in titles.items()), sep="\n")

# %% [markdown]
# ## The method: equations 1 to 11
#
# | symbol | meaning |
# |---|---|
# | $x^{(n)}$ | input of layer $n$; the paper counts layers from the *output* $x^{(1)}$ to the text $x^{(N)}$ |
# | $R^{(n)}_j$ | relevance of element $j$ there |
# | $B$, $M$; $\mathcal M \in \mathbb R^{B \times M}$ | blocks, heads of a block; the head mask, a sum of 0s and 1s |
# | $A^{(b)}$, $\nabla A^{(b)}$ | attention of block $b$, and the gradient of the logit with respect to it |
#
# An **attention head** is what this paper masks. The **syntactic head** (governor) of a word is another word, such as
# *film* for *affecting* in "an affecting film".
#
# Gradients follow the chain rule (1). Relevance follows a rule (2) for every operation $L$ of two tensors, which keeps
# the total (3):
#
# $$\nabla x^{(n)}_j = \frac{\partial x^{(1)}_c}{\partial x^{(n)}_j} = \sum_i \frac{\partial x^{(1)}_c}{\partial
# x^{(n-1)}_i} \frac{\partial x^{(n-1)}_i}{\partial x^{(n)}_j} \qquad (1)$$
#
# $$R^{(n)}_j = \mathcal G(X, Y, R^{(n-1)}) = \sum_i X_j \frac{\partial L^{(n)}_i(X, Y)}{\partial X_j}
# \frac{R^{(n-1)}_i}{L^{(n)}_i(X, Y)} \qquad (2)$$
#
# $$\sum_j R^{(n)}_j = \sum_i R^{(n-1)}_i \qquad (3)$$
#
# For linear layers, only contributions that push the output up count, $q = \{(i, j) \mid x_i w_{ij} \ge 0\}$ (computed
# by hand in notebook 04, "The rule for a linear layer"):
#
# $$R^{(n)}_j = \sum_{\{i | (i, j) \in q\}} \frac{x_j w_{ji}}{\sum_{\{j' | (j', i) \in q\}} x_{j'} w_{j'i}}
# R^{(n-1)}_i \qquad (4)$$
#
# Sums of two tensors can have huge parts that cancel. Chefer et al. (2021) therefore rescale the relevance of both
# parts $u$ and $v$, so that the total stays and no part exceeds it:
#
# $$\bar R^{u}_j = R^{u}_j\, \frac{\left|\sum R^{u}\right|}{\left|\sum R^{u}\right| + \left|\sum R^{v}\right|} \cdot
# \frac{\sum R^{(n-1)}}{\sum R^{u}}, \qquad \bar R^{v}_k = R^{v}_k\, \frac{\left|\sum R^{v}\right|}{\left|\sum
# R^{u}\right| + \left|\sum R^{v}\right|} \cdot \frac{\sum R^{(n-1)}}{\sum R^{v}}$$
#
# Song et al. split the relevance of a block by what its heads do (5), and collect the heads that do something in a mask
# (6). A head is syntactic if its strongest attention falls on the governor of a word more often than the most common
# distance alone would explain (7), and positional if it falls on one relative position nearly always (8):
#
# $$R^{(n_b)}_{imp} = R^{(n_b)}_{synt} + R^{(n_b)}_{pos} \qquad (5)$$
#
# $$\mathcal M = \mathcal M_{synt} + \mathcal M_{pos} \qquad (6)$$
#
# $$\mathcal M^{(b,m)}_{synt} = \sum_{k \in K} \mathbb 1\{\alpha^{(b,m)}_k > \max(\lambda_k) + \xi_{synt}\}, \qquad
# \xi_{synt} = 0.1 \qquad (7)$$
#
# $$\mathcal M^{(b,m)}_{pos} = \sum_{i \in I} \mathbb 1\{\alpha^{(b,m)}_i > \xi_{pos}\}, \qquad \xi_{pos} = 0.8
# \qquad (8)$$
#
# Relevance then passes through the selected heads only (9):
#
# $$R^{(n_b)} = \mathcal G(X, Y, R^{(n_b-1)}_{synt} + R^{(n_b-1)}_{pos} + R^{(n_b-1)}_{others}), \qquad
# R^{(n_b)} := R^{(n_b)}_{synt} + R^{(n_b)}_{pos} = \mathcal G(X, Y, \mathcal M^{(b)} R^{(n_b-1)}) \qquad (9)$$
#
# To conserve the total, the paper rescales both parts (without a number). Note the denominator: Chefer et al. add
# absolute values, this takes the absolute value of the sum, which loses the total if the parts differ in sign.
#
# $$R^{(n_b)}_{synt} := R^{(n_b)}_{synt} \frac{|\sum R^{(n_b)}_{synt}|}{|\sum R^{(n_b)}|} \cdot \frac{\sum
# R^{(n_b-1)}}{\sum R^{(n_b)}_{synt}}, \qquad R^{(n_b)}_{pos} := R^{(n_b)}_{pos} \frac{|\sum R^{(n_b)}_{pos}|}{|\sum
# R^{(n_b)}|} \cdot \frac{\sum R^{(n_b-1)}}{\sum R^{(n_b)}_{pos}}$$
#
# Last, as in Chefer et al., each block has a map (10), and the maps are multiplied (11):
#
# $$\bar A^{(b)} = \mathbb E_h\big(\nabla A^{(b)} \odot (R^{(n_b)}_{synt} + R^{(n_b)}_{pos})\big)^{+} + I \qquad (10)$$
#
# $$R(x^{(N)}) = \bar A^{(1)} \cdot \bar A^{(2)} \cdots \bar A^{(B)} \qquad (11)$$
#
# ### Three interpretations of these equations
#
# | method | a block's map (10) reads | a block without a selected head | rescaled |
# |---|---|---|---|
# | `mask-lrp` (default) | relevance *before* the block's own mask | passes everything | yes |
# | `mask-lrp@equations` | relevance *after* the mask, as printed | passes nothing | yes, as printed |
# | `mask-lrp@published` | before the mask, as the released program | passes nothing | no |
#
# In the default and the published interpretation a mask can only act on the blocks *below* it.
#
# The next cell starts from the relevance that arrives at one block's product of attention and values. By hand it
# computes the mask and its rescaling (5, 6, 9), the rule for the product (2; each factor gets half), the block's map
# (10) and the product of all maps (11). Blocks and heads count from 0 at the embeddings.

# %% tags=["equations-1-6", "equations-9-11"]
sentence = "A warm and affecting film that takes us on a charming journey."
explain = nbsal.Explainer(reviews, "mask-lrp")
model, needs = explain.method_subject, {*explain.method.needs, "attention", "hidden"}
trace = nbsal.trace.record(model, reviews.encode(sentence), [None], needs)
maps, heads = flow.attention_relevance(trace, explain.method)
block = int(reviews.mask.selected.sum(1).argmax())  # the one with most selected heads
arriving, passed = (part[0] for part in heads[block])  # [head, position, feature]
kinds = (reviews.mask.syntactic[block], reviews.mask.positional[block])
parts = [arriving * torch.tensor(kind)[:, None, None] for kind in kinds]  # equations 5, 6 and 9
size = sum(abs(part.sum()) for part in parts)
rescaled = sum(part * abs(part.sum()) / size * arriving.sum() / part.sum() for part in parts)

value = model.model.bert.encoder.layer[block].attention.self.value
states = value(trace.hidden[block][0].to(value.weight)).unflatten(-1, (reviews.heads, -1))
values = states.transpose(0, 1).to(arriving)  # [head, position, feature]
attention, gradient = trace.attention[block][0], trace.attention_grad[block][0]
share = attention * (arriving / (attention @ values) @ values.transpose(1, 2)) / 2  # equation 2
evidence = (gradient * share).relu().mean(0)  # equation 10, without the identity
blocks = [each["mean_relevance_evidence"][0] for each in explain.method.blocks(trace)]  # from the last to the first
rollout = torch.eye(len(evidence)).to(evidence)
for each in blocks:  # equation 11
    rollout = rollout + rollout @ each
both = {
    "mask and rescaling (5, 6, 9)": (rescaled, passed),
    "product (2)": (share, maps.attention[block][0]),
    "map of the block (10)": (evidence, blocks[reviews.depth - 1 - block]),
    "rollout (11)": (rollout[0], torch.tensor(explain(sentence).scores)),
}
rows = {name: (float(ours.abs().max()), float((ours - nbsals).abs().max())) for name, (ours, nbsals) in both.items()}
pandas.DataFrame(rows, index=["largest value by hand", "largest difference to nbsal"]).T.map("{:.1e}".format)

# %% [markdown]
# **What you see.** Computed by hand and by nbsal, the four steps agree to six digits or more of their largest value.
# That the total stays (3), notebook 04 shows layer by layer.
#
# ## Figure 1: where heads stand
#
# How many words after a dependent its governor stands, by relation. The paper parses SST-2 by machine (with Stanza);
# the published notebook uses the development part of the English Web Treebank, which people annotated.

# %% tags=["figure-1"]
treebank = Path(DATA or ".") / "ud_ewt" / "dev.conllu"
parses = treebank if treebank.exists() else Path(nbsal.samples.__file__).parent / "parses.conllu"
study = nbsal.heads.study(reviews, parses, progress=False)
paper.relation_distances(study)

# %% [markdown]
# **What the paper saw.** Each relation has one most common distance: adjectives stand right before their noun.
#
# **What you see.** The same. The highest bar of each panel is $\max(\lambda_k)$ of equation 7. A head that always looks
# one word ahead is right about most adjectives without any syntax, so the threshold is the highest bar plus 0.1.
#
# ## Figure 2: relevance through a block
#
# The paper draws boxes and arrows; this is the block computed above, on the same sentence.

# %% tags=["figure-2"]
flow.relevance_flow(flow.through_block(reviews, sentence, block))

# %% [markdown]
# **What you see.** Most relevance bypasses attention through the residual connection; the title of the second panel
# says how much. The mask stops the heads that it does not select, and rescales the others to the same total. It can
# change only the part that goes through attention.
#
# ## Figure 3: faithfulness
#
# The most important tokens are replaced by padding, a share $k$ at a time. AOPC is the mean loss of the predicted
# class's probability (high is good), log-odds the mean logarithm of what is left of it (low is good):
#
# $$\mathrm{AOPC}(k) = \frac 1T \sum_{t=1}^{T} f_{\hat y}(x_t) - f_{\hat y}(\tilde x^k_t) \qquad (12)$$
#
# $$\mathrm{LOdds}(k) = \frac 1T \sum_{t=1}^{T} \log \frac{f_{\hat y}(\tilde x^k_t)}{f_{\hat y}(x_t)} \qquad (13)$$
#
# The paper's names: RawAtt `raw-attention`, CAM `attention-cam`, GradCAM `attention-gradcam`, ALTC `alti`, and **GAE**
# `transformer-attribution`, which its program runs (the method that it cites is `gae` in nbsal). "Random" in the paper
# is a random *mask*, with as many heads as its own.

# %% tags=["equations-12-13"]
BASELINES = [label for label in printed.DELETION["SST-2"] if label not in ("random mask", "mask-lrp")]
LABELS = [*BASELINES, "mask-lrp", "random mask", "gradxact l5", "random"]


def evaluate(title, members, texts):
    """AOPC and log-odds of each explainer; results that are stored are loaded."""
    settings = {"texts": texts, "fractions": FRACTIONS, "measures": ("aopc", "log-odds")}
    return store.results(title, nbsal.evaluation.faithfulness, members, **settings)


deletion = {}
for name, (subject, texts) in sets.items():
    deletion[name] = evaluate(titles[name], explainers.by_label(subject, LABELS, RUNS), texts)

# %% tags=["figure-3"]
paper.deletion_curves(deletion["SST-2"], ["mask-lrp", *BASELINES[:-1], "random mask"])

# %% [markdown]
# **What the paper saw.** Mask-LRP is best at every share, and on SST-2 GAE is the best method without a mask.
#
# **What you see.** Another order. By AOPC, CAM and AttCAT have the highest means, but the tests below cannot tell them
# from Mask-LRP. Mask-LRP, its random masks and GAE lie on one line (three nested colours). LRP and rollout are lowest,
# LRP below random orders (0.186 against 0.205, Table 1).
#
# ## Tables 1 and 4
#
# Ours (*here*) beside the paper's two tables, whole; the row `alti` is Table 4. Not in the paper are `random` (orders
# of tokens) and `gradxact l5`, gradient times activation at a late layer. First AOPC, then log-odds.

# %% tags=["table-1", "table-4"]
for name, one in deletion.items():
    rows = one.mean().assign(half=lambda frame: (frame["high"] - frame["low"]) / 2).groupby("measure")["half"].max()
    print(f"{titles[name]}: 95 % intervals of at most ± {rows['aopc']:.2f}, log-odds ± {rows['log-odds']:.2f}")
for measure in ("aopc", "log-odds"):
    display(printed.deletion(deletion, measure))

# %% [markdown]
# **What the paper saw.** Mask-LRP leads in every column but log-odds on Yelp, where AttCAT does. The random mask is
# second on SST-2 and IMDB, and by AOPC on Yelp; on MNLI GAE is. Mask-LRP and random masks differ by 0.003 to 0.008 in
# AOPC, one to three of the paper's deviations between masks. The paper has no tests.
#
# **What you see.** `gradxact l5` has the highest AOPC on all four sets, and among the paper's methods CAM or AttCAT.
# Below are margins of Mask-LRP on the same texts, with 95 % intervals. *p* is adjusted for the number of AOPC tests on
# these texts in this notebook, which is in the last column (Holm 1979).

# %%
OTHERS = ["random mask", "transformer-attribution", "alti", "attcat", "attention-cam", "gradxact l5"]
ATTENTION = ["raw-attention", "rollout", "lrp", "partial-lrp"]
GAE, compared = "transformer-attribution", {}
for name, one in deletion.items():
    ours = one.paired("mask-lrp", [*OTHERS, *ATTENTION], ["aopc"])
    compared[titles[name]] = [ours, one.paired(GAE, "attention-gradcam", ["aopc"])]
tests = claims.family(compared)
claims.margins(tests, OTHERS, "mask-lrp")

# %% [markdown]
# **What you see.** On SST-2, Mask-LRP cannot be told from its random masks or from GAE, with margins below 0.004. It
# beats ALTI, as in the paper's Table 4. `gradxact l5`, which needs no relevance and no mask, beats it by 0.05. On MNLI
# AttCAT and `gradxact l5` beat it; `demo/nli` has a single selected head, in block 0, where the mask cannot act:
# Mask-LRP *is* GAE there, and these rows say nothing about the mask. On IMDB it beats ALTI, and `gradxact l5` beats it;
# its lead of 0.009 over random masks is not significant (p 0.055). On Yelp no margin is. Except for AttCAT, the paper
# compares with no method that reads the gradient of a hidden layer.
#
# ### Does the mask matter? All three interpretations
#
# The discovered mask against random ones of the same size, its complement (inverted), and all heads. The default reads
# a block's map before its own mask, so it can hardly show a difference; the equations as printed can.

# %%
some = sets["SST-2"][1][:HALF]
half = f"{stand_in}SST-2, {len(some)} texts"
masks = {
    "discovered": [reviews.mask],
    "random": [reviews.mask.matched_random(seed) for seed in range(RUNS)],
    "inverted": [~reviews.mask],
    "all heads": [HeadMask.from_array(np.ones(reviews.mask.shape, int))],
}
compared = []
for method in ("mask-lrp", "mask-lrp@equations", "mask-lrp@published"):
    members = {name: explainers.with_masks(reviews, several, method) for name, several in masks.items()}
    ablation = evaluate(f"{half}, {method}", members, some)
    compared.append(ablation.paired("discovered", measures=["aopc"]).replace("discovered", method))
mask_tests = claims.family({half: compared})
claims.margins(mask_tests)

# %% [markdown]
# **What the paper saw.** Its mask beats random masks by 0.003 to 0.008 in AOPC, which it takes as evidence that the
# discovered heads are the right ones.
#
# **What you see.** In the default and the published interpretation the four masks cannot be told apart: all margins are
# 0.001 or less. That does not show that the heads are wrong, since these two can hardly show anything. In the equations
# as printed the mask does act, and the discovered heads do *worse*: by 0.17 than all heads and than the complement, and
# by 0.07 than random masks of the same size.
#
# **Why.** As printed, a block without a selected head has no map, and its evidence is lost. The discovered mask selects
# no head in the upper blocks (Figure 5). On this model nothing shows that syntactic and positional heads carry the
# explanation.
#
# ## Table 2: answers
#
# A span model reads a question and a context, and points at the answer's first and last token. Mask-LRP explains both
# ends and adds the scores. The paper's Precision@20 divides by the number of tokens of the *answer*, so it is a recall
# (at 20), and nbsal calls it so. `demo/answers` is a weak model, and some of these questions were in its training. All
# numbers are percent; the columns v1 and v2 are the paper's Table 2.

# %% tags=["table-2"]
K = 20 if DATA else 10  # a recall at 20 is easy in the samples, whose contexts have little more than 20 tokens
questions = nbsal.data.load("squad" if DATA else "samples/answers").sample(frac=1, random_state=0)
rows = answers.encode(nbsal.data.texts(questions))
questions = questions[[not row.dropped for row in rows]].iloc[:HALF]  # that fit the model's length
asked = {"texts": nbsal.data.texts(questions), "answers": questions["answers"].tolist(), "k": K}
squad, SPANS = f"{stand_in}SQuAD v1, {len(questions)} questions", list(printed.ANSWERS["SQuAD v1"])
pointing = explainers.by_label(answers, [*SPANS, "random"], RUNS)
pointing["mask-lrp without ends"] = nbsal.Explainer(answers, explainers.MaskLRPWithoutEnds())
ends = [nbsal.Explainer(answers, explainers.PredictedEnds(seed=seed)) for seed in range(RUNS)]
pointing["predicted ends, then random"] = ends
recall = store.results(f"{squad}, recall", nbsal.evaluation.answer_recall_at, pointing, **asked)
precision = store.results(f"{squad}, precision", nbsal.evaluation.precision_at, pointing, **asked)


def percent(results):
    return 100 * results.mean().set_index("explainer")["mean"].rename_axis(None)


of_paper = printed.frame(printed.ANSWERS, printed.ANSWER_MODELS)
of_paper.columns = [f"{data.removeprefix('SQuAD ')} {model}" for data, model in of_paper.columns]
here = pandas.DataFrame({"recall here": percent(recall), "precision here": percent(precision)})
pandas.concat([here, of_paper], axis=1).loc[list(pointing)].map("{:.1f}".format).replace("nan", "")

# %% [markdown]
# The last three rows are controls. Mask-LRP gives each predicted end a score of 1, the identity that its rollout begins
# with; *without ends* takes that away. The last row ranks the predicted ends first and the rest at random: it knows the
# prediction and explains nothing.
#
# **What you see.** Without the 1 of the ends Mask-LRP finds as much. But the prediction alone finds 47 % of the
# answer's tokens, against 17 % for random tokens, so much of what a method finds here is the prediction.
#
# Rollout finds eleven times as much as in the paper. Besides the model, three things differ in the authors' program.
# The next cell adopts the first, then the other two together. nbsal's rollout and raw attention explain a span by the
# rows of its two ends; the program takes the mean over *all* rows (`generate_rollout` and `generate_attn_last_layer` in
# `ExplanationGenerator.py`). nbsal ranks the tokens of the context; the program all tokens. And the program divides the
# mean number of tokens found by the mean length of an answer (`evaluate_explanability.py`).

# %%
published = explainers.by_label(answers, [f"{name}@published" for name in SPANS])
published = {label.removesuffix("@published"): explain for label, explain in published.items()}
rows = store.results(f"{squad}, rows", nbsal.evaluation.answer_recall_at, published, **asked)
asked["variant"] = "published"
ranking = store.results(f"{squad}, ranking", nbsal.evaluation.answer_recall_at, published, **asked)
steps = {"here": recall, "rows as published": rows, "ranked and divided as published too": ranking}
by_step = pandas.DataFrame({step: percent(results) for step, results in steps.items()})
display(by_step.assign(**{"the paper, BERT base": of_paper["v1 BERT base"]}).loc[SPANS].round(1))
answer_tests = claims.family({squad: [recall.paired("mask-lrp")]})
claims.margins(answer_tests, first="mask-lrp")

# %% [markdown]
# **What the paper saw.** Mask-LRP finds most of the answer's tokens: 52 to 67 % on SQuAD v1, 27 to 56 % on SQuAD v2.
# (Its program passes no head mask for span models, `generate_qa_expl`, so these rows are GAE's.)
#
# **What you see.** Averaged over all rows, rollout falls from 52 to 13 %, below 17 % for random tokens; ranked and
# divided as published, to 7 %. So, on this model, it is averaging over all rows that makes rollout low,
# not rollout itself. Mask-LRP finds more of the answer than rollout (+0.10), AttCAT (+0.30), random tokens and the
# prediction alone (+0.16). Its lead over raw attention (+0.03, p 0.76) is not significant.
#
# ## Figure 4: a corrupted mask
#
# A growing share of the heads that the mask leaves out is added to it, chosen at random. The paper says that with all
# of them the method "degenerates to GAE".
#
# That holds for a plain set of heads (`HeadMask.from_array`), as used here and checked by the next cell. A mask with
# two parts, syntactic and positional, rescales each on its own (dotted line), and is *not* GAE with all heads in both.

# %% tags=["figure-4"]
added = {}
for share in range(0, 101, 10 if SIZE is None or SIZE > 10 else 50):
    corrupted = [reviews.mask.corrupted(share / 100, seed) for seed in range(1 if share in (0, 100) else RUNS)]
    added[f"{share} %"] = explainers.with_masks(reviews, [HeadMask.from_array(mask.selected) for mask in corrupted])
levels = explainers.by_label(reviews, ["mask-lrp", "transformer-attribution"])
corruption = evaluate(f"{half}, corruption", added | levels, some)
aopc = corruption.mean().query("measure == 'aopc'").set_index("explainer")["mean"]
more = claims.family({half: [corruption.paired("0 %", list(added)[1:], ["aopc"])]})
print(f"AOPC with all heads minus transformer attribution: {aopc['100 %'] - aopc['transformer-attribution']:.0e}")
smallest, largest, p = more["margin"].min(), more["margin"].max(), more["p_holm"].min()
print(f"margins of 0 % over larger shares: {smallest:.4f} to {largest:.4f}, smallest adjusted p {p:.2f}")
paper.corruption_curves(corruption)

# %% [markdown]
# **What the paper saw.** AOPC falls with the share of added heads, down to GAE.
#
# **What you see.** No trend. The curve spans 0.004 in AOPC (mind the axis), and none of the ten margins is significant.
# The default hardly depends on the mask, as the ablation showed.
#
# ## Figure 5: the heads
#
# The masks of the three embedded models were computed on the development part of the English Web Treebank. The paper
# parses each data set by machine, and has one mask for each. The cell also applies equations 7 and 8 by hand.

# %% tags=["figure-5", "equations-7-8"]
highest = study.offsets.groupby("relation")["share"].max()  # max(lambda_k)
follows = study.relations[study.relations["alpha"] > study.relations["relation"].map(highest) + 0.1]  # equation 7
stays = study.positions[study.positions["alpha"] > 0.8]  # equation 8
for kind, rows in {"syntactic": follows, "positional": stays}.items():
    by_hand = sorted({(int(b), int(h)) for b, h in rows[["block", "head"]].to_numpy()})
    of_mask = list(map(tuple, np.argwhere(getattr(reviews.mask, kind)).tolist()))
    print(f"{kind} heads of {reviews.name}: {len(of_mask)}; by hand: {len(by_hand)}, the same: {by_hand == of_mask}")
paper.head_maps({subject.name: subject.mask for subject in (reviews, nli, answers)})

# %% [markdown]
# **What the paper saw.** Positional heads in the lower blocks, syntactic ones above them. Models of long texts have few
# of either.
#
# **What you see.** The same order in `demo/reviews` and `demo/answers`, though both kinds meet in the middle;
# `demo/nli` has a positional head only. All three were fine-tuned from one body. Where a block has no selected head,
# the default lets everything pass, so with few heads Mask-LRP is nearly transformer attribution.
#
# ## Table 3: one kind of head at a time

# %% tags=["table-3"]
syntactic = HeadMask(np.zeros_like(reviews.mask.positional), reviews.mask.relations)
kinds = {"mask-lrp": reviews.mask, "without positional heads": syntactic}
kinds["without syntactic heads"] = HeadMask(reviews.mask.positional)
members = {name: explainers.with_masks(reviews, [mask])[0] for name, mask in kinds.items()}
kept = evaluate(f"{half}, parts", members, some)
printed.beside({"SST-2": kept}, printed.MASK_PARTS)

# %% [markdown]
# **What the paper saw.** Leaving out one kind of head changes AOPC by 0.001 at most on SST-2, by 0.002 on QQP.
#
# **What you see.** Hardly any change here either. The paper takes this to mean that one kind of head is enough for the
# ranking. The ablation above suggests another reason: the default hardly depends on the mask.
#
# ## Figures 6 to 13: where methods differ
#
# The first line of each text shows Mask-LRP's own scores. The others show where it gives more (orange; green in the
# paper) or less (blue; red in the paper) than a baseline. Scores of a text are shares of their sum. The sentence of
# Figure 6 was written for nbsal, after the paper's.


# %% tags=["figure-6", "gallery-differences"]
def differences(subject, texts):
    """The scores of Mask-LRP and the differences to the others, for texts by title."""
    methods = ("mask-lrp", "rollout", "raw-attention", "attcat", "lrp", "transformer-attribution")
    scored = {name: nbsal.Explainer(subject, name).map(texts.values(), progress=False) for name in methods}
    return paper.attribution_differences(scored.pop("mask-lrp"), scored, list(texts))


differences(reviews, {"Figure 6, positive": sentence})

# %% [markdown]
# **What the paper saw.** Attention methods stress *affecting*; Mask-LRP moves weight to *charming* and *journey*.
#
# **What you see.** *warm* carries most of the score. The difference to GAE, which is what the mask alone changes, is
# negligible. A single sentence shows how to read the figure, not which method is right.
#
# Figures 7 to 9 are pairs and 10 to 13 reviews, the first of each class of a length that fits the page (shorter than
# the paper's) that the model classifies correctly.


# %% tags=["figure-7-9"]
def correct(subject, table, label, longest, number=0):
    """A correctly classified text of a class with about so many characters, without stray line breaks."""
    predict, frame = nbsal.Explainer(subject, "raw-attention"), nbsal.data.load(table)
    texts = nbsal.data.texts(frame[frame["label"] == label].replace({r"(\\n|\s)+": " ", r'\\"+': '"'}, regex=True))
    texts = [text for text in texts if longest / 2 < len(str(text)) <= longest]
    right = (text for text in texts if predict(text).prediction == subject.labels[label])
    return next(islice(right, number, None))


table = "mnli" if DATA else "samples/pairs"
differences(nli, {f"Figure {7 + k}, {name}": correct(nli, table, k, 160) for k, name in enumerate(nli.labels)})

# %% tags=["figure-10-13"]
shown = {}
for number, (table, label) in enumerate((table, k) for table in ("imdb", "yelp_polarity") for k in (0, 1)):
    text = correct(
        reviews, table if DATA else "samples/reviews", label, 280 if DATA else 120, 0 if DATA else number // 2
    )
    shown[f"Figure {10 + number}, {reviews.labels[label]}, {table}"] = text
differences(reviews, shown)

# %% [markdown]
# **What you see.** In every text the difference to GAE, which is what the mask changes, is below 5 % of the largest
# difference. Against rollout and LRP, Mask-LRP mostly gives less to punctuation and more to a few words (*plan*,
# *flat*, *cold*); Figures 7 (more to *in* and *who*) and 13 (less to *fair*) are exceptions.
#
# ## Tables 5 and 6: data and checkpoints

# %% tags=["table-5"]
available = ("sst2", "imdb", "yelp_polarity", "mnli", "squad") if DATA else ()
checkpoints.dataset_table({name: len(nbsal.data.load(name)) for name in available})

# %% tags=["table-6"]
used = {"sst2": [reviews.name], "mnli": [nli.name], "squad": [answers.name]}
used |= {"imdb": [reviews.name], "yelp_polarity": [reviews.name]} if DATA else {}
checkpoints.checkpoint_table(used)

# %% [markdown]
# ## The paper's claims, and whether they hold here
#
# Numbers in this table are computed from the results above, with the default interpretation of Mask-LRP, except where a
# row names three. Margins are positive where Mask-LRP is better. A verdict from tests needs an adjusted *p* below 0.05;
# one from means or counts is marked "untested". Methods are compared by AOPC unless it says otherwise. Rows about the
# mask leave MNLI out, where it cannot act, and ALTI's does because the paper has no number.

# %% tags=["claims"]
METHODS = [*BASELINES, "random mask", "mask-lrp"]
not_yelp = {name: played for name, played in deletion.items() if name != "Yelp"}
not_mnli, whole = tests[tests["texts"] != titles["MNLI"]], kept.paired("mask-lrp", measures=["aopc"])
largest, readings = whole["margin"].abs().max(), mask_tests.assign(texts=mask_tests["first"])
blocks = {s: [np.nonzero(part)[0].mean() for part in (s.mask.positional, s.mask.syntactic)] for s in (reviews, answers)}
places = ", ".join(f"{s.name} {low:.1f} and {high:.1f}" for s, (low, high) in blocks.items())
rows = {
    "Mask-LRP has the highest AOPC on every data set (Table 1)": claims.leads(deletion, "aopc", "mask-lrp", METHODS),
    "It has the lowest log-odds but on Yelp (Table 1)": claims.leads(not_yelp, "log-odds", "mask-lrp", METHODS),
    "It beats raw attention, rollout, LRP and partial LRP (Table 1)": claims.outcome(tests, ATTENTION),
    "It beats GAE, which uses all heads (Table 1, without MNLI)": claims.outcome(not_mnli, [GAE]),
    "It beats ALTI (Table 4, without MNLI)": claims.outcome(not_mnli, ["alti"]),
    "It beats random masks of the same size (Table 1, 5.4, without MNLI)": claims.outcome(not_mnli, ["random mask"]),
    "The discovered heads beat random ones, all others and all (5.4; three interpretations)": claims.outcome(readings),
    "Adding other heads makes it worse (Figure 4)": claims.outcome(more),
    "One kind of head alone is nearly as good (Table 3)": claims.untested(
        largest < 0.01, f"AOPC changes by {largest:.4f} at most"
    ),
    "Positional heads lie lower than syntactic ones (Figure 5)": claims.untested(
        all(low < high for low, high in blocks.values()), f"mean block: {places}, in two models with one body"
    ),
    "It points at answers better than rollout, raw attention and AttCAT (Table 2)": claims.outcome(answer_tests, SPANS),
    "GAE beats Grad-CAM of attention (Table 1)": claims.outcome(tests, ["attention-gradcam"]),
    "*Our question:* is it better than gradient times activation, layer 5?": claims.outcome(tests, ["gradxact l5"]),
}
Markdown(claims.table(rows))

# %% [markdown]
# **What it comes to.** On these models Mask-LRP is transformer attribution with another name: nothing shows that its
# head mask adds anything. On reviews it beats raw attention, rollout, LRP and partial LRP, but not CAM or AttCAT, and
# it is beaten on three of four sets by gradient times activation at a late layer, which costs one forward and one
# backward pass. Start with that (`gradxact`), and use Mask-LRP to ask what selected heads pass on.
#
# ## Exercises
#
# **1.** Why can the default show no difference between two masks that differ in the lowest block only?
#
# <details><summary>Answer</summary>
#
# The map of a block is read before its own mask, so a mask acts on the blocks below, and there is none below the lowest
# block. Try it: change one head of block 0 with `HeadMask.from_array` and compare the scores.
#
# </details>
#
# **2.** Section 5.4 concludes from a random mask being ahead of GAE that other methods suffer from irrelevant heads.
# Which column of Table 1 disagrees, and what other explanation is there?
#
# <details><summary>Answer</summary>
#
# MNLI, where GAE, which has no mask, is ahead of the random mask in both measures. If *any* mask helped by removing
# irrelevant information, a random one would have to remove relevant information as well. Another explanation is that
# the mask hardly acts.
#
# </details>
#
# **3.** Two parts of a block carry relevance $+2$ and $-1$. What do the paper's rescaling and Chefer's make of a block
# total of 1?
#
# <details><summary>Answer</summary>
#
# Paper: $|\sum R| = 1$, so the parts become $2 \cdot \frac{2}{1} \cdot \frac{1}{2} = 2$ and $-1 \cdot \frac{1}{1} \cdot
# \frac{1}{-1} = 1$, which sum to 3. Chefer: $|2| + |-1| = 3$, so they become $\frac 23$ and $\frac 13$, which sum to 1.
#
# </details>
#
# **4.** How many texts would you need to show the paper's margin over a random mask on SST-2, 0.006 in AOPC, in four of
# five samples, if the standard deviation of the difference between texts is 0.1?
#
# <details><summary>Answer</summary>
#
# For a power of 80 % the effect must be $1.96 + 0.84$ standard errors: $n \approx ((1.96 + 0.84) \cdot 0.1 / 0.006)^2
# \approx 2180$, more than the 872 texts of the validation set. With 1,070 texts the 95 % interval is as wide as the
# effect on either side, and only every second sample would show it.
#
# </details>
#
# **Where to go next.** Notebook 08 tests explanations of your own texts; 03 discovers the heads of your own model.
#
# **What is the paper's, and what is ours.** Columns headed *paper*, v1 and v2 are copied from the paper; the rest was
# computed above. Facts about the authors' program are from its repository (LinxinS97/Mask-LRP on GitHub, commit
# b0839bd). Where it differs from the paper's text, `variant="published"` and methods that end in `@published` repeat
# it.
