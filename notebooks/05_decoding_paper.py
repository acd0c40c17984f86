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
# # Decoding Layer Saliency, figure by figure
#
# Every figure, table, algorithm and numbered equation of *Decoding Layer Saliency in Language Transformers* (Hou and
# Castanon, ICML 2023), in the order of the paper.
#
# **After this notebook you can** write the paper's method from its equations, say what its two games measure, read a
# table of paired tests, and tell which of the paper's claims hold on other models.
#
# **Time:** forty minutes, or five for the last table, which lists the paper's claims and whether they hold here. **Know
# before:** what a transformer block and a gradient are. Notebook 02 introduces the method more slowly, notebook 08 the
# games.
#
# **What differs from the paper.** The paper fine-tunes RoBERTa base, which has twelve blocks, and evaluates all 872
# texts of SST-2 and all 7,600 of AG News. Here are two models of six blocks that come with nbsal, and 200 texts of each
# set, with fewer points on each curve, fewer random orders, and 2 permutations behind Shapley values instead of 25.
# Compare the *order* of methods and layers with the paper, not the *levels* of numbers.
#
# **To run it yourself.** Without settings, texts written for nbsal stand in. `NBSAL_DATA=folder` uses the real sets
# (`sst2/validation.jsonl`, `ag_news/test.jsonl`), `NBSAL_SIZE=0` all texts there, and `NBSAL_RESULTS=folder` stores
# results. `python -m nbsal.figures --paper decoding` draws the same from a shell, with a RoBERTa of your own.

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import pandas
import torch
from IPython.display import Markdown, display

import nbsal
from nbsal.figures import claims, explainers, pages, printed
from nbsal.figures import decoding_saliency as paper
from nbsal.figures.store import Store

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the texts that come along
SIZE = int(os.environ.get("NBSAL_SIZE", 200 if DATA else 20)) or None  # texts of each set; 0: all
SIZE = SIZE and max(SIZE, 4)  # fewer can be of one class
ORDERS, SAMPLES = (20, 25) if SIZE is None else (2, 2)  # random orders, permutations of Shapley values
FRACTIONS = [0, 0.1, 0.2, 0.3, 0.5, 0.7, 1] if SIZE else [step / 20 for step in range(21)]
FRACTIONS = FRACTIONS[::3] if SIZE and SIZE < 10 else FRACTIONS  # a trial run has fewer points
OTHER = SIZE // 2 if SIZE else 100  # texts to choose a layer on, and twice as many to repeat tests on
TOP, SHOWN = (50, 15) if DATA else (15, 15)  # top tokens of a class: counted in tables, drawn in clouds
store = Store(Path(os.environ.get("NBSAL_RESULTS") or tempfile.mkdtemp()))

# %%
reviews, news = nbsal.load("demo/reviews"), nbsal.load("demo/news")
tables = {reviews: ("sst2", "SST-2"), news: ("ag_news", "AG News")}
if not DATA:
    tables = {reviews: ("samples/reviews", "samples for SST-2"), news: ("samples/news", "samples for AG News")}
name, first, choice, second = {}, {}, {}, {}  # three samples of each set, without a common text
for subject, (table, name[subject]) in tables.items():
    frame = nbsal.data.load(table).sample(frac=1, random_state=0)
    cut = SIZE or len(frame) - 3 * OTHER
    first[subject], rest = frame.iloc[:cut], frame.iloc[cut:]
    choice[subject], second[subject] = rest.iloc[:OTHER], rest.iloc[OTHER : 3 * OTHER]
    rows = [row.ids for row in subject.encode(nbsal.data.texts(first[subject]))]
    repeated = sum(1 - len(set(ids)) / len(ids) for ids in rows) / len(rows)
    print(f"{name[subject]}: {subject.name} on {len(rows)} of {len(frame)} texts, {repeated:.0%} of tokens repeated")

