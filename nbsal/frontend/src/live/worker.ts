// The worker of a live page.

import { answerer } from "./answerer";
import type { Question } from "./messages";

const page = globalThis as unknown as Worker; // which is what this worker sends its answers to
const answer = answerer((message) => page.postMessage(message));

page.onmessage = ({ data }: MessageEvent<Question>) => answer(data);
