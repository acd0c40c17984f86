// What a live page and its worker send each other.

import type { Explained, Request } from "./engine";

/** What is asked about a text: its explanations, or the classes without its `hidden` tokens. */
export type Asked = { parts: string[] } & ({ requests: Request[] } | { hidden: number[] });

export type Question = Asked & {
  number: number;
  /** The address of the model's files. */
  folder: string;
};

/** The answer to the question with the same number, or how much of the model has been downloaded for it. */
export interface Answer {
  number: number;
  share?: number;
  explained?: Explained;
  /** The probability of each class. */
  probabilities?: number[];
  error?: string;
}
