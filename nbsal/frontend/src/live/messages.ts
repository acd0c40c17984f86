// What a live page and its worker send each other.

import type { Explained, Request } from "./engine";

export interface Question {
  number: number;
  /** The address of the model's files. */
  folder: string;
  parts: string[];
  requests: Request[];
}

/** The answer to the question with the same number, or how much of the model has been downloaded for it. */
export interface Answer {
  number: number;
  share?: number;
  explained?: Explained;
  error?: string;
}
