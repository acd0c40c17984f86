"""How far a call goes through the package, and how many nouns it has.

A program is read one call at a time and in the words that it uses, so these are counted; lines are printed beside them.
"""
