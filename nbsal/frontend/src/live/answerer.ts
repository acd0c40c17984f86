// What answers the questions of a live page, in a worker or in the page: it downloads the model with the first one.

import { download, UnusableModel } from "./download";
import { Engine } from "./engine";
import type { Answer, Question } from "./messages";
import { UnreadableText } from "./wordpiece";

/** A function that answers questions; `send` is told each answer, and how much has been downloaded. */
export function answerer(send: (answer: Answer) => void) {
  let engine: Promise<Engine> | null = null;
  return async ({ number, folder, ...asked }: Question) => {
    try {
      engine ??= download(folder, (share) => send({ number, share })).then(
        ({ manifest, bytes, tables }) => new Engine(manifest, bytes, tables),
      );
      const { parts } = asked;
      if ("hidden" in asked) send({ number, probabilities: (await engine).without(parts, asked.hidden) });
      else send({ number, explained: (await engine).explain(parts, asked.requests) });
    } catch (error) {
      await engine?.catch(() => {
        engine = null; // try again with the next question
      });
      send({ number, error: errorText(error) });
    }
  };
}

/** An error in words for the reader; any other than those of a text is the model's, whose files are not as written. */
const errorText = (error: unknown) =>
  error instanceof UnreadableText || error instanceof UnusableModel
    ? error.message
    : `The model beside this page cannot be run. Write the page again. (${error})`;
