// What is chosen of an answer, and what is explained by it: the whole reply, words of it, or a token and not its rival.

import type { AnswerPart, AnswersTraits } from "../page/answer-traits";
import type { Context } from "../page/context";
import { scoresOf } from "../page/decode";
import type { ExplanationTraits } from "../page/traits";
import { type AnswerData, contentOf, sumRows } from "./answer-data";

type AnswersContext = Context<AnswersTraits>;

/** What is explained: the tokens, what each token of prompt and reply adds to them, and the rival. */
export interface Explained {
  tokens: number[];
  scores: Float64Array;
  rival: string;
}

/** A view of the context in which positions of the reply are those in prompt and reply. */
export function replyContext(context: AnswersContext, start: () => number): Context<ExplanationTraits> {
  const { get, set } = context;
  return {
    ...context,
    get: (name: keyof ExplanationTraits) =>
      name === "selection" ? get("selection").map((token) => token + start()) : get(name),
    set(traits: Partial<ExplanationTraits>) {
      if (!traits.selection) return set(traits as Partial<AnswersTraits>);
      selectReply(
        context,
        traits.selection.map((i) => i - start()),
      );
    },
  } as unknown as Context<ExplanationTraits>;
}

/** Select tokens of the reply; a rival stays only with the token that it rivals. */
export function selectReply({ get, set }: AnswersContext, selection: number[]) {
  const at = get("at");
  const leaves = get("rival") !== null && at !== null && !selection.includes(at);
  set({
    selection,
    ...(get("source_selection").length ? { source_selection: [] } : {}),
    ...(leaves ? { rival: null, at: null } : {}),
  });
}

/** Whether something is said of just that. */
export const isOf = (part: AnswerPart, { tokens, rival }: Pick<Explained, "tokens" | "rival">) =>
  (part.rival ?? "") === rival && String(part.tokens) === String(tokens);

/** What Python says of what is explained, or of the smallest part of the reply that holds it. */
export function partOf({ get }: AnswersContext, { reply }: AnswerData, { tokens, rival }: Explained): AnswerPart {
  const chosen = get("_chosen") as AnswerPart;
  if (chosen.tokens && isOf(chosen, { tokens, rival })) return chosen;
  const holding = reply.parts.filter((part) => tokens.every((token) => part.tokens.includes(token)));
  return holding.sort((a, b) => a.tokens.length - b.tokens.length)[0] ?? reply.parts[0];
}

/** What the view speaks of now; null while Python has yet to explain several tokens as one. */
export function explained({ get, live }: AnswersContext, data: AnswerData): Explained | null {
  const size = data.tokens.length;
  const own = get("_own_scores");
  const content = contentOf(data);
  const selected = get("selection").filter((token) => token in data.reply.logprobs);
  const tokens = selected.length ? selected : content;
  const ownScores = () => scoresOf(own.scores as DataView, size)[0];
  if (get("rival") !== null && own.rival)
    return { tokens: own.tokens as number[], scores: ownScores(), rival: own.rival };
  const isOwn = !own.rival && own.tokens && String(own.tokens) === String(tokens);
  if (isOwn) return { tokens, scores: ownScores(), rival: "" };
  if (live && !data.reply.linear && tokens.length > 1) return null;
  return { tokens, scores: sumRows(data.rows, tokens, size), rival: "" };
}