# %% [markdown]
# ## The method: equations 1 to 6
#
# | symbol | meaning |
# |---|---|
# | $n$, $T$ | positions of the text; its different tokens |
# | $K$, $V$, $L$ | features of a hidden state; tokens of the vocabulary; layers |
# | $h_l$ | output of block $l$, one row per position ($h_0$: the embeddings) |
# | $y^c$ | logit of class $c$, before the softmax |
# | $\hat P_l$, $\hat D_l$ | what the LM head predicts at every position; its columns for the $T$ tokens, transposed |
#
# An **attention head** is a part of a block, the **classification head** maps `[CLS]` to classes, and the **LM head**
# (language-model head) maps a hidden state to probabilities of tokens. This paper is about the LM head.
#
# Grad-CAM scores every feature of a layer by its gradient times its value (1). It sums the features of a position and
# drops what counts against the class (2):
#
# $$\alpha^c_l = \Big[\dots, \frac{\partial y^c}{\partial h^k_l} \odot h^k_l, \dots\Big]_{k=1..K} \qquad (1)$$
#
# $$s^c_l = g(\alpha^c_l) = \mathrm{ReLU}\Big(\sum_{k=1}^{K} \alpha^{c,k}_l\Big) \qquad (2)$$
#
# At layer 0 a position is a token, and we are done. Above it, a position is a mixture of all tokens. We need a map $f$
# from hidden states to the tokens $t$ of the text, the one with the smallest loss $\mathcal L$:
#
# $$\arg\min_f \mathcal L(t, f(h_l)) \qquad (3)$$
#
# Pretraining with masked tokens has already found such a map for the last layer, the LM head ($e^{(j)}$ is token $j$):
#
# $$f^{lm}(h^i_L) = \sum_{j=1}^{V} \hat P^{ij}_L\, e^{(j)} \qquad (4)$$
#
# The paper uses the same head at *every* layer, because the outputs of self-attention are weighted combinations of its
# inputs:
#
# $$X' = A X W_V, \qquad A = \mathrm{softmax}\Big(\frac{X W_Q W_K^\top X^\top}{\sqrt d}\Big) \qquad (5)$$
#
# So all layers share a space of features, and the paper conjectures that the LM head decodes each of them. The decoded
# score of token $i$ weights the scores of all positions by how much the LM head sees token $i$ there:
#
# $$s^c_l = \mathrm{ReLU}\Big(\sum_{k=1}^{K} \hat D_l\, \alpha^{c,k}_l\Big) \qquad (6)$$
#
# Equation 6 applies the ReLU *after* weighting, Algorithm 1 *before* it, so they are two methods. nbsal's default is
# the algorithm; `form="per_token"` is the equation.
#
# ## Algorithm 1, line by line
#
# | line | paper | code below |
# |---|---|---|
# | 1 | $h_l = m^{base}_l(t)$ | `trace.hidden[layer]` |
# | 2 | $\hat y = \max m^{class}(m^{base}(t))$ | `nbsal.trace.record` explains the predicted class |
# | 3 | $\hat\alpha_l = \frac{\partial \hat y}{\partial h^k_l} \odot h^k_l$ | `trace.hidden_grad[layer] * hidden` |
# | 4 | $\hat P_l = f^{lm}(h_l)$ | `subject.lm_head.probabilities` |
# | 5 | $\hat D^i_l = (\hat P^j_l)^\top$, $j$ the tokens of the text | its argument `types`, and `.T` |
# | 6-7 | for $i = 1..T$, for $j = 1..n$ | the two loops |
# | 8 | if $\hat D^{ij}_l$ is in the top $\tau$ of column $j$ | `influence[i, j] >= smallest[j]` |
# | 9 | $\hat s^i_l \mathrel{+}= g(\hat D^{ij}_l \hat\alpha^j_l)$ | the sum |

# %% tags=["algorithm-1", "equations-1-6"]
text, layer, tau = "The film is warm, and the cast is funny.", 5, 3
encoded = reviews.encode(text)
trace = nbsal.trace.record(reviews, encoded, needs={"hidden", "hidden_grad"})  # lines 1 and 2
hidden = trace.hidden[layer][0]
alpha = trace.hidden_grad[layer][0] * hidden  # line 3, equation 1
types = torch.tensor(sorted(set(encoded[0].ids)))
influence = reviews.lm_head.probabilities(hidden, types).T  # lines 4 and 5, equation 4: [token, position]
smallest = influence.topk(tau, dim=0).values[-1]
scores = torch.zeros(len(types))
for i in range(len(types)):  # line 6
    for j in range(len(hidden)):  # line 7
        if influence[i, j] >= smallest[j]:  # line 8
            scores[i] += (influence[i, j] * alpha[j]).sum().relu()  # line 9, with g of equation 2
