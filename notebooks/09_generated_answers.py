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
# # Generated answers
#
# A model reads some notes and a question, and writes an answer. Which note is it from? Would the answer be another one
# without that note? And which methods can be trusted to say so?
#
# **You will be able to** read the sources of a reply, ask why it says one word and not another, test the explanation by
# hiding notes, measure methods against known sources, follow a word back through the reply, and do the same with a
# translation. Twenty minutes; you should know what a language model is.
#
# The model is `demo/notes`, an embedded Llama of four blocks. It knows a made-up world of a few hundred names and
# things and has never seen these notes, so an answer can only come from a note. That is what makes it useful here:
# **the source of every answer is known**.

# %%
# %matplotlib inline
import json
import os
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import nbsal
from nbsal.support.intervals import margin_interval, mean_interval

SIZE = int(os.environ.get("NBSAL_SIZE", 40)) or None  # questions; 0: all
BRIEF = SIZE is not None and SIZE < 10  # a trial run, in which the translator is trained for some steps only
COMPARED = 1 if BRIEF else SIZE  # questions that methods are compared on
pandas.set_option("display.precision", 2)
subject = nbsal.load("demo/notes")
samples = nbsal.samples.texts("notes")
rows = [row for row in samples if len(row["source"]) == 1 and len(row["documents"]) >= 4]
row = rows[0]
question = [{"role": "user", "content": row["question"]}]
answer = nbsal.answer(subject, question, documents=row["documents"], unit="document", progress=False)
print(answer.text)
answer

# %% [markdown]
# `question` is a list of messages for the model's chat template, which also places the documents. Every token of prompt
# and reply is traced back to the message or document, and to the character there, that it came from. What the template
# itself adds belongs to no source.
#
# In a running notebook, `Answers` shows the same as a view: select words of the reply to see which notes they come
# from, or words of a note to see what depends on them. You can also hide a note, or ask for a rival word.

# %%
nbsal.widgets.Answers(answer).wait()

# %% [markdown]
# ## Where it comes from
#
# For the reply as a whole, and word by word:

# %%
answer.sources(rows="reply")

# %%
answer.matrix(rows="word", columns="document").T.round(2)

# %% [markdown]
# A column is one word of the reply. Words that the question has, such as *helmet*, come mostly from the question; new
# ones, such as *armoury*, from a note and the template; other words, such as the second *the*, mostly from the reply so
# far (last row).
#
# ## Why this word and not another
#
# The model's own probability of each token, and the most probable other token, its rival:

# %%
tokens = answer.tokens()
tokens[["token", "probability", "rank", "entropy"]].round(2).assign(
    rival=[f"{rivals[0][0]} {rivals[0][1]:.1%}" for rivals in tokens["rivals"]]
)

# %% [markdown]
# `of` explains a part of the reply, `rather` the difference between a word of the reply and a rival. Both return
# ordinary explanations of a text, as in the other notebooks. This is the word whose rival came closest:

# %%
least = int(np.argmax([rivals[0][1] for rivals in tokens["rivals"]]))
answer.rather(tokens["rivals"][least][0][0], at=least)

# %% [markdown]
# ## Without the note
#
# An explanation is a claim: without this note, the answer would be another one. `judge` tests it: it hides the units of
# the explanation one after the other, the one with the largest score first, and measures the log-probability of the
# reply. All other tokens keep their positions.
#
# Without its question the model has nothing to answer, so only the notes should be hidden. For that, the units here are
# the notes' characters in the prompt, as the model reads it.

# %%
prompt = answer.reading.prompt.text
spans = [(prompt.index(note), prompt.index(note) + len(note)) for note in row["documents"]]
notes = nbsal.answer(subject, prompt, answer.text, unit=spans, progress=False)
judgement = notes.judge(progress=False)
judgement.plot()
judgement.frame()

# %% [markdown]
# The curve falls at once, because the first note that is hidden is the one that matters; the others add nothing. The
# grey band has 95 % of 20 random orders, which fall at the step that hides this note. A method has found something if
# its mean drop, in the table, is above the interval of the random orders. And what does the model write without the
# note?

# %%
without = [text for number, text in enumerate(row["documents"]) if number not in row["source"]]
again = nbsal.answer(subject, question, documents=without, unit="document", progress=False)
print("with the note:   ", answer.text)
print("without the note:", again.text)

# %% [markdown]
# ## Which method finds the source?
#
# The source is known, so we can count how often a method gives the largest score to the right note. Only right answers
# count, since the source of a wrong one is unknown.

