// The first check of an explanation, as in Python: which words are hidden, and what their hiding does.

import { type Candidate, candidates, contentCandidates, proposed, type Word } from "./candidates";

export const PASSES = 3;
const LEAST_GROUP = 2; // words of the set that is hidden, where there are so many
const REDRAWN = 4; // times that random words are drawn for each draw that must differ from the others
const NOTABLE = 0.02; // change of a probability that counts, or share of a value
const MATTERS = 0.005; // the same by which a word adds to what hiding the others of its set does
const SURE = 1e-9; // probabilities closer to 0 or 1 have the same log odds

/** The words that can be hidden. */
export interface HiddenWords {
  words: Word[];
  functionWords: ReadonlySet<string>;
  /** Whether the words that matter speak against what is explained: hiding them raises its value. */
  raises: boolean;
  /** Shuffles numbers of words, the same way for the same text. */
  shuffle(numbers: number[]): number[];
}

/** Which words are hidden: the strongest candidate, a group of them, and as many others at random. */
export interface Plan {
  candidates: Candidate[];
  group: number[];
  /** The numbers of the words of each set; the first sets are of candidates. */
  sets: number[][];
  /** How many sets are of candidates. */
  tried: number;
  /** Words of each random set. */
  drawn: number;
}

export function planned({ words, functionWords, raises, shuffle }: HiddenWords): Plan {
  const isMain = ({ score }: Word) => score < 0 === raises;
  const all = candidates(words, raises);
  const main = all.filter(isMain);
  if (!main.length) return { candidates: all, group: [], sets: [], tried: 0, drawn: 0 };
  const content = contentCandidates(words, functionWords, raises).filter(isMain);
  const side = content.length ? content : main;
  const chosen = side.slice(0, Math.max(proposed(side).length, LEAST_GROUP));
  const isFirst = ({ words: [place] }: Candidate) => place === main[0].words[0];
  const tried = [main[0], ...chosen.filter((word) => !isFirst(word))];
  const group = chosen.map((word) => (isFirst(word) ? 0 : tried.indexOf(word)));
  const placesOf = (numbers: number[]) => numbers.flatMap((number) => tried[number].words).sort((a, b) => a - b);
  const sets = [[0], ...(group.length > 1 || group[0] ? [group] : [])].map(placesOf);
  const drawn = placesOf(group).length;
  const named = new Set(tried.flatMap((word) => word.words));
  const others = [...words.keys()].filter((number) => !named.has(number));
  const random = randomSets(others, drawn, PASSES - sets.length, shuffle);
  return { candidates: tried, group, sets: [...sets, ...random], tried: sets.length, drawn };
}

/** Different random sets of some numbers. */
function randomSets(numbers: number[], size: number, count: number, shuffle: HiddenWords["shuffle"]): number[][] {
  const sets = new Map<string, number[]>();
  if (numbers.length < size) return [];
  for (let i = 0; i < REDRAWN * count && sets.size < count; i++) {
    const set = shuffle(numbers)
      .slice(0, size)
      .sort((a, b) => a - b);
    sets.set(set.join(), set);
  }
  return [...sets.values()];
}

/** What the model does: its prediction ("" where nothing is decided), and the value of what is explained. */
export interface Outcome {
  prediction: string;
  value: number;
}

/** What hiding words does to a decision; values are probabilities if `probable`. */
export class Check {
  /** The outcome without the strongest candidate. */
  readonly alone: Outcome;
  /** The candidates that are named: none, the strongest one, or the group. */
  readonly named: number[];
  readonly together: Outcome;
  readonly random: Outcome[];

  constructor(
    readonly plan: Plan,
    readonly whole: Outcome,
    outcomes: Outcome[],
    readonly probable: boolean,
    readonly raises: boolean,
  ) {
    const { group, tried } = plan;
    const [strongest, several] = tried ? [outcomes[0], outcomes[tried - 1]] : [whole, whole];
    this.alone = strongest;
    const aloneDoes = !this.adds(several, strongest) && (group.includes(0) || this.counts(strongest));
    const named = this.turns(strongest) || aloneDoes ? [0] : group;
    [this.named, this.together] = [tried ? named : [], named === group ? several : strongest];
    this.random = outcomes.slice(tried);
  }

  get supported() {
    return this.counts(this.together) && !this.asMuch;
  }

  /** The number of random sets whose hiding does as much as that of the named words. */
  get asMuch() {
    return this.random.filter((outcome) => this.effect(outcome) >= this.effect(this.together)).length;
  }

  /** The random set that does most. */
  get largestRandom(): Outcome | undefined {
    return [...this.random].sort((first, second) => this.effect(second) - this.effect(first))[0];
  }

  /** How far hiding moves the value in the direction that is expected; of probabilities the log odds. */
  effect({ value }: Outcome) {
    const [before, after] = [this.whole.value, value].map((each) => (this.probable ? logOdds(each) : each));
    return this.raises ? after - before : before - after;
  }

  /** Whether the decision is another one. */
  turns = ({ prediction }: Outcome) => Boolean(prediction) && prediction !== this.whole.prediction;

  /** Whether a change is large enough to be mentioned. */
  moves = (outcome: Outcome) =>
    this.turns(outcome) || Math.abs(outcome.value - this.whole.value) >= NOTABLE * this.scale;

  /** Whether a change is a reason: large enough, and in the direction that is expected. */
  counts = (outcome: Outcome) => this.effect(outcome) > 0 && this.moves(outcome);

  /** Whether hiding more words does more than hiding fewer of them. */
  private adds(more: Outcome, fewer: Outcome) {
    const gain = (this.raises ? 1 : -1) * (more.value - fewer.value);
    return gain >= MATTERS * this.scale || (this.turns(more) && !this.turns(fewer));
  }

  private get scale() {
    return this.probable ? 1 : Math.abs(this.whole.value);
  }
}

function logOdds(probability: number) {
  const clipped = Math.min(Math.max(probability, SURE), 1 - SURE);
  return Math.log(clipped / (1 - clipped));
}