by_hand = [float(scores[types == token]) for token in encoded[0].ids]
algorithm = nbsal.Explainer(reviews, "decoded-gradcam", layer=layer, tau=tau)(text).scores
equation_6 = nbsal.Explainer(reviews, "decoded-gradcam", layer=layer, tau=tau, form="per_token")(text).scores
columns = {"by hand": by_hand, "nbsal": algorithm, "nbsal, equation 6": equation_6}
pandas.DataFrame(columns, index=encoded[0].tokens).round(4)

# %% [markdown]
# **What you see.** The loops give what nbsal gives. Both places of *the* have the same score, and both of *is*, because
# the score belongs to the token. Equation 6 gives *the* and the full stop 0: at some positions these tokens count for
# the class and at others against it, which cancels before the ReLU.
#
# ## Figure 1: the geometry

# %% tags=["figure-1"]
own = {subject: paper.own_token_shares(subject, nbsal.data.texts(first[subject])[:50]) for subject in tables}
for subject, shares in own.items():
    print(f"{name[subject]}, mean probability of a position's own token:", shares.round(2).to_dict())
paper.toy_geometry(paper.decoded_path(reviews, "big dog"))

# %% [markdown]
# **What the paper draws** is a sketch: two tokens are points on a sphere, the blocks mix them, and the LM head maps the
# mixtures back to points between them.
#
# **What you see** is measured. The horizontal axes are the tokens *big* and *dog*, the vertical one is all other tokens
# together; coordinates are square roots of probabilities, so that points lie on the sphere. A diamond marks the token
# itself, a dot what the LM head reads at a layer. The dots stay near their own diamonds and hardly move toward the
# other one. The numbers above the picture say the same of 50 texts of each set. So $\hat D_l$ is nearly diagonal:
# decoding a position mostly gives its own token back. Keep this in mind for the tests below.
#
# ## The games: two definitions of Hiding
#
# The **Revealing game** shows a text's tokens to the model, the most important first, and measures the accuracy; a good
# explanation has a high curve. The **Hiding game** hides the most important first; a good curve is low.
#
# The paper defines the second twice. Section 4.1 "iteratively obscures the *least* important tokens". Section A.1
# orders tokens "in *descending* amounts of importance". Only the latter fits Table 1, where a low area is good, and it
# is nbsal's. The former is the Revealing game read from right to left, with the same area.
#
# ## Explainers
#
# The rivals run as the paper's packages ran them, defects included: AllenNLP Interpret on sentiment, ThermoStat on
# topics, named in the suffix. Two rows are not in the paper. `Grad-CAM l5` is the **undecoded** layer: each position
# scores the token it stands at. `summed Grad-CAM l5` is undecoded too, but adds the scores of all positions of a token,
# as decoding does.
#
# The next cell also chooses a layer, on texts that no result below uses.

# %%
ALLEN = ["simple@allennlp", "smooth@allennlp", "integrated@allennlp"]
THERMOSTAT = [label for label in printed.AREAS["AG News"] if label.endswith("@thermostat")]  # all seven
DECODED = [f"decoded Grad-CAM l{k}" for k in range(7)]
SIMPLE = [f"decoded Simple l{k}" for k in (3, 4, 5)]
OURS, UNDECODED = DECODED[5], ["Grad-CAM l5", "summed Grad-CAM l5"]
OTHERS = [*SIMPLE, *UNDECODED, "Grad-CAM l0", "random"]
RIVALS = {reviews: ALLEN, news: ["Simple l0", *THERMOSTAT]}


def members(subject, labels):
    return explainers.by_label(subject, labels, ORDERS, {"shapley@thermostat": {"samples": SAMPLES}})


def games(subject, title, frame, labels):
    """Play both games; results that are stored are loaded."""
    settings = {"labels": frame["label"].tolist(), "fractions": FRACTIONS, "random": 0}
    title, texts = f"{name[subject]}{title}-{len(frame)}", nbsal.data.texts(frame)
    return store.results(title, nbsal.evaluation.games, members(subject, labels), texts=texts, **settings)