# %%
METHODS = ["attn-lrp", "gae", "shapley", "contextcite", "ridge", "occlusion", "simple", "gradxact"]
METHODS += ["rollout", "raw-attention", "random"]
hits = {name: [] for name in METHODS}
for row in rows[:COMPARED]:
    chat = [{"role": "user", "content": row["question"]}]
    settings = {"documents": row["documents"], "unit": "document", "check": False, "progress": False}
    answers = nbsal.answer(subject, chat, method=METHODS, **settings)
    if answers["gae"].text.strip() != row["answer"]:
        continue
    for name, each in answers.items():
        scores = each.unit_scores().sum(0)
        documents = [i for i, unit in enumerate(each.units) if unit.name.startswith("document")]
        hits[name].append(int(np.argmax(scores[documents])) == row["source"][0])
right = {name: np.mean(correct) for name, correct in hits.items()}
pandas.DataFrame({"right": right, "of": len(hits["gae"])}).sort_values("right", ascending=False)

# %% [markdown]
# Here nearly every method finds the note, gradient times input (`gradxact`) included. Attention in the last block
# (`raw-attention`) is no better than the random order. Mind the number of questions: with forty, two methods that
# differ by ten points cannot be told apart. And this is one small model that is confident of its answers.
#
# The confidence has another effect. The scores above explain **logits**. The log-probability of a word that is nearly
# certain hardly has a gradient, and what is left is rounding error:

# %%
gradients = {"logit": {"gae": [], "gradxact": []}, "logprob": {"gae": [], "gradxact": []}}
for row in rows[:COMPARED]:
    chat = [{"role": "user", "content": row["question"]}]
    for number, correct in gradients.items():
        settings = {"documents": row["documents"], "unit": "document", "check": False, "progress": False}
        reply = " " + row["answer"]
        for name, each in nbsal.answer(subject, chat, reply, method=list(correct), number=number, **settings).items():
            scores = each.unit_scores().sum(0)
            documents = [i for i, unit in enumerate(each.units) if unit.name.startswith("document")]
            correct[name].append(int(np.argmax(scores[documents])) == row["source"][0])
shares = {number: {name: np.mean(hits) for name, hits in correct.items()} for number, correct in gradients.items()}
pandas.DataFrame(shares)

# %% [markdown]
# ## Which method finds the way?
#
# Questions about one note separate good methods from bad ones, not good ones from each other. These are harder: the
# answer takes two notes.

# %%
twos = [row for row in samples if len(row["source"]) == 2 and "not in the notes" not in row["answer"]]
chain = twos[0]
print(*chain["documents"], "", chain["question"], chain["answer"], sep="\n")

# %% [markdown]
# The model first writes a name from one note, then looks at that name to find the value in the other. The scores of the
# value stop there: its row holds the reply so far. `hops` follows them: the words before it are read with what they
# received as weights, and so on. `shares` says what arrived at each hop.

# %%
chat = [{"role": "user", "content": chain["question"]}]
settings = {"documents": chain["documents"], "unit": "document", "progress": False}
followed = nbsal.answer(subject, chat, method="ifr", hops="all", **settings)
value = followed.of(followed.reading.content[-2])  # the last word before the full stop
print({name: np.round(share, 2).tolist() for name, share in value.provenance["shares"].items()})
followed

# %% [markdown]
# The table counts how often the two notes with the highest scores are those of the answer, for its final value: by the
# value's own row, and through earlier words.

# %%
WAYS = {"directly": 0, "1 hop": 1, "2 hops": 2, "all hops": "all"}
FOLLOWED = ["ifr", "gae", "attn-lrp", "gim", "gradxact", "rollout", "random"]


def both_notes_found(rows):
    """By method and way: whether the two notes with the highest scores are those that the final value needs."""
    found = {name: {way: [] for way in [*WAYS, "sum of all words"]} for name in FOLLOWED}
    for row in rows:
        chat = [{"role": "user", "content": row["question"]}]
        settings = {"documents": row["documents"], "unit": "document", "check": False, "progress": False}
        given = f" {row['reply']}" if "reply" in row else None
        answers = nbsal.answer(subject, chat, given, method=FOLLOWED, **settings)
        first = answers["gae"]
        value = first.reading.content[-2]  # before the full stop
        if first.statistics.rank[value] > 1 if given else first.text.strip() != row["answer"]:
            continue  # the model would write something else
        for name, each in answers.items():
            documents = [list(unit.tokens) for unit in each.units if unit.name.startswith("document")]
            scores = {way: each.of(value, hops=hops).scores for way, hops in WAYS.items()}
            for way, row_scores in (scores | {"sum of all words": each.scores.sum(0)}).items():
                best = np.argsort([-row_scores[tokens].sum() for tokens in documents])[:2]
                found[name][way].append(set(best.tolist()) == set(row["source"]))
    return found


def shares(found):
    means = {name: {way: np.mean(hits) for way, hits in ways.items()} for name, ways in found.items()}
    return pandas.DataFrame(means).T


results = both_notes_found(twos[:COMPARED])
print(len(results["gae"]["directly"]), "right replies")
shares(results)

