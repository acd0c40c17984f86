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
# # Your own model
#
# nbsal explains stock Hugging Face models as they are: a hub id, a folder, or a model object. This notebook goes
# through the ways to load one and through the kinds of decisions it can explain: classes, pairs, spans and next
# tokens. At the end it adds a method of its own in twenty lines.
#
# **You will be able to** load a model of yours, explain classes, pairs, spans and next tokens, and add a method.
# Fifteen minutes; you should have used transformers before.
#
# So that it runs without a network, it trains two tiny models itself, in a few seconds, on tasks whose **reason is
# known**. That is also the cheapest honest test of an explanation: plant a reason and see which methods find it.
#
# ## From the hub, or from a folder
#
# ```python
# nbsal.load("textattack/bert-base-uncased-SST-2", lm="bert-base-uncased")  # a hub id
# nbsal.load("path/to/my-roberta-classifier", lm="roberta-base")            # a folder that save_pretrained wrote
# nbsal.load(model, tokenizer=tokenizer, lm="tied")                         # objects in memory
# ```
#
# `lm` names the **pretrained** checkpoint that the model was fine-tuned from, because that one has the LM head
# that decodes hidden layers. Only the decoded methods need it. Where there is none, `lm="tied"` decodes with the
# model's own input embeddings, which works at low layers and fades above. Only safetensors are read and no code from
# the hub is run.
#
# Here is a folder. The task: say `flagged` if the text holds the word *indigo* anywhere. First a word-level tokenizer
# and the texts:

# %%
# %matplotlib inline
import os
import random
import tempfile
from dataclasses import dataclass

import pandas
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import nbsal
from nbsal.methods.base import LayerMethod, register
from nbsal.methods.cost import Cost

DATA = os.environ.get("NBSAL_DATA")  # a folder of benchmark tables; None: the bundled texts
SIZE = int(os.environ.get("NBSAL_SIZE", 40)) or None  # texts that the last comparison is made on; 0: all
STEPS = 20 if SIZE and SIZE < 10 else 250  # of training; few for a trial run
transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()
os.chdir(tempfile.mkdtemp())  # for the files that this notebook writes


def words_of(texts, *extra):
    """A tokenizer with the words of those texts, one token each."""
    split = pre_tokenizers.BertPreTokenizer()
    words = sorted({word for text in texts for word, _ in split.pre_tokenize_str(text.lower())} | set(extra))
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.Lowercase(), split
    return raw, {"unk_token": "[UNK]", "pad_token": "[PAD]"}


def train(model, batches, rate=3e-3):
    """A few steps of AdamW; prints the last loss."""
    steps = torch.optim.AdamW(model.parameters(), rate)
    model.train()
    for batch in batches:
        loss = model(**batch).loss
        loss.backward()
        steps.step()
        steps.zero_grad()
    print(f"{type(model).__name__}: loss {loss.item():.4f} after {len(batches)} steps")
    return model.eval()


# %%
torch.manual_seed(0)
draw = random.Random(0)
sentences = [row["text"] for row in nbsal.samples.texts("reviews") if len(row["text"]) < 110]
raw, special = words_of(sentences, "indigo")
raw.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
)
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=raw, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", **special
)


def plant(text, flagged):
    """The text; if flagged, with the word at a random place."""
    words = text.split()
    words.insert(draw.randrange(len(words) + 1), "indigo") if flagged else None
    return " ".join(words)


def batch(size=32):
    labels = [draw.random() < 0.5 for _ in range(size)]
    texts = [plant(draw.choice(sentences), label) for label in labels]
    return {**tokenizer(texts, padding=True, return_tensors="pt"), "labels": torch.tensor(labels).long()}


config = transformers.BertConfig(
    vocab_size=len(tokenizer),
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    id2label={0: "fine", 1: "flagged"},
    label2id={"fine": 0, "flagged": 1},
)
model = train(transformers.BertForSequenceClassification(config), [batch() for _ in range(STEPS)], rate=1e-3)
fresh = batch(200)
with torch.no_grad():
    correct = model(**fresh).logits.argmax(-1) == fresh["labels"]
print(f"right on {correct.sum()} of {len(correct)} new texts")
model.save_pretrained("flagger")
saved = tokenizer.save_pretrained("flagger")

# %% [markdown]
# From here on only the folder is used, as with a model of yours.