results = {}
for subject, rivals in RIVALS.items():
    best = paper.best_layer(games(subject, " choice", choice[subject], DECODED))
    print(f"{name[subject]}: layer {best} is best on {len(choice[subject])} texts for the choice")
    results[subject] = games(subject, "", first[subject], [*DECODED, *OTHERS, *rivals])
sentiments, topics = results[reviews], results[news]

# %% [markdown]
# Layer 5 of 6 is chosen on both sets, and is the layer that is tested below.
#
# ## Figures 2 and 3: the games
#
# The grey band is the standard deviation between random orders.

# %% tags=["figure-2", "gallery-games"]
paper.game_curves(sentiments, [*DECODED[2:6], "Grad-CAM l0", *ALLEN, "random"])

# %% [markdown]
# **What the paper saw.** Its four decoded layers rise and fall fastest; layer 7 of 12 is best, and better than
# AllenNLP's methods on a larger model until about 70 % of the tokens are revealed.
#
# **What you see.** Layers 4 and 5 have the best areas in both games, but layer 4 leads Integrated by only 0.01 in the
# Revealing game. Layers 2 and 3 beat layer 0, Simple and SmoothGrad, but not Integrated. These are areas (Table 1);
# layer 5 is tested below.

# %% tags=["figure-3"]
paper.game_curves(topics, [*DECODED[3:6], "Grad-CAM l0", *THERMOSTAT, "random"])

# %% [markdown]
# **What the paper saw.** Layer 6 of 12 reveals about as well as the best rivals. In the Hiding game Shapley is clearly
# first and Integrated second; layer 6 is close to Occlusion and ahead of the other four.
#
# **What you see.** In the Revealing panel most curves coincide within 0.03; use the areas of Table 1. In the Hiding
# panel Integrated is first, Shapley second, then layer 5. `gradxact@thermostat` is Grad-CAM at layer 0 without the
# ReLU. Tokens that the ReLU sets to 0 are ordered by their scores before it, so both methods hide tokens in the same
# order and share a line.
#
# **Why.** Shapley values *are* averages of what happens to the prediction when tokens come and go, which is what the
# game measures. They cost a forward pass for each token of each permutation; decoding costs one forward and one
# backward pass. Two permutations instead of 25 are a likely reason why Shapley is not first here. Why Integrated hides
# so much better than in the paper is not known.
#
# ## Table 1: the areas
#
# Ours with 95 % intervals beside the paper's whole table. Layers of our six blocks and of the paper's twelve have rows
# of their own.

# %% tags=["table-1"]
OF_12 = {"SST-2": (5, 6, 7, 8), "AG News": (6, 8, 9)}
for (title, layers), played, rivals in zip(OF_12.items(), (sentiments, topics), (ALLEN, THERMOSTAT), strict=True):
    areas = printed.beside({title: played}, {title: printed.AREAS[title]}, intervals=True)
    of_12 = [f"decoded Grad-CAM l{k} of 12" for k in layers]
    display(areas.loc[[*DECODED[2:6], *UNDECODED, *of_12, "Grad-CAM l0", *rivals, "random"]])

# %% [markdown]
# **What you see.** The best decoded layer is 5 of 6 on both sets here, 7 and 6 of 12 in the paper. All decoded layers
# shown are better than layer 0, as in the paper.
#
# ### Does decoding help, or only the layer?
#
# The paper compares decoded layers with undecoded embeddings, so two things change at once. Here only one does: the
# same layer, decoded against undecoded. A margin is how much better the first is, with its 95 % interval. *p* is
# adjusted for the number of tests on the same texts in this notebook, which is in the last column (Holm 1979). The
# tests are repeated on 200 texts that are used for nothing else.

# %%
families = {}
for subject, rivals in RIVALS.items():
    again = games(subject, " second", second[subject], [OURS, *UNDECODED, "Grad-CAM l0", SIMPLE[0], rivals[0]])
    for sample, played, compared in (("", results[subject], rivals), ("other ", again, rivals[:1])):
        families[f"{name[subject]}, {len(second[subject] if sample else first[subject])} {sample}texts"] = [
            played.paired(OURS, ["Grad-CAM l0", *UNDECODED, *compared]),
            played.paired(SIMPLE[0], rivals[0]),
        ]
