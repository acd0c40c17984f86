// WordPiece as Python's tokenizer does it, by tables of what it makes of every character, with places in the text.

import type { Tables } from "./manifest";

const HANGUL = [0xac00, 0xd7a3]; // syllables, which are taken apart by a rule that no version of Unicode changes
const REMOVED = 1;
const SPACE = 2;
const SEPARATE = 4; // a word of its own
const MOVING = 8;
const LAST = 0x110000;
/** The most UTF-16 units of a text. */
const LONGEST = 250_000;

/** A text that the page cannot read as Python does, or that has nothing to read. */
export class UnreadableText extends Error {}

export interface Piece {
  id: number;
  name: string;
  /** Where it is in its part, in UTF-16 units. */
  start: number;
  end: number;
  part: number;
  special: boolean;
  type: number;
}

/** A character after normalisation, and where it comes from. */
interface Character {
  text: string;
  start: number;
  end: number;
}

export class WordPiece {
  private readonly ids: Map<string, number>;
  private readonly kinds: Uint8Array;
  private readonly changed: Map<string, string[]>;
  private readonly added: RegExp;
  private readonly special: Set<number>;

  constructor(private readonly tables: Tables) {
    this.ids = new Map(tables.vocabulary.map((token, id) => [token, id]));
    this.kinds = new Uint8Array(LAST);
    const kinds: [number[], number][] = [
      [tables.removed, REMOVED],
      [tables.spaces, SPACE],
      [tables.separate, SEPARATE],
      [tables.moving, MOVING],
    ];
    for (const [ranges, kind] of kinds) {
      for (let i = 0; i < ranges.length; i += 2) {
        for (let code = ranges[i]; code < ranges[i] + ranges[i + 1]; code++) this.kinds[code] |= kind;
      }
    }
    this.changed = new Map([...tables.changed].map((character, i) => [character, [...tables.into[i]]]));
    const longestFirst = Object.keys(tables.added).sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.added = new RegExp(escaped.join("|") || "(?!)", "gu");
    this.special = new Set(tables.special);
  }

  /** The tokens of one or two parts, with those of structure, and how many were left out at the end. */
  encode(parts: string[], longest: number): { pieces: Piece[]; dropped: number } {
    const { first, separator } = this.tables;
    const content = parts.map((text, part) => this.pieces(text, part));
    const room = longest - parts.length - 1;
    const size = content.reduce((sum, pieces) => sum + pieces.length, 0);
    if (size > room && parts.length > 1) {
      throw new UnreadableText("The texts are longer than the model reads at once. Shorten them.");
    }
    if (!content.some((pieces) => pieces.some(({ special }) => !special))) {
      throw new UnreadableText("There is nothing to score in this text. Type some words.");
    }
    const dropped = Math.max(0, size - room);
    const pieces = [this.structure(first, 0)];
    for (const [part, tokens] of content.entries()) {
      pieces.push(...tokens.slice(0, tokens.length - dropped), this.structure(separator, part));
    }
    return { pieces, dropped };
  }

  /** The tokens of a text. */
  private pieces(text: string, part: number): Piece[] {
    if (text.length > LONGEST) throw new UnreadableText(`The text has more than ${LONGEST} characters. Shorten it.`);
    if (/\p{Surrogate}/u.test(text)) throw new UnreadableText("The text has half of a character (a lone surrogate).");
    const pieces: Piece[] = [];
    let end = 0;
    const add = (from: number, to: number) => {
      for (const word of this.words(text.slice(from, to), from)) pieces.push(...this.piecesOf(word, part));
    };
    for (const match of text.matchAll(this.added)) {
      const [id, start] = [this.tables.added[match[0]], match.index];
      add(end, start);
      end = start + match[0].length;
      pieces.push({ id, name: match[0], start, end, part, special: this.special.has(id), type: part });
    }
    add(end, text.length);
    return pieces;
  }

  /** The words of a normalised text. */
  private words(text: string, offset: number): Character[][] {
    const words: Character[][] = [];
    let word: Character[] = [];
    const close = () => {
      if (word.length) words.push(word);
      word = [];
    };
    for (const character of this.normalised(text, offset)) {
      const kind = this.kinds[character.text.codePointAt(0) as number];
      if (character.text === " " || kind & SEPARATE) close();
      if (character.text === " ") continue;
      word.push(character);
      if (kind & SEPARATE) close();
    }
    close();
    return words;
  }

  /** The characters as the tokenizer writes them. */
  private normalised(text: string, offset: number): Character[] {
    const characters: Character[] = [];
    let start = offset;
    for (const character of text) {
      const code = character.codePointAt(0) as number;
      const end = start + character.length;
      const kind = this.kinds[code];
      if (kind & SPACE) {
        characters.push({ text: " ", start, end });
      } else if (!(kind & REMOVED)) {
        const isSyllable = code >= HANGUL[0] && code <= HANGUL[1];
        for (const written of isSyllable ? character.normalize("NFD") : (this.changed.get(character) ?? [character])) {
          if (this.kinds[written.codePointAt(0) as number] & MOVING) {
            throw new UnreadableText(`This page cannot read the character ${character} as the model does; Python can.`);
          }
          characters.push({ text: written, start, end });
        }
      }
      start = end;
    }
    return characters;
  }

  /** The longest pieces of the vocabulary, from the start of a word on; an unknown word is one token. */
  private piecesOf(word: Character[], part: number): Piece[] {
    const { prefix, longest_word, unknown, vocabulary } = this.tables;
    const [start, end] = [word[0].start, word[word.length - 1].end];
    const whole = [{ id: unknown, name: vocabulary[unknown], start, end, part, special: false, type: part }];
    if (word.length > longest_word) return whole;
    const pieces: Piece[] = [];
    for (let from = 0; from < word.length; ) {
      let to = word.length;
      let id: number | undefined;
      for (; to > from; to--) {
        const text = word.slice(from, to).map((character) => character.text);
        id = this.ids.get((from ? prefix : "") + text.join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) return whole;
      const [start, end] = [word[from].start, word[to - 1].end];
      pieces.push({ id, name: vocabulary[id], start, end, part, special: false, type: part });
      from = to;
    }
    return pieces;
  }

  private structure(id: number, type: number): Piece {
    return { id, name: this.tables.vocabulary[id], start: 0, end: 0, part: type, special: true, type };
  }
}
