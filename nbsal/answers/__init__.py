"""Why a model replied what it replied: sources, units, scores of every token of a reply, and their judgement."""