tests = claims.family(families)
claims.margins(tests, UNDECODED, OURS)

# %% [markdown]
# **What you see.** On SST-2 the undecoded layer does as well on both samples: margins are below 0.01, of either sign.
# On AG News decoding hides better than the undecoded layer, by 0.07 on the first sample and 0.04 on the other, and
# reveals no better. Against `summed Grad-CAM l5`, 0.04 remains on the first sample and 0.01 on the other, which is not
# significant. So decoding helps on news, and that it helps beyond adding up positions is not certain.
#
# **Why.** A review of SST-2 is one sentence, in which few words occur twice; a news text repeats the words of its topic
# (second cell), and to hide a word means to hide all of its places.
#
# Against the rivals of each data set:

# %%
claims.margins(tests, [*ALLEN, *THERMOSTAT], OURS)

# %% [markdown]
# **What you see.** On SST-2, decoded Grad-CAM hides better than all three of AllenNLP's methods and reveals better than
# two; its lead over Integrated in the Revealing game is not significant. On AG News it hides better than four of seven
# rivals; Integrated hides *better*, by 0.10, and Shapley's lead of 0.05 and its own over Gradient SHAP are not
# significant. It reveals better than two. So, for one forward and one backward pass, it hides better than most
# rivals, and worse than Integrated on AG News. The paper's Table 1 says the same of Shapley and Integrated.
#
# ## Figure 4: tokens of several classes
#
# A token that is important for a class should not be important for another. For every pair of classes, the figure
# counts the tokens that are among the $k$ most important of both, and divides the sum by $k$ times the number of pairs.
# A text's scores count for its predicted class. They are weighted by how rare the token is in everyday text: the paper
# uses 50,000 Wikipedia articles, nbsal a table computed over WikiText.

# %% tags=["figure-4"]
CLOUDED = {reviews: [OURS, "Grad-CAM l5", *ALLEN], news: [OURS, "Grad-CAM l5", *THERMOSTAT[:3]]}
COUNTS = list(range(10, 101, 10)) if DATA else [5, 10, 15, 20]
overlaps = {}
for subject, labels in CLOUDED.items():
    title, texts = f"{name[subject]} overlap-{len(first[subject])}", nbsal.data.texts(first[subject])
    settings = {"texts": texts, "counts": COUNTS}
    overlaps[name[subject]] = store.results(title, nbsal.evaluation.overlap, members(subject, labels), **settings)
paper.overlap_shares(overlaps)

# %% [markdown]
# **What the paper saw.** Its method shares almost no token, its rivals more and more as the lists grow.
#
# **What you see.** On SST-2, the same: of any number of top tokens the decoded layer shares none, AllenNLP's methods up
# to 20 %. But the undecoded layer shares none either (one line with two names), so it is the layer that counts. On AG
# News all methods stay below 3 %, and from sixty tokens on decoded Grad-CAM and Integrated share most, two to three
# times as many as the undecoded layer. This does not confirm the paper on AG News.
#
# ## Figures 5 and 6: every layer

# %% tags=["figure-5"]
paper.layer_curves(sentiments)

# %% tags=["figure-6"]
paper.layer_curves(topics)

# %% [markdown]
# **What the paper saw.** Layers in the middle are best (5 to 8 of 12 on SST-2; 6, 8 and 9 on AG News), layer 0 and the
# last layers worst.
#
# **What you see.** On SST-2 (Figure 5), layer 1 stays near the random orders, layers 2 and 3 are close to each other,
# layers 4 and 5 are better, and layer 6 falls back to about layer 0. On AG News (Figure 6), layer 5 hides best, then
# layer 6. At layer 6, the last, only `[CLS]` has a gradient, so all scores come from what the LM head reads in that one
# position.
#
# ## Figures 7 and 8, Table 2: another layer method
#
# Algorithm 1 takes any score of a layer. Here it decodes *Simple*, the size of the gradient.

# %% tags=["figure-7"]
paper.game_curves(sentiments, ["simple@allennlp", *SIMPLE, "random"])