# %%
hits = np.array(results["ifr"]["all hops"], float)
low, high = mean_interval(hits, (0, 1))
margin = np.array(results["ifr"]["all hops"], float) - np.array(results["gae"]["all hops"], float)
print(f"ifr, all hops: {hits.mean():.2f}, 95 % interval {low:.2f} to {high:.2f}")
print("minus gae, all hops: {:.2f}, 95 % interval {:.2f} to {:.2f}".format(margin.mean(), *margin_interval(margin, 1)))

# %% [markdown]
# Directly, no method does well: the row of the value names the note that states it, and rarely the one that led there.
# Through the reply, `ifr` finds both notes nearly always. `gae` and `rollout` gain less; signed methods gain nothing or
# lose, since scores of both signs cancel on the way. What `ifr` cannot do: it shows where the model reads, whatever it
# then writes, so it never says why it is this word and not another.
#
# These replies mention nothing else, so the sum over all words of a reply, `answer.sources(rows="reply")`, finds both
# notes as well, with nearly every method. The next replies say more than was asked. They are given, not written by the
# model, which would go on with the same value:

# %%
asides = nbsal.samples.texts("asides")
print(asides[0]["question"], asides[0]["reply"], sep="\n")
said_more = both_notes_found(asides[:COMPARED])
print(len(said_more["gae"]["directly"]), "replies that the model would end with the same value")
shares(said_more)

# %% [markdown]
# Now a third note is mentioned, about the same name, which the value does not need. The way through the words finds the
# two notes in fewer than half of the replies, whatever the method. The sum over all words does better with signed
# methods, best with `gim`, and still takes the third note for one of the two in every third reply or so. That a method
# finds its way through short replies is no promise for longer ones.
#
# ## A translated sentence
#
# Encoder-decoders work in the same way: the source is what the encoder reads. So that the source of every word is known
# again, the next cell trains a small T5, in ten seconds, to translate sentences of fourteen English words into French,
# with adjectives after their nouns. The source of a word is the word that it translates.

# %%
FRENCH = {
    "the": "le", "a": "un", "cat": "chat", "dog": "chien", "king": "roi", "boat": "bateau", "red": "rouge",
    "black": "noir", "happy": "heureux", "slow": "lent", "sees": "voit", "likes": "aime", "sells": "vend",
    "finds": "trouve",
}  # fmt: skip
ENGLISH = list(FRENCH)
ARTICLES, NOUNS, ADJECTIVES, VERBS = ENGLISH[:2], ENGLISH[2:6], ENGLISH[6:10], ENGLISH[10:]
SLOTS = (ARTICLES, ADJECTIVES, NOUNS, VERBS, ARTICLES, ADJECTIVES, NOUNS)
ORDER = [0, 2, 1, 3, 4, 6, 5]  # of the French words: an adjective follows its noun


def pair(draw):
    """A sentence and its translation."""
    english = [draw.choice(slot) for slot in SLOTS]
    return " ".join(english), " ".join(FRENCH[english[place]] for place in ORDER)