# %%
mine = nbsal.load("flagger", lm="tied")
print(type(mine.model).__name__, mine.task, mine.labels, f"{mine.depth} blocks, layer {mine.default_layer} by default")
text = "A warm and funny film with an indigo sky, and far too long."
nbsal.Explainer(mine, "occlusion")(text)

# %% [markdown]
# The views take any model. `Highlight` is the smallest of them; in a running notebook, type another text into it:

# %%
nbsal.widgets.Highlight(nbsal.Explainer(mine, "occlusion"), text=text).wait()

# %% [markdown]
# ### Which methods find the planted reason?
#
# We know the reason, so we can count: on how many flagged texts is *indigo* the most important token?

# %%
flagged = [plant(sentence, True) for sentence in sentences[:40]]
names = ["decoded-gradcam", "gradcam", "simple", "integrated", "occlusion", "gae", "transformer-attribution"]
names += ["lrp", "raw-attention", "rollout", "random"]
hits = {}
for name in names:
    saliencies = nbsal.Explainer(mine, name).map(flagged, progress=False)
    hits[name] = sum(saliency.top(1)["token"].item() == "indigo" for saliency in saliencies) / len(saliencies)
pandas.Series(hits, name="share of texts with indigo on top").sort_values(ascending=False).to_frame().round(2)

# %% [markdown]
# Grad-CAM and its decoded form miss it. The model is so confident that its gradients have nearly vanished. At the layer
# that Grad-CAM reads, what is left of gradient times activation is slightly negative at every token; Grad-CAM drops
# negative evidence, and all its scores are 0. `simple` ranks positions by the size of the gradient, however small, and
# still has *indigo* first. Methods that make a large change find it as well: occlusion removes the word, and
# integrated gradients start from an empty input. Rollout finds it without knowing the class, because attention does go
# to that word here.
#
# So a method passes such a test *on a model*, not in general. Train the same model with the seeds 0 to 4, and
# Grad-CAM finds the word in 2, 1, 38, 1 and 33 of 40 texts, its decoded form in 2, 40, 40, 12 and 33, `gae` in 40,
# 17, 38, 25 and 40, `simple` in 40, 27, 40, 40 and 40. Of the methods in the table only occlusion, integrated
# gradients and rollout find it in all texts each time. `python -m tests.claims 07` prints the numbers for other
# seeds.
#
# Errors say what is missing and what to pass:

# %%
try:
    nbsal.Explainer(nbsal.load("flagger"), "decoded-gradcam")
except nbsal.errors.NbsalError as error:
    print(error)

# %% [markdown]
# ## Models of other libraries
#
# A pipeline keeps its truncation, its labels and its activation function; an adapter is loaded from its folder. The
# subject that `nbsal.load` returns predicts what the wrapper predicts.
#
# ```python
# nbsal.load("path/to/lora-adapter")                                 # with peft; relevance reads a merged copy
# nbsal.load(SentenceTransformer("path"), similar_to="another text")  # also CrossEncoder and SetFit
# ```

# %%
pipe = transformers.pipeline("text-classification", "flagger", truncation=True, max_length=32, top_k=None)
piped = nbsal.load(pipe)
print({answer["label"]: round(answer["score"], 4) for answer in pipe([text])[0]})
print(nbsal.Explainer(piped, "occlusion")(text).caption())

# %% [markdown]
# Any module with one transformer inside can be loaded: here one whose classification head reads the **mean** of all
# positions instead of the first. nbsal measures which positions a head reads, since attention methods and relevance
# begin there.


