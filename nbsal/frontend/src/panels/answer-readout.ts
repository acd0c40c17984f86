// The line under a reply: what is under the pointer or the keys, on either side.

import type { AnswersTraits, SourceCard } from "../page/answer-traits";
import type { Context } from "../page/context";
import {
  fill,
  isZero,
  nameOf,
  type RankedWord,
  type Readout,
  readoutLine,
  scoreWords,
  sideOf,
  sumOf,
} from "../text/readout";
import type { Explained } from "./answer-choice";
import type { AnswerData } from "./answer-data";

interface Surroundings {
  data: AnswerData | null;
  now: Explained | null;
  /** The score with full colour. */
  largest: number;
  /** What is explained, in words. */
  subject: string;
}

/** One line for all texts: what was pointed at last, else the hint. */
export function answerReadout({ get }: Context<AnswersTraits>, surroundings: () => Surroundings) {
  const words = get("_readout");
  const line = readoutLine(words);
  const said = new Map<object, (Node | string)[]>();
  /** Say something about a text, or nothing any more. */
  const say = (of: object, next: (Node | string)[] | null) => {
    said.delete(of);
    if (next) said.set(of, next);
    line.setHint([...said.values()].at(-1) ?? [words.hint]);
  };
  const describeSource = (named: RankedWord[], source: SourceCard) => {
    if (!named.length) return say(source, null);
    const { now, largest, subject } = surroundings();
    const sum = sumOf(named);
    const side =
      sum < 0 && now?.rival
        ? sideOf(words, -sum, largest, `\u201c${now.rival}\u201d`)
        : sideOf(words, sum, largest, subject);
    say(source, [
      nameOf(named),
      ` in ${source.name}`,
      scoreWords(` \u00b7 ${isZero(sum, largest) ? words.zero : side}`),
    ]);
  };
  const reply = {
    draw(named: RankedWord[], { largest }: { largest: number }) {
      const { data } = surroundings();
      if (!named.length || !data) return say(reply, null);
      const first = named[0].token - data.reply.start;
      const rivals = get("certainty") ? data.reply.next[first] : "";
      const chance = `${data.reply.chances[first] ?? ""}${rivals && `; else ${rivals}`}`;
      const depends = get("source_selection").length > 0 && largest > 0;
      const several = named.length > 1 ? fill(words.words, named.length) : chance;
      const rest = depends ? sideOf(words, sumOf(named), largest, "it") : several;
      say(reply, [nameOf(named), ` in ${data.reply.name}`, scoreWords(` \u00b7 ${rest}`)]);
    },
    setHint() {},
  };
  return { node: line.node, say, describeSource, reply: reply as unknown as Readout };
}