vocabulary = {word: number for number, word in enumerate(["<pad>", "</s>", *ENGLISH, *FRENCH.values()])}
raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
words = transformers.PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", model_max_length=32
)
torch.manual_seed(0)
draw = random.Random(0)
size = {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": len(vocabulary)}
config = transformers.T5Config(**size, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
model = transformers.T5ForConditionalGeneration(config)
steps = torch.optim.AdamW(model.parameters(), 4e-3)
for _ in range(20 if BRIEF else 500):
    english, french = zip(*(pair(draw) for _ in range(32)), strict=True)
    labels = words(french, return_tensors="pt").input_ids
    loss = model(**words(english, return_tensors="pt"), labels=labels).loss
    loss.backward()
    steps.step()
    steps.zero_grad()
translator = nbsal.load(model.eval(), tokenizer=words)

# %%
COMPARED = ["attn-lrp", "gae", "occlusion", "raw-attention", "gradxact", "random"]
draw, right, hits = random.Random(9), 0, {name: [] for name in COMPARED}
for _ in range(2 if BRIEF else 30):
    english, french = pair(draw)
    translated = nbsal.answer(translator, english, method=COMPARED, unit="word", max_new_tokens=12, progress=False)
    if translated["gae"].text.split() != french.split():
        continue
    right += 1
    for name, each in translated.items():
        scores = each.matrix("word", "word", earlier=False).to_numpy()[:, : len(SLOTS)]
        hits[name] += [int(np.argmax(row)) == place for row, place in zip(scores, ORDER, strict=True)]
print(f"{right} of 30 new sentences are translated correctly")
name = "share of words whose largest score is on the word they translate"
shares = pandas.Series({label: np.mean(correct) for label, correct in hits.items()}, name=name)
shares.sort_values(ascending=False).to_frame()

# %%
print(english, "->", translated["attn-lrp"].text)
translated["attn-lrp"].matrix("word", "word").round(2) + 0.0  # without -0.00

# %% [markdown]
# A word of the reply has two kinds of sources here: the words of the source sentence, and the reply so far (the last
# column). After a noun the next word must be its adjective, and the decoder knows that by itself. The column `template`
# is the end token of the source.
#
# ## Through a server
#
# Methods that hide sources do not need the weights. An OpenAI-compatible server will do, if it gives log-probabilities
# of a reply, as vLLM and llama.cpp do. So that this notebook runs offline, the next cell starts a small server on this
# machine: it answers for the same model as vLLM would.


# %%
class Completions(BaseHTTPRequestHandler):
    requests = 0

    def do_POST(self):
        Completions.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids, logprobs = body["prompt"], [None]  # nothing comes before the first token
        with torch.no_grad():
            rows = subject.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        for token, row in zip(ids[1:], rows, strict=False):
            likely = dict.fromkeys([token, *row.topk(body["prompt_logprobs"]).indices.tolist()])
            names = {i: subject.tokenizer.decode([i]) for i in likely}
            logprobs.append({str(i): {"logprob": float(row[i]), "decoded_token": names[i]} for i in likely})
        reply = json.dumps({"choices": [{"text": "", "prompt_logprobs": logprobs}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        """Nothing, so that the notebook stays short."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
threading.Thread(target=server.serve_forever, daemon=True).start()

# %% [markdown]
# `nbsal.Endpoint` takes the place of the model. What a question costs is known before anything is sent, and no more
# than `budget` requests are. With the tokenizer, the chat template is rendered here.

# %%
url = f"http://127.0.0.1:{server.server_port}/v1"
served = nbsal.load(nbsal.Endpoint(url, model="notes", budget=100, tokenizer=subject.tokenizer))
asked = {"asked": question, "reply": answer.text, "documents": rows[0]["documents"], "unit": "document"}
plan = nbsal.Explainer(served, "occlusion").plan_reply(**asked)
through_server = nbsal.answer(served, method="occlusion", progress=False, **asked)
print(f"planned: at most {plan}; sent: {Completions.requests}")
through_server

# %%
here = nbsal.answer(subject, method=nbsal.Occlusion(way="text"), progress=False, **asked)
print("largest difference of a score:", np.abs(through_server.scores - here.scores).max().round(4))

# %% [markdown]
# The numbers are those of the model in this process, where a note is cut out of the text as well: a server cannot leave
# out tokens and keep the positions of the others. `nbsal.widgets.Answers(served, question, documents=...)` shows the
# same as a view, in which *Strike out* and *Write again* ask the server. `nbsal doctor --endpoint URL` prints what a
# server can do, and the guide *A model behind a server* says how each of them is asked and started.
#
# ## When not to believe it
#
# * **Attention of the last block** shows what is read last, not what decided: in the notes it is no better than a
#   random order. In the translation it is among the best. Such a check holds for a model and a task, not for a method
#   in general.
# * **Log-probabilities** of nearly certain words have hardly any gradient. Explain logits, or use a method that hides.
# * **Scores of `gae`** are never negative: it cannot say that a note speaks *against* a word. `attn-lrp` and the
#   methods that hide can.
# * **The question** always scores high, since without it there is nothing to answer. Compare notes with notes.
# * **If no note has the answer**, the model says so, and all notes still get some score. Use `judge` before you believe
#   it.
#
# ## Exercises
#
# 1. Ask a question that the notes do not answer. What does the model say, and does `judge()` find a source?
# 2. Add the source note a second time. How do `occlusion`, `gae` and `shapley` divide the credit?
# 3. Explain by sentence and by word (`unit="word"`) with `shapley`. What does it cost, and what do you learn?
#
# <details><summary>Answers</summary>
#
# 1. To "Where did they put the compass?" the model replies "The notes do not say." Hiding any notes changes the
#    log-probability of this reply by less than 0.1, and the mean drop is inside the interval of the random orders:
#    `judge` finds no source, and there is none.
# 2. Pass `documents=[*row["documents"], row["documents"][0]]`. `occlusion` gives both copies 0, because it hides one
#    copy at a time and the reply then comes from the other. `gae` gives them 0.43 and 0.27, since attention is divided
#    between the copies (0.50 for the single note, the end token included). `shapley` also hides both at once, and gives
#    them 5.1 and 4.6 (13.7 for the single note).
# 3. `provenance["subsets"]` counts the hidden subsets: 268 for the 13 sentences, 2,873 for the 116 words. Among the
#    words, *armoury* and *helmet* of the note and *helmet* of the question score highest: the reply needs all three.
#
# </details>
