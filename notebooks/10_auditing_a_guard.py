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
# # Auditing a guard
#
# A guard is a classifier that stops harmful requests to a service. Users complain that it stops harmless ones too.
# Which words mislead it, how many of its mistakes do they cause, and does fine-tuning help?
#
# **You will be able to** audit a classifier over many texts, read what hiding a word corrects and breaks, tell mistakes
# of the model from wrong labels, repair the model, and compare it before and after. Fifteen minutes; you should know
# what a text classifier is.
#
# The guard is `planted/punctuation`, a tiny model of ours for messages of a made-up world. It is *meant* to decide by
# the verb (how to *paint*, how to *forge*). We planted a fault in it; the audit is not told which.

# %%
# %matplotlib inline
import os
from itertools import islice

import pandas
import torch

import nbsal
from nbsal.samples import planted

SIZE = int(os.environ.get("NBSAL_SIZE", 400))  # messages of the audit; a trial run has few
pandas.set_option("display.float_format", "{:z.2f}".format, "display.max_colwidth", None)
torch.manual_seed(0)
guard = nbsal.load("planted/punctuation")
explain = nbsal.Explainer(guard, "occlusion")
texts, labels = planted.audit_texts(seed=7, size=SIZE)
pandas.DataFrame({"text": texts, "label": labels}).head(4)

# %% [markdown]
# ## One false alarm
#
# The first message that is labelled harmless and stopped:

# %%
pairs = zip(texts, labels, strict=True)
stopped = (text for text, label in pairs if label == "harmless" and explain(text).prediction == "harmful")
explain(next(stopped, texts[0]), check=True)

# %% [markdown]
# Occlusion hides one token at a time. If it hides one asterisk, the other one still decides. So each scores almost 0
# (the bars are × 10⁻⁴), and the first line wrongly says that no word speaks for the decision. Only the check, which
# hides both asterisks, shows what it depends on: 97.5 % become 2.5 %. But is that a rule of the guard? One message
# cannot tell.
#
# ## The audit
#
# The audit tests a word if, in at least five messages, it is one of the three words with the highest scores or belongs
# to the smallest set of words whose hiding corrects a mistake. It hides each such word, at all its places at once, in
# *every* message that has it. The plan says before anything runs how many passes that takes at most:

# %%
least = 5 if SIZE >= 100 else 1
print(nbsal.evaluation.plan_audit(explain, texts, least=least))
audit = nbsal.audit(explain, texts, labels, least=least, progress=False)
audit

# %% [markdown]
# The audit took 4,261 passes with words hidden. Two of 35 words mislead the guard: the quotation mark and the asterisk.
# The columns, for each word:
#
# * `Pull`: by how much the word raises the log-odds of its class, on average over all messages with the word
# * `Corrects`, `Breaks`: wrong decisions that become right without the word, and right ones that become wrong
# * `Excess`: of the messages with the word, the share predicted as its class minus the share labelled as its class
# * `Flips`, `Random flips`: decisions that change without the word, and without a random other word instead
# * `p`: how likely a net effect at least as large would be if the word did nothing, adjusted for all words that could
#   have been tested
#
# `audit.words` has the same as a table. Compare the two marks with the verbs:

# %%
columns = ["word", "speaks_for", "texts", "score", "pull", "corrects", "breaks", "excess"]
pandas.concat([audit.words.head(2), audit.words.tail(4)])[columns]

# %% [markdown]
# Hiding a verb *breaks* decisions, as it should: the verb is the evidence. Hiding a mark corrects far more than it
# breaks. `excess` alone would not do: *plant*, *wash* and *knit* have an excess of about 0.3 as well, but hiding
# them changes nothing.
#
# How many mistakes do the marks cause? Hide both at once:

# %%
marks = [mark for mark in '"*' if any(mark in text for text in texts)]
together = audit.hide(marks)
after = dict(zip(together.texts, together.without, strict=True))
corrected = sum(after.get(text) == audit.labels[text] for text in audit.wrong)
broken = sum(after[text] != audit.labels[text] for text in after.keys() - {*audit.wrong})
print(
    f"corrects {corrected} of {len(audit.wrong)} mistakes, breaks {broken} of {len(texts) - len(audit.wrong)} decisions"
)

# %% [markdown]
# In a running notebook, the view `nbsal.widgets.Audit(audit)` does the same: choose words, and read the messages that
# change. `audit.to_html("report.html")` writes a report that you can send.
#
# ## The mistakes, one by one
#
# `audit.mistakes` has, for each mistake, the smallest set of words whose hiding corrects it. Labels can be wrong, too:
# in this data, one in twenty on purpose. In a made-up world the right label is known, because the verb says it:


# %%
def right_label(text):
    return "harmful" if {*text.split()} & {*planted.VERBS[1]} else "harmless"


mistakes = audit.mistakes.assign(right=lambda frame: frame["text"].map(right_label))
mistakes["words"] = mistakes["words"].map(", ".join)
mistakes["label is"] = (mistakes["label"] == mistakes["right"]).map({True: "right", False: "wrong"})
mistakes[["text", "label", "words", "label is"]].head(5)

