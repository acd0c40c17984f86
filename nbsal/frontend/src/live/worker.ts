// The worker of a live page: it downloads the model with the first question, and answers one after the other.

import { download } from "./download";
import { Engine } from "./engine";
import type { Answer, Question } from "./messages";

const page = globalThis as unknown as Worker; // which is what this worker sends its answers to
let engine: Promise<Engine> | null = null;

page.onmessage = async ({ data }: MessageEvent<Question>) => {
  const { number, folder, parts, requests } = data;
  const send = (answer: Omit<Answer, "number">) => page.postMessage({ number, ...answer });
  try {
    engine ??= download(folder, (share) => send({ share })).then(
      ({ manifest, bytes, tables }) => new Engine(manifest, bytes, tables),
    );
    send({ explained: (await engine).explain(parts, requests) });
  } catch (error) {
    await engine?.catch(() => {
      engine = null; // try again with the next question
    });
    send({ error: error instanceof Error ? error.message : String(error) });
  }
};