# %% tags=["figure-8"]
paper.game_curves(topics, ["Simple l0", *SIMPLE, "random"])

# %% [markdown]
# The three decoded layers nearly coincide in both figures. Their areas beside the paper's whole Table 2:

# %% tags=["table-2"]
for title, played in {"SST-2": sentiments, "AG News": topics}.items():
    areas = printed.beside({title: played}, {title: printed.SIMPLE_AREAS[title]}, intervals=True)
    display(areas[areas.index.str.contains("Simple|simple")])

# %%
claims.margins(tests, first=SIMPLE[0])

# %% [markdown]
# **What the paper saw.** On SST-2 all three decoded layers beat Simple in both games. On AG News layer 6 does, layer 5
# in the Hiding game only, and layer 7 in none.
#
# **What you see.** On SST-2, decoded Simple at layer 3 beats AllenNLP's on the first sample in both games; on the other
# sample the margins are smaller and not significant. On AG News the order is the reverse of the paper's: Simple at
# layer 0 hides *better* than decoded layer 3, by 0.04 (not significant) and by 0.07 on the other sample.
#
# **Why.** The two rows of SST-2 differ in more than the layer: AllenNLP's Simple multiplies the gradient by an
# embedding (and, through an error that `@allennlp` repeats, by that of the first token). On AG News both rows are the
# size of the gradient, and only the layer and decoding differ.
#
# ## Figures 9 to 12, Tables 3 to 9: what each class is made of
#
# The fifteen most important tokens of every predicted class, larger where they weigh more (the paper draws fifty, too
# small to read here). Columns are classes in the order of the paper.

# %% tags=["figure-9"]
clouds = {}
for subject, labels in CLOUDED.items():
    labels, texts = [*labels, *(SIMPLE if subject is reviews else ())], nbsal.data.texts(first[subject])
    clouds[subject] = store.clouds(f"{name[subject]}-cloud-{len(texts)}", members(subject, labels), texts)
paper.word_clouds({label: clouds[reviews][label] for label in (OURS, *ALLEN)}, SHOWN, reviews.labels)

# %% tags=["figure-10"]
paper.word_clouds({label: clouds[reviews][label] for label in SIMPLE}, SHOWN, reviews.labels)

# %% tags=["figure-11", "gallery-clouds"]
paper.word_clouds({label: clouds[news][label] for label in (*THERMOSTAT[:3], OURS)}, SHOWN, news.labels)

# %% [markdown]
# **What the paper saw.** Its tokens fit their class. AllenNLP's contain *and* and *pokemon*, and words of the opposite
# class such as *dreadful*.
#
# **What you see.** On SST-2 (Figure 9), words of judgement for the decoded layer, beside pieces of words (*gy*);
# AllenNLP's also have *t*, *movie* and a backquote. Function words such as *too* and *no* are in the clouds of both
# decoded methods (Figures 9 and 10). On AG News (Figure 11), every method shows words of the topic. *39* and *#* are
# pieces of `#39;`, a damaged apostrophe in the data; *ap* and *reuters* are agencies.
#
# Figure 12 counts the tokens that two classes share, and sums over all pairs; Figure 4 shows the same as shares. Tables
# 3 to 9 list the tokens that two classes share among their top fifty; each is a column here:

# %% tags=["figure-12"]
counted = {subject: {label: clouds[subject][label] for label in labels} for subject, labels in CLOUDED.items()}
paper.overlap_counts({name[subject]: members for subject, members in counted.items()}, COUNTS)

# %% tags=["table-3-9"]
topic_pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]  # in the paper's order
pairs = [tuple(news.labels[k] for k in pair) for pair in topic_pairs]
lists = {f"{number}: {', '.join(pair)}": pair for number, pair in enumerate(pairs, 3)}
shared = [paper.shared_token_columns(counted[news], lists, TOP)]
shared += [paper.shared_token_columns(counted[reviews], {"9: SST-2": tuple(reviews.labels)}, TOP)]
pandas.concat(shared, axis=1).fillna("")