# %%
mistakes.groupby("label is", as_index=False).agg(mistakes=("text", "size"), corrected=("corrected", "sum"))

# %% [markdown]
# Of 54 true mistakes, hiding marks corrects 53. In the 12 others the guard is right and the label wrong: hiding the
# verb "corrects" 8 of them, such as *kidnap* in the fourth row. **Read the words before you believe a correction.**
#
# `audit.slices` compares parts of the messages: by length, by first word, or by `groups=` of your own.

# %%
slices = audit.slices.query("slice in ['words', 'first word']")
slices[["slice", "value", "texts", "rate", "rest", "p_holm"]].head(3)

# %% [markdown]
# `rate` is the share of mistakes in the slice, `rest` that in all other messages. No length and no first word differs.
#
# ## The fix
#
# There are two ways. A **rule** removes both marks before the guard reads a message. It is quick, and helps only
# against the words that were found. **Fine-tuning** on messages in which punctuation says nothing teaches the model
# itself. (`evidence` is the right label, without the wrong ones.)

# %%
tuned = nbsal.load("planted/punctuation")
model = tuned.model.train().requires_grad_(True)
messages, steps = planted.draw(seed=1234), 300 if SIZE >= 100 else 20
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(steps):
    batch = list(islice(messages, 64))
    inputs = tuned.tokenizer([message.text for message in batch], padding=True, return_tensors="pt")
    model(**inputs, labels=torch.tensor([message.evidence for message in batch])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model = model.eval().requires_grad_(False)
# %% [markdown]
# ## Before and after
#
# Compare on new messages, since the old ones led to the fix. `other=` audits both models with the same words; its
# columns end in `_other`.

# %%
fresh, truth = planted.audit_texts(seed=8, size=SIZE)
both = nbsal.audit(explain, fresh, truth, other=nbsal.Explainer(tuned, "occlusion"), least=least, progress=False)
columns = ["word", "texts", "corrects", "corrects_other", "breaks", "breaks_other", "excess", "excess_other"]
both.words[columns].head(2)

# %%
without_marks = [text.replace('"', "").replace("*", "") for text in fresh]
ruled = nbsal.audit(explain, without_marks, truth, least=least, progress=False)
wrong_labels = [text for text, label in zip(fresh, truth, strict=True) if label != right_label(text)]
counts = {
    "before": both.wrong,
    "with the rule": ruled.wrong,
    "fine-tuned": both.other.wrong,
    "wrong labels": wrong_labels,
}
pandas.DataFrame({"share": {name: len(each) / len(fresh) for name, each in counts.items()}})

# %% [markdown]
# Before, 19 % of the decisions disagree with the label; after either fix, 6 %. That is the share of wrong labels, which
# no model can get right: both fixes work. Hiding the marks from the fine-tuned
# model corrects and breaks nothing.
#
# ## What an audit cannot show
#
# * **Too few messages show nothing.** The same audit of the first 200 messages, of which 33 are mistakes:

# %%
half = len(texts) // 2
nbsal.audit(explain, texts[:half], labels[:half], least=least, progress=False)

# %% [markdown]
# The marks are on top, but their p-values, adjusted for all words that could have been tested, are above 0.05. A word
# in fewer than five messages is not even tested. (That messages labelled *harmless* differ from the others says only
# that the mistakes are false alarms.)
#
# * **Words that stand in for one another.** If two words mean the same to a model and always come together, hiding
#   either changes nothing. `audit.hide([...])` hides several at once.
# * **What is not a word.** A model may rely on length or on position. Slices can show that, if you think of them.
# * **Other data.** The audit speaks of these messages. On others, the guard may rely on other words.
#
# ## What to take with you
#
# 1. Audit hundreds of labelled texts, not ten. Look first at words that correct more than they break.
# 2. Read the corrected mistakes: a word that "corrects" towards a wrong label is evidence, not a shortcut.
# 3. Fix, then audit *new* texts with `other=`, and compare with the share of wrong labels, which is the best to hope
#    for.
#
# **Where to go next:** [`11_real_models`](11_real_models.ipynb) tests a word of a guard that others published; the
# guide [Auditing](../.docs/guides/auditing.md) has pairs of texts, groups and the command line.
#
# ## Exercises
#
# 1. Audit `planted/name`. Which class does its shortcut support, and what does that mean for a guard?
# 2. Audit `planted/control`. What does the audit find, and what are its mistakes?
# 3. Audit `planted/pair`, whose shortcut needs two words. How does `audit.without("tonight")` show that?
#
# <details><summary>Answers</summary>
#
# 1. *dana* supports *harmless*: harmful messages pass if they have the name. Hiding it corrects misses instead of false
#    alarms.
# 2. No word misleads it. Its mistakes are the wrong labels.
# 3. Both words mislead it. In the table, hiding *tonight* changes the decision where the message has *quietly* as well,
#    and nowhere else: either word alone does nothing.
#
# </details>
