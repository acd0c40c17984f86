// The line under a reply: what is under the pointer or the keys, on either side.

import type { AnswersTraits, SourceCard } from "../page/answer-traits";
import type { Context } from "../page/context";
import {
  countOf,
  nameOf,
  percentOf,
  type RankedWord,
  type Readout,
  readoutLine,
  scoreOf,
  scoreWords,
  sumOf,
  UNSCORED,
} from "../text/readout";
import type { Explained } from "./answer-choice";
import type { AnswerData } from "./answer-data";

const HINT = "Choose words of the reply, or of a source.";

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
  const line = readoutLine(HINT);
  const said = new Map<object, (Node | string)[]>();
  /** Say something about a text, or nothing any more. */
  const say = (of: object, words: (Node | string)[] | null) => {
    said.delete(of);
    if (words) said.set(of, words);
    line.setHint([...said.values()].at(-1) ?? [HINT]);
  };
  const describeSource = (words: RankedWord[], pieces: number[], source: SourceCard) => {
    if (!words.length) return say(source, null);
    const { now, largest, subject } = surroundings();
    const sum = sumOf(words);
    const [verb, target] = sum < 0 && now?.rival ? ["scores for", `\u201c${now.rival}\u201d`] : [side(sum), subject];
    const scored = Math.abs(sum) > UNSCORED * largest;
    const share = `${percentOf(sum, largest)} \u00b7 ${scoreOf(sum, largest, pieces)}`;
    const score = scored ? ` \u00b7 ${verb} ${target}, ${share}` : " \u00b7 score 0";
    say(source, [nameOf(words), ` in ${source.name}`, scoreWords(score)]);
  };
  const reply = {
    draw(words: RankedWord[], { largest }: { largest: number }) {
      const { data } = surroundings();
      if (!words.length || !data) return say(reply, null);
      const sum = sumOf(words);
      const first = words[0].token - data.reply.start;
      const rivals = get("certainty") ? data.reply.next[first] : "";
      const chance = `${data.reply.chances[first] ?? ""}${rivals && `; else ${rivals}`}`;
      const depends = get("source_selection").length > 0 && largest > 0;
      const rest = depends
        ? `${side(sum)} it, ${percentOf(sum, largest)}`
        : words.length === 1
          ? chance
          : countOf(words);
      say(reply, [nameOf(words), ` in ${data.reply.name}`, scoreWords(` \u00b7 ${rest}`)]);
    },
    setHint() {},
  };
  return { node: line.node, say, describeSource, reply: reply as unknown as Readout };
}

const side = (sum: number) => (sum < 0 ? "scores against" : "scores for");
