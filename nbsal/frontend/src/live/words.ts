// Which tokens begin a word: words as Python cuts them, so that both sum the same tokens.

import type { Piece } from "./wordpiece";

const LETTER = String.raw`(?:(?!\p{Script=Han})[\p{L}\p{N}_]\p{M}*)`;
const WORD = new RegExp(String.raw`\p{Script=Han}\p{M}*|${LETTER}+(?:['\u2019]${LETTER}+)*`, "uy");
const SPACE = /\p{White_Space}/u;
const LONGEST_SYMBOL = 200; // UTF-16 units of one visible symbol

interface Span {
  start: number;
  end: number;
}

/** The words of a text: runs of letters and digits, ideographs, and single visible symbols. */
export function wordsOf(text: string): Span[] {
  const symbols = new Intl.Segmenter("en", { granularity: "grapheme" });
  const words: Span[] = [];
  for (let start = 0; start < text.length; ) {
    WORD.lastIndex = start;
    const match = WORD.exec(text);
    const character = String.fromCodePoint(text.codePointAt(start) as number);
    if (!match && SPACE.test(character)) {
      start += character.length;
      continue;
    }
    const [first] = symbols.segment(text.slice(start, start + LONGEST_SYMBOL));
    const end = start + (match ? match[0] : first.segment).length;
    words.push({ start, end });
    start = end;
  }
  return words;
}

/** For each token whether it begins a word; tokens belong to the word in which they begin, or to the next one. */
export function beginsWord(pieces: Piece[], parts: string[]): boolean[] {
  const begins = pieces.map(() => true);
  for (const [part, text] of parts.entries()) {
    const words = wordsOf(text);
    const seen = new Set<number>();
    let word = 0;
    for (const [i, piece] of pieces.entries()) {
      if (piece.part !== part || piece.special || !words.length) continue;
      while (word < words.length - 1 && words[word].end <= piece.start) word++;
      begins[i] = !seen.has(word);
      seen.add(word);
    }
  }
  return begins;
}