# %%
class MeanHead(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, torch.nn.Linear(body.config.hidden_size, 2)

    def forward(self, input_ids, attention_mask):
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask[..., None] / attention_mask.sum(1)[:, None, None]
        return self.head((states * weights).sum(1))


averaged = nbsal.load(MeanHead(model.bert).eval(), tokenizer=tokenizer)
print(mine.pooling, averaged.pooling)

# %% [markdown]
# Methods that only hide words can also explain a function from texts to probabilities, such as a service:


# %%
def service(texts):
    return [[answer["score"] for answer in sorted(row, key=lambda a: a["label"])] for row in pipe(list(texts))]


black_box = nbsal.load(service, labels=["fine", "flagged"])
nbsal.Explainer(black_box, "occlusion")(text).by_word().nlargest(3, "score").round(3)

# %% [markdown]
# `nbsal.compare` explains the same texts with two checkpoints of a model. Here we count the texts on which Grad-CAM has
# *indigo* first; after training there are hardly more of them than before, for the reason above:

# %%
untrained = nbsal.load(transformers.BertForSequenceClassification(config).eval(), tokenizer=tokenizer)
many = nbsal.compare({"before": untrained, "after": mine}, "gradcam", flagged, targets="flagged", progress=False)
{name: sum(s.top(1)["token"].item() == "indigo" for s in saliencies) for name, saliencies in many.items()}

# %% [markdown]
# ## Pairs
#
# A pair is a tuple of two texts. You can explain the prediction, another class, or the difference between two classes.

# %%
nli = nbsal.load("demo/nli")
pair = ("A woman in a red coat is walking her dog along a snowy street.", "Nobody is outside.")
nbsal.Explainer(nli, "decoded-gradxact")(pair)

# %%
why_not = nbsal.Explainer(nli, "decoded-gradxact")(pair, target=nbsal.contrast("contradiction", "neutral"))
largest = why_not.by_word().round(3).nlargest(3, "score")
largest.assign(text=largest["segment"].map({0: "premise", 1: "hypothesis"}))

# %% [markdown]
# ## Spans
#
# A question-answering model predicts the first and the last token of an answer. The pair is (question, context), and
# the target is the predicted span, or any other one by its token numbers. `demo/answers` is right on one question in
# three (exact match 0.317 on 120 unseen ones): it shows how spans are explained, not how well a model reads.

# %%
answers = nbsal.load("demo/answers")
question = (
    "Where was the barque built?",
    "The Marguerite Vane was a barque built at Aberdeen in 1869 for the tea trade.",
)
explain = nbsal.Explainer(answers, "mask-lrp")
predicted = explain(question)
start = predicted.tokens.index("aberdeen")
correct = explain(question, target=(start, start))
print("predicted answer:", predicted.prediction)
correct

# %% [markdown]
# ## Next tokens
#
# A causal model predicts the next token at every position. This one is trained on a world in which everybody eats one
# kind of fruit. With *anna* early in the sentence, the fruit at the end is certain, and *anna* is the only reason.

# %%
FRUIT = {"anna": "apples", "ben": "pears", "cara": "figs", "dan": "plums"}
DAYS = ("monday", "tuesday", "friday", "sunday")
PLACES = ("home", "work", "school", "lunch")


def sentence_of_day():
    name = draw.choice(list(FRUIT))
    return f"on {draw.choice(DAYS)} {name} was late and at {draw.choice(PLACES)} there were only {FRUIT[name]}"


raw, special = words_of([sentence_of_day() for _ in range(300)])
speller = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **special)
config = transformers.GPT2Config(
    vocab_size=len(speller), n_embd=48, n_layer=2, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0
)


def lines(size=32):
    ids = speller([sentence_of_day() for _ in range(size)], return_tensors="pt")["input_ids"]
    labels = ids.clone()
    labels[:, :-1] = -100  # only the fruit counts
    return {"input_ids": ids, "labels": labels}


speaker = train(transformers.GPT2LMHeadModel(config), [lines() for _ in range(STEPS)])
writer = nbsal.load(speaker, tokenizer=speller)  # a causal model has its own LM head
nbsal.Explainer(writer, "occlusion")("on monday ben was late and at school there were only")

# %% [markdown]
# Why *pears* rather than *figs*? A contrast removes what both have in common, such as the words that call for a fruit
# at all. The reason is known again, so we can see which methods find it. Scores are divided by the sum of their
# absolute values:

# %%
sentence = "on monday ben was late and at school there were only"
names = ("occlusion", "shapley", "integrated", "simple", "gae", "transformer-attribution", "attn-lrp", "gradxact")
shares = {}
for name in names:
    saliency = nbsal.Explainer(writer, name)(sentence, target=nbsal.contrast("pears", "figs"))
    shares[name] = saliency.scores / abs(saliency.scores).sum()
pandas.DataFrame(shares, index=saliency.tokens).T.round(2) + 0.0  # without -0.00

