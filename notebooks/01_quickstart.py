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
# # Quickstart: why was this review called positive?
#
# A small fine-tuned transformer comes with nbsal, so that everything below runs without a network. Load it, ask it
# about a sentence, and see which words it went by.

# %%
import nbsal

subject = nbsal.load("demo/reviews")
explain = nbsal.Explainer(subject, "decoded-gradcam")
explain("A slow start, but the second half is warm, funny and beautifully played.")

# %% [markdown]
# The scores come from a hidden layer (layer 5 of 6 here), where the model has left word order behind and works on the
# decision; the model's own pretrained language head gives them back to the words of the text. Orange words speak for
# the decision. Everything on screen is a plain object:

# %%
s = explain("A slow start, but the second half is warm, funny and beautifully played.")
s.top(5)

# %% [markdown]
# Ask why *not*: explain the other class, or the difference between the two.

# %%
signed = nbsal.Explainer(subject, "decoded-gradxact")
signed(s.text, target=nbsal.contrast("positive", "negative"))

# %% [markdown]
# The layer matters more than anything else. One pass through the model gives all of them; each row is scaled to its own
# largest score.

# %%
layers = explain.every_layer(s.text)
layers.plot()
# %% [markdown]
# Several methods share one pass, too. Undecoded Grad-CAM at the same layer is an honest rival: it ranks words about as
# well, and it speaks of positions where decoding speaks of words.

# %%
methods = {
    "decoded, layer 5": nbsal.Decoded(nbsal.GradCAM(layer=5)),
    "undecoded, layer 5": nbsal.GradCAM(layer=5),
    "layer 0": nbsal.GradCAM(layer=0),
}
many = nbsal.compare(subject, methods, [s.text])
for name, found in many.items():
    print(f"{name:20}", ", ".join(found[0].top(5)["token"]))

# %% [markdown]
# Now with a text of yours, or with your own model: `nbsal.load("path/or/hub-id", lm="its pretrained checkpoint")`.

# %%
explain("Nobody will call this film boring.")