# %% [markdown]
# **What the paper saw.** Its method shares no token to six, its rivals three to thirty. Its lists hold pieces of
# capitalised words, *ASHINGTON* and *ONDON*, because RoBERTa keeps capitals.
#
# **What you see.** On SST-2, none for the decoded layer and three or four for each of AllenNLP's methods, much as in
# the paper. On AG News no method shares more than one token in any pair of topics, and decoded Grad-CAM (three in all)
# is not below its rivals (zero to four).
#
# ## Section A.5: highlighted examples
#
# With `NBSAL_DATA` the four sentences of SST-2 are the paper's. Its news are in the half of the test set that our
# folder lacks, so the texts here are four others on the same subjects.

# %% tags=["examples"]
PHRASES = {
    reviews: ("bleak and desperate", "unremittingly awful", "an amusing joy ride", "more romantic , more emotional"),
    news: ("Nokia to unify", "CARE Official", "Many NHL players head", "United Seeks Further Labor"),
}
EXAMPLES = {reviews: [OURS, *ALLEN], news: [OURS, *THERMOSTAT[:3]]}
for subject, labels in EXAMPLES.items():
    texts = nbsal.data.texts(nbsal.data.load(tables[subject][0]))
    texts = [text for phrase in PHRASES[subject] for text in texts if phrase in text] or texts[:2]
    explained = {label: list(explain.map(texts, progress=False)) for label, explain in members(subject, labels).items()}
    display(paper.highlights(explained))

# %% [markdown]
# **What the paper saw.** Its method highlights few words, and those that matter: *bleak*, *desperate*, *awful*, *joy*,
# *romantic*. The others highlight *and*, *it*, *dog* as well.
#
# **What you see.** On SST-2 mostly the same words, *desperate*, *awful*, *joy*, *satisfying*, though little on *bleak*.
# The others also colour *and*, *than*, *constitutes*, and two of them stress *violent* in a positive text. On news our
# method stresses *Kidnapped*, *players* and *Airlines*, but also the *e* of *e-mail*. Occlusion counts nearly all of
# the first and the third text *against* classes that are predicted at 98.7 and 97.6 %: hiding them, three tokens at a
# time, made the model surer. The authors chose these sentences; their supplement has every text.
#
# ## The supplement: every text
#
# The authors attach a file with every validation text highlighted by every method. `pages.supplement` writes such a
# file as one HTML page that needs no scripts; here is its beginning, one text.

# %% tags=["supplement"]
beginning = nbsal.data.texts(first[reviews].iloc[:1])
explained = {
    label: explain.map(beginning, progress=False) for label, explain in members(reviews, [OURS, *ALLEN]).items()
}
pages.supplement(explained, [reviews.labels[first[reviews]["label"].iloc[0]]])

# %% [markdown]
# ## The paper's claims, and whether they hold here
#
# Numbers in this table are computed from the results above. Margins are positive where the decoded layer is better. A
# verdict from tests needs an adjusted *p* below 0.05; one from a count or a threshold is marked "untested".

# %% tags=["claims"]
best, layer_areas = {subject: paper.best_layer(results[subject]) for subject in tables}, []
for subject, at in best.items():
    areas = results[subject].auc().pivot(index="explainer", columns="game", values="auc")
    pairs = (f"l{k} {areas['revealing'][DECODED[k]]:.2f} / {areas['hiding'][DECODED[k]]:.2f}" for k in (0, at, 6))
    layer_areas.append(f"{name[subject]} {', '.join(pairs)}")