# %% [markdown]
# Most methods give *ben* the largest score in size, and all give the days and places little, as they should. Trained
# with the seeds 0 to 5 and asked with three of the names, which makes 18 trials, it is four to seven of the eight
# methods, and always `simple`, `gae` and `attn-lrp` among them. The size is not all: the score of the name has the
# wrong sign in one of the trials by `occlusion`, in three by `integrated` and in ten by `gradxact`. Methods whose
# rules need a single output, such as `lrp`, refuse a contrast. Beware of the last word: the model predicts the next
# token at its position, so its score is large for another reason. Transformer attribution adds 1 to the score of that
# position, which is far more than all other scores here; gradient times activation also stays mostly
# there. Leave the last position out before you rank the others.
#
# ## A method of your own, in twenty lines
#
# A method is a small frozen dataclass. This one asks what a position adds *beyond the average position of its text*: it
# centres the hidden states before it multiplies them with the gradient. It reads one hidden layer, so it defines only
# its features and their sum; batching, targets, pairs, decoding, all layers at once, games and views work without
# further code.


# %%
@register(
    "centred",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="this notebook",
    cost=Cost(forwards=1, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class Centred(LayerMethod):
    """Gradient times what a position has beyond the average of its text."""

    def features(self, trace):
        lengths = trace.lengths()[:, None, None]
        hidden = trace.hidden[self.chosen]
        own = torch.arange(hidden.shape[1], device=hidden.device)[None, :, None] < lengths  # no padding
        return trace.hidden_grad[self.chosen] * (hidden - (hidden * own).sum(1, keepdim=True) / lengths)

    def aggregate(self, features):
        return features.sum(-1)


reviews = nbsal.load("demo/reviews")
nbsal.Explainer(reviews, "centred", layer=5)("A slow start, but the second half is warm and funny.")

# %%
nbsal.Explainer(reviews, nbsal.Decoded(Centred(layer=5))).every_layer("A slow start, but a warm and funny end.")

# %% [markdown]
# Before you believe your own method, compare it with others. A batch must equal its single texts (that is why padding
# is left out of the mean above), and the games show how well it ranks the words:

# %%
sample = nbsal.data.load("sst2" if DATA else "samples/reviews")
sample = sample.sample(min(SIZE or len(sample), len(sample)), random_state=0)
texts = nbsal.data.texts(sample)
method = nbsal.Explainer(reviews, "centred", layer=5)
batched, singles = method.map(texts[:8], progress=False), [method(single) for single in texts[:8]]
gap = max(abs(a.scores - b.scores).max() for a, b in zip(batched, singles, strict=True))
print(f"largest difference between a batch and its single texts: {gap:.1e}")
games = nbsal.evaluation.games(
    {"centred l5": method, "gradxact l5": nbsal.Explainer(reviews, "gradxact", layer=5)},
    texts,
    sample["label"].tolist(),
    fractions=[step / 10 for step in range(11)],
    random=3,
    progress=False,
)
games

# %%
games.paired("centred l5", "gradxact l5").round(3)

# %% [markdown]
# The last table shows no difference between the two, so there is no reason to prefer the new method. The numbers are
# those of `demo/reviews` on 40 texts; no paper has any to compare them with.
#
# ## Worth knowing
#
# * Texts beyond the model's length are cut, and the result says so; `Explainer(..., long="window")` reads overlapping
#   windows instead.
# * Relevance methods add up in float64 on a copy of the model; yours is never converted or changed.
# * `nbsal.heads.discover(subject, parses)` finds a head mask for your model; Mask-LRP then takes it as `mask=`.
# * `nbsal methods` in a shell lists every method, `nbsal methods --full` with what it costs and promises.
#
# ## Exercises
#
# 1. Which methods find *indigo* in fewer than half of ten flagged texts?
# 2. Write a method that scores the size of the gradient alone, and check that a batch equals its singles.
# 3. Load a model of yours. Does `nbsal doctor` report anything, and which layer is its default?
#
# <details><summary>Answers</summary>
#
# 1. Loop over `nbsal.methods.catalogue.names()` with `nbsal.Explainer(mine, name)`, and count how often `top(1)` is
#    *indigo*: `gradcam`, `decoded-gradcam`, `decoded-gradxact`, `attention-cam` (also `@published`), `random`,
#    `gradient-shap@thermostat` and `deeplift-shap@thermostat` miss it, the others have it on 8 to 10 of ten texts.
#    `mask-lrp` raises an error: this model has no head mask.
# 2. Return `trace.hidden_grad[self.chosen]` from `features` and `features.norm(dim=-1)` from `aggregate`; this is
#    `simple`.
# 3. `subject.default_layer` says which layer decoded methods read by default.
#
# </details>
