"""What a game says in words: its finding, and the decision at each step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.evaluation.results import Results
from nbsal.methods.facts import label_of
from nbsal.render.headline import ChangeRow, Phrase, change_row, confidence, percent, phrases
from nbsal.render.scores import score_text
from nbsal.widgets.content.token_games import RANDOM_NAME, GameCurve, TokenGames, turning_step

RELIABLE = 0.05  # p value below which one explainer counts as better than another
VERBS = {"hiding": "hidden", "revealing": "revealed"}
CLASSES = 5  # that are listed beside the text
ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def step_phrases(games: TokenGames, game: str, count: int) -> list[Phrase]:
    """The headline after `count` words were hidden or revealed, in pieces."""
    return (_decision_phrases if games.probable else _output_phrases)(games, game, games.step(count))


def finding(games: TokenGames, game: str) -> str:
    """What the curves of a game show, in one sentence without a full stop."""
    if not games.probable:
        return _output_finding(games, game)
    return _hiding_finding(games) if game == "hiding" else _revealing_finding(games)


def results_finding(results: Results, game: str) -> str:
    """Which explainer is best at a game over many texts, and how random orders compare."""
    frame = results.auc()
    areas = frame[frame["game"] == game].set_index("explainer")["auc"]
    names = [name for name in results.explainers if not is_random(name)]
    best = results.best(game, names or results.explainers)
    what = f" {'hides' if game == 'hiding' else 'reveals'} best" if len(names) > 1 else ""
    text = f"{curve_name(best)}{what}: mean {results.metric.value} {percent(areas[best], 0)}"
    for name in results.explainers if names else ():
        if is_random(name):
            text += f", {curve_name(name)} {percent(areas[name], 0)}"
    rivals = [curve_name(name) for name in names if name != best and not _is_better(results, best, name, game)]
    return text + (f"; {' and '.join(rivals)} {plural_verb(rivals)} not reliably worse" if rivals else "")


def is_random(name: str) -> bool:
    """Whether a curve is the baseline of random orders, of which each model may have one."""
    return name in (RANDOM_NAME, "random") or name.startswith("random, ")


def curve_name(name: str) -> str:
    """The name of a curve on screen.

    >>> curve_name("decoded-gradcam"), curve_name("random, demo/reviews")
    ('Decoded Grad-CAM', 'random order, demo/reviews')
    """
    return name.replace("random", RANDOM_NAME, 1) if is_random(name) and name != RANDOM_NAME else label_of(name)


def plural_verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def step_tag(games: TokenGames, game: str, step: int) -> str:
    """The step on the curve in a few words: "4 words hidden: positive 7.2 %"."""
    value = float(games.outcomes[game][step, games.label])
    amount = percent(value) if games.probable else score_text(value)
    return f"{_words(games.steps[step])} {VERBS[game]}: {games.labels[games.label]} {amount}"


def step_hint(games: TokenGames, game: str, step: int) -> list[str]:
    """The word that was hidden or revealed last, and the next one, each after what is said of it."""
    count, names = games.steps[step], games.names
    last = [f"{VERBS[game].capitalize()} last: ", names[count - 1]] if count else []
    following = [" \u00b7 next: " if count else "Next: ", names[count]] if count < len(names) else []
    return last + following


def step_changes(games: TokenGames, game: str, step: int) -> list[ChangeRow]:
    """The classes that are the likeliest at any step, with all words and at this step."""
    if not games.probable:
        return []
    outcomes = games.outcomes[game]
    before, now = outcomes[0 if game == "hiding" else -1], outcomes[step]
    listed = sorted(np.argsort(-outcomes.max(0), kind="stable")[:CLASSES], key=lambda k: -before[k])
    return [change_row(games.labels[k], before[k], now[k]) for k in listed]


def results_answers(curves: Sequence[GameCurve], game: str) -> list[str]:
    """What the curves of many texts say at each step of the first one."""
    answers = []
    for share in curves[0].fractions:
        values = [
            f"{curve_name(curve.name)} {percent(float(np.interp(share, curve.fractions, curve.values)), 0)}"
            for curve in curves
        ]
        answers.append(f"With {share_tag(share, game)}: {', '.join(values)}.")
    return answers


def share_tag(share: float, game: str) -> str:
    return f"{percent(share, 0)} of the tokens {VERBS[game]}"


def axis_label(game: str, noun: str = "word") -> str:
    what = "words" if noun == "word" else f"share of the {noun}s"
    return f"{what} {VERBS[game]}, highest score first"


def quantity(games: TokenGames) -> str:
    """What the curves measure."""
    label = games.labels[games.label]
    return f"probability of {label}" if games.probable else f"model’s output for {label}"


def footnote(game: str, noun: str = "word") -> str:
    """How to judge a curve of hidden or revealed words, or tokens."""
    better, bare = ("lower", "end") if game == "hiding" else ("higher", "start")
    empty = f"; its {bare} is the prediction for an empty text" if noun == "word" else ""
    return f"the {better} the curve, the better the {noun}s were chosen{empty}"


def _is_better(results: Results, first: str, second: str, game: str) -> bool:
    frame = results.paired(first, second)
    row = frame[frame["game"] == game].iloc[0]
    return bool(row["margin"] > 0 and row["p"] < RELIABLE)


def _decision_phrases(games: TokenGames, game: str, step: int) -> list[Phrase]:
    outcomes, labels = games.outcomes[game], games.labels
    whole = 0 if game == "hiding" else len(outcomes) - 1
    decisions = outcomes.argmax(1)
    now, before = decisions[step], decisions[whole]
    still = again = ""
    if now == before and game == "hiding" and step:
        changed = bool((decisions[:step] != now).any())
        still, again = ("", " again") if changed else ("still ", "")
    reference = f"{'' if now == before else labels[before] + ', '}{confidence(outcomes[whole, before])}"
    bare = ", as for an empty text" if step == len(outcomes) - 1 - whole != whole else ""
    reminder = ""
    if step != whole:
        reminder = f" — it was {reference}" if game == "hiding" else f" — with all words {reference}"
    turning = "" if bare else _turning(games, decisions[: step + 1])
    start, share = f"{_opening(games, game, step)}: {still}", confidence(outcomes[step, now])
    return phrases(start, ("class", labels[now]), f"{again}, {share}{bare}", reminder, f".{turning}")


def _output_phrases(games: TokenGames, game: str, step: int) -> list[Phrase]:
    outcomes = games.outcomes[game][:, 0]
    whole = 0 if game == "hiding" else len(outcomes) - 1
    reference = score_text(outcomes[whole])
    ending = f"; it was {reference}." if game == "hiding" else f"; with all words {reference}."
    start = f"{_opening(games, game, step)}: the output for "
    end = "." if step == whole else ending
    return phrases(start, ("class", games.labels[0]), f" is {score_text(outcomes[step])}", end)


def _opening(games: TokenGames, game: str, step: int) -> str:
    count, total = games.steps[step], games.steps[-1]
    if not count:
        return "The whole text" if game == "hiding" else "Without any word"
    if count == total > 1:
        return f"With all {_words(count)}{' hidden' if game == 'hiding' else ''}"
    return f"After {game} {_words(count)}"


def _turning(games: TokenGames, decisions: Any) -> str:
    """Which word brought the last change of the decision."""
    changes = np.flatnonzero(np.diff(decisions))
    if not len(changes):
        return ""
    first, last = games.steps[changes[-1]] + 1, games.steps[changes[-1] + 1]
    return f" The {_ordinal(last)} word turned it." if first == last else f" Words {first} to {last} turned it."


def _ordinal(number: int) -> str:
    if number < len(ORDINALS):
        return ORDINALS[number]
    suffix = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _hiding_finding(games: TokenGames) -> str:
    outcomes = games.outcomes["hiding"]
    decisions, turn = outcomes.argmax(1), turning_step("hiding", outcomes)
    random_turn = _random_turn(games, "hiding")
    if turn is None:
        tried = "" if games.steps[-1] < len(games.steps) else f" in {len(games.steps) - 1} steps"
        text = f"Hiding words never turns the decision from {games.labels[decisions[0]]}{tried}"
        if games.random is None:
            return text
        if random_turn is None:
            return f"{text}, nor do random orders, on average"
        count = _range(games.random.steps, random_turn)
        return f"{text}; random orders, on average, do after {count} word{'' if count == '1' else 's'}"
    first = "first " if bool((decisions[turn:] != decisions[turn]).any()) else ""
    text = f"The decision {first}turns to {games.labels[decisions[turn]]} after {_words(games.steps[turn])}"
    return text + _random_clause(games, random_turn, "never do")


def _revealing_finding(games: TokenGames) -> str:
    outcomes = games.outcomes["revealing"]
    decisions, enough = outcomes.argmax(1), turning_step("revealing", outcomes)
    label = games.labels[decisions[-1]]
    if not enough:
        text = f"The decision is {label} even without a word"
        if games.label != decisions[-1] or games.random is None:
            return text
        curve, baseline = games.curves("revealing")
        return f"{text}: on average {percent(curve.area, 0)}, in random orders {percent(baseline.area, 0)}"
    count = games.steps[enough]
    if enough == len(decisions) - 1 and count > 1:
        text = f"{'Both' if count == 2 else f'All {count}'} words are needed for {label}"
    else:
        text = f"{_words(count)} {'is' if count == 1 else 'are'} enough for {label}"
    return text + _random_clause(games, _random_turn(games, "revealing"), "need none")


def _output_finding(games: TokenGames, game: str) -> str:
    label, hiding = games.labels[0], game == "hiding"
    half = turning_step(game, games.outcomes[game])
    if half is None:
        return f"{'Hiding words does not lower' if hiding else 'Revealing words does not raise'} the output for {label}"
    count = games.steps[half]
    verb = ("hold" if hiding else "bring") + ("s" if count == 1 else "")
    text = f"{_words(count)} {verb} half of the output for {label}"
    return text + _random_clause(games, _random_turn(games, game), "never get there")


def _random_turn(games: TokenGames, game: str) -> int | None:
    """The step at which random orders turn, on average."""
    return None if games.random is None else turning_step(game, games.random.outcomes[game].mean(0))


def _random_clause(games: TokenGames, step: int | None, never: str) -> str:
    """How many words random orders need, once they are played."""
    if games.random is None:
        return ""
    if not step:
        return f"; random orders, on average, {never}"
    return f"; random orders, on average, need {_range(games.random.steps, step)}"


def _range(steps: Sequence[int], step: int) -> str:
    """The numbers of words after the step before and up to this one: random orders turn at one of them."""
    first, last = steps[step - 1] + 1, steps[step]
    return str(last) if first == last else f"{first} to {last}"


def _words(count: int) -> str:
    return f"{count} word{'' if count == 1 else 's'}"