of_pairs = {s: {label: cloud.shared(TOP)["shared"] for label, cloud in counted[s].items()} for s in tables}
listed = {s: ", ".join(f"{label} {pairs.sum()}" for label, pairs in of_pairs[s].items()) for s in tables}
fewest = of_pairs[news][OURS].sum() < min(of_pairs[news][label].sum() for label in THERMOSTAT[:3])
most = of_pairs[news][OURS].max()
lowest, costs = min(shares.min() for shares in own.values()), nbsal.methods.catalogue.table()["cost"]
sure = f"mean probability of a position's own token {lowest:.2f} or more, on 50 texts of each set"
cheap = f"decoded-gradcam: {costs['decoded-gradcam']}; shapley@thermostat: {costs['shapley@thermostat']}"
rows = {
    "The LM head decodes every layer, also of the fine-tuned model (Figure 1)": claims.untested(lowest > 0.5, sure),
    "A later layer beats the embeddings in both games (Table 1)": claims.outcome(tests, ["Grad-CAM l0"], OURS),
    "The best layers are in the middle, 5 to 9 of 12 (Figures 5 and 6)": claims.untested(
        max(best.values()) <= 4.5, f"of 6, revealing / hiding: {'; '.join(layer_areas)}"
    ),
    "On SST-2 it beats AllenNLP's methods (Figure 2)": claims.outcome(tests, ALLEN, OURS),
    "On AG News it beats most of ThermoStat's methods (Figure 3)": claims.outcome(tests, THERMOSTAT, OURS),
    "Its classes share few of their top fifty tokens: sentiments (Table 9)": claims.untested(
        of_pairs[reviews][OURS].sum() <= 1, listed[reviews]
    ),
    "The same: topics, at most six a pair (Tables 3 to 8)": claims.untested(
        most <= 6, f"the largest of six pairs {most}; sums of six pairs: {listed[news]}"
    ),
    "Topics share fewer than with its rivals (Tables 3 to 8)": claims.untested(fewest, "the same counts"),
    "Decoding helps other scores of a layer: Simple (Table 2; layer 3)": claims.outcome(tests, first=SIMPLE[0]),
    "It is cheap, and needs no labels and no training (4.1)": claims.untested(True, cheap),
    "*Our question:* does decoding itself help, at the same layer?": claims.outcome(tests, UNDECODED, OURS),
}
Markdown(claims.table(rows))

# %% [markdown]
# **What it comes to.** The layer matters: layer 5 beats the embeddings on every sample. Decoding it is not shown to add
# anything on reviews. On news it hides better than the undecoded layer; once the scores of repeated
# tokens are added up, the advantage is 0.04 on one sample and 0.01, not significant, on the other. Few shared
# tokens are no sign of decoding, since the undecoded layer has as few. For your own model, choose a layer on some
# texts, as above; compare it decoded and undecoded on others (`results.paired`); and decode only if that wins.
#
# ## Exercises
#
# **1.** Equation 6 and line 9 of Algorithm 1 place the ReLU differently. When do they give different scores?
#
# <details><summary>Answer</summary>
#
# Write $w_j \ge 0$ for the influence of a token on position $j$, and $a_j$ for the sum over features at position $j$.
# Line 9 gives $\sum_j w_j \max(0, a_j)$, equation 6 gives $\max(0, \sum_j w_j a_j)$. They are equal unless the
# positions that carry a token disagree about the sign, as those of *the* do in the first table.
#
# </details>
#
# **2.** Section 4.1 hides the least important tokens first. Compute that curve from the Revealing game, and its area.
#
# <details><summary>Answer</summary>
#
# `frame = sentiments.frame.query("game == 'revealing'")`, then replace each `fraction` by `1 - fraction`. The curve is
# mirrored, so the area is that of the Revealing game, and a good method has a *high* one.
#
# </details>
#
# **3.** Why does a small $\tau$ change little at layer 5 and ruin the scores of layer 6? Try `nbsal.Explainer(reviews,
# "decoded-gradcam", layer=6, tau=1)`.
#
# <details><summary>Answer</summary>
#
# At the last layer only `[CLS]` has a gradient, since the classification head reads nothing else. With `tau=1` each
# position counts for one token only, and the token that the LM head sees most in `[CLS]` is `[CLS]`. All tokens of the
# text get 0. nbsal warns about it.
#
# </details>
#
# **4.** A colleague plays both games with ten methods, compares the best with the nine others, and reports $p = .03$
# for one of them. What would you ask?
#
# <details><summary>Answer</summary>
#
# Eighteen comparisons were made (nine in each game), so about one with $p < .05$ is expected by luck. Ask for the
# p-value adjusted for the number of comparisons: `results.paired("best").p_holm`. Ask also whether "best" was chosen on
# other texts than those of the test.
#
# </details>
#
# **Where to go next.** Notebook 06 does the same for Mask-LRP. Notebook 08 judges explanations on your own texts, and
# 07 loads your own model.
#
# **What is the paper's, and what is ours.** Columns headed *paper* and rows *of 12* are copied from the paper (where
# AllenNLP's numbers come from RoBERTa *large*). All other numbers were computed above.
