"""Every figure and table of two papers and of the part on text of Chefer et al. 2021a, drawn from results.

Each function is named after what it shows, and each module lists which figures and tables of its paper it draws.
`python -m nbsal.figures --paper decoding` draws all of them, by number. Functions take results (data frames,
saliencies, clouds, head studies and masks) and return a `matplotlib.figure.Figure`, or a styled frame for a table.

decoding_saliency   Hou and Castanon 2023; `pages.supplement` highlights a whole data set on one page
relevance           Chefer et al. 2021a, the part on text
mask_lrp            Song et al. 2024; `flow` draws its Figure 2, and `checkpoints` its Tables 5 and 6

`explainers` has the explainers of the figures by their labels, `store` evaluates them and keeps the results, `printed`
puts the papers' numbers beside them, and `claims` tests what the papers claim.
"""
