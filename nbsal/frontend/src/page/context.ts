// Types of a view's surroundings: its model, the context that `mount` makes of it, a binding to one trait.

import type { MethodChoice } from "./traits";

/** A message from Python: the reply to the request with the same id. */
export interface Message {
  id: string;
  reply?: unknown;
  error?: string;
}

/** The part of a host's widget manager that the views use. */
interface WidgetManager {
  kernel?: { isDisposed: boolean } | null;
  get_model?(id: string): Promise<unknown>;
  create_view?(model: unknown): Promise<{ el: HTMLElement; remove(): void }>;
}

/** The part of anywidget's model that the views use. */
export interface Model<Traits> {
  get: <K extends keyof Traits>(name: K) => Traits[K];
  set<K extends keyof Traits>(name: K, value: Traits[K]): void;
  save_changes(): void;
  on(event: string, listener: (message: Message) => void): void;
  off(event: string, listener: (message: Message) => void): void;
  send(content: object): void;
  /** Of hosts that run ipywidgets. */
  widget_manager?: WidgetManager;
}

/** A file to download; binary content is base64. */
export interface SavedFile {
  mime: string;
  name: string;
  content: string;
}

/** What Python replies to each request. */
export interface Replies {
  cancel: string;
  check: string;
  methods: MethodChoice[];
  next: string;
  skip_pause: string;
  save: SavedFile;
  search: string;
  swap: string;
  write_again: string;
}

export type Request = <Name extends keyof Replies>(name: Name, settings?: object) => Promise<Replies[Name]>;
type Ask = <Name extends keyof Replies>(name: Name, settings?: object) => Promise<Replies[Name] | undefined>;
type Listen<Traits> = (names: (keyof Traits & string)[], call: () => void) => void;

export interface Context<Traits> {
  root: HTMLElement;
  /** The columns of the view; the second may stay empty. */
  main: HTMLElement;
  side: HTMLElement;
  /** Aborts when the view closes. */
  signal: AbortSignal;
  /** Whether Python answers; false in a saved page. */
  live: boolean;
  get: Model<Traits>["get"];
  /** Change traits and send them to Python. */
  set(traits: Partial<Traits>): void;
  /** Call whenever one of the traits changes. */
  on: Listen<Traits>;
  /** Call now, and whenever one of the traits changes. */
  mirror: Listen<Traits>;
  /** Send Python a request by message; if it fails, the error is shown and there is no reply. */
  ask: Ask;
  /** Show an error, with its details folded. */
  fail(text: string, details?: string): void;
  /** Say something in the footer instead of the first note of the result; "" says that note. */
  retitle(text: string): void;
  /** Say something in the footer, after the notes of the result. */
  note(text: string): void;
  /** A text is typed that was not sent yet: dim what is drawn, and hold back results until it is sent. */
  markStale(): void;
  /** Whether the result is of an older text than the one that is typed. */
  isOlder(): boolean;
}

/** One trait, for a control that reads and sets it. */
export interface Binding<Value> {
  name: string;
  signal: AbortSignal;
  live: boolean;
  get(): Value;
  set(value: Value): void;
  /** Call now, and whenever the trait changes. */
  mirror(draw: () => void): void;
}

export const bind = <Traits, K extends keyof Traits & string>(
  { get, set, mirror, signal, live }: Context<Traits>,
  name: K,
): Binding<Traits[K]> => ({
  name,
  signal,
  live,
  get: () => get(name),
  set: (value) => set({ [name]: value } as unknown as Partial<Traits>),
  mirror: (draw) => mirror([name], draw),
});
