"""Words that carry grammar rather than content: where nothing is measured, they are not named before others are.

Only English ones are listed; of other languages punctuation alone is left out. Negations are content.
"""

FUNCTION_WORDS = frozenset("""
    a an the this that these those such
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one who whom whose which what someone something
    am is are was were be been being have has had having do does did doing will would shall should can could may might
    must i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've
    we'd we'll they're they've they'd they'll that's there's here's what's who's let's
    and or if then as than because while when where how why whether though although since until unless
    of to in on at by for from with into onto about over under between among through during before after above below
    against across along around behind beside beyond within upon toward towards per via up down out off
    there here also so s d m ve re ll
""".split())  # fmt: skip


def is_function_word(text: str) -> bool:
    """Whether a word is punctuation, or one of the listed words.

    >>> is_function_word("The"), is_function_word("!"), is_function_word("not")
    (True, True, False)
    """
    plain = text.casefold().replace("’", "'").strip("'")
    return not any(map(str.isalnum, plain)) or plain in FUNCTION_WORDS
