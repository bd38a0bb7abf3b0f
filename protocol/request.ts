/** More words than this of a line are not looked at (memcached: MAX_TOKENS), except keys of the get family. */
export const WORDS_MAX = 23;

/** How a handler left a request. */
export const Flow = {
  /** Executed, or refused with a reply: go on at `request.next`. */
  DONE: 0,
  /** More input is needed; nothing has happened: come back with the same bytes and more. */
  INCOMPLETE: 1,
  /** `conversation.task` continues the request at `request.next`. */
  UNDER_WAY: 2,
  /** Send what there is, then close. */
  CLOSE: 3,
  /** As CLOSE, because the peer does not keep to the protocol. */
  CLOSE_ERROR: 5,
  /** There is no such command, as this server was started. */
  UNKNOWN: 4,
  /** It waits for the database, and is executed once more. A parser finds it out: handlers never return it. */
  PARKED: 6,
} as const;

export type Flow = typeof Flow[keyof typeof Flow];

/**
 * The current request: offsets of its parts in the thread's input, in bytes. One a thread: the parser overwrites it
 * for every request.
 */
export class Request {
  /** The first byte of the request. */
  start = 0;
  /** Behind the last byte of its line (text) or of its header (binary): the value starts here. */
  lineEnd = 0;
  /** Length of a value's end marker: 2 for CR LF, 0 for none. */
  trailerLength = 2;
  /** Behind the last byte received. */
  inputEnd = 0;
  /** Length of the reply in front of its own: a parked request takes back what it replied. */
  replyStart = 0;
  /** The first byte that does not belong to the request; where to go on. The handler moves it behind a value. */
  next = 0;

  /** How many words the line has, the command's included; at most WORDS_MAX are kept. */
  wordCount = 0;
  readonly wordStart = new Int32Array(WORDS_MAX + 1);
  readonly wordEnd = new Int32Array(WORDS_MAX + 1);

  /** Nothing is answered, not even errors. */
  noreply = false;

  wordLength(index: number): number {
    return this.wordEnd[index]! - this.wordStart[index]!;
  }
}
