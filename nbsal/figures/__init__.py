"""Figures: every figure and table of the three papers, drawn from results.

A function is named after what it shows; the docstring of each module says which figures and tables of its paper each
one draws, and `python -m nbsal.figures --paper decoding` makes all of them by number. Functions take results (frames,
saliencies, clouds, head studies and masks) and return a `matplotlib.figure.Figure`, or a styled frame for a table.

decoding_saliency   Hou and Castanon 2023; `pages.supplement` highlights a whole data set on one page
relevance           Chefer et al. 2021, its part on text
mask_lrp            Song et al. 2024; with `flow`, its Figure 2, and `checkpoints`, its Tables 5 and 6
"""
