/** Ids are the only numbers as long as this in these sessions. */
const ID = /\d{15,}/g;

/** The letter of a client, and of its connections. */
export function nameOf(index: number): string {
  return String.fromCharCode(65 + index);
}

interface Line {
  readonly text: string;
  /** The cache that sees it; undefined: all do. */
  readonly cache: number | undefined;
}

/** Records events as a transcript (tests/support/sessions/transcript.ts). */
export class TraceWriter {
  readonly #lines: Line[] = [];
  readonly #ids = new Map<string, string>();
  /** By cache, the ids that it has given. */
  readonly #given: Set<string>[] = [];
  /** The transcript alone reaches this state. */
  canBePlayed = true;

  begin(roles: readonly string[]): void {
    this.note(roles.map((role, index) => `${nameOf(index)}: ${role}`).join("; "));
  }

  exchange(cache: number, index: number, request: string, reply: string): void {
    // Ids in packets are no text that holes could stand for.
    if (request.startsWith("\x80")) this.canBePlayed = false;
    // Nor can one cache's transcript know the ids of another one.
    for (const [id] of request.matchAll(ID)) {
      if (!this.#given[cache]?.has(id)) this.canBePlayed = false;
    }
    this.#learn(cache, reply);
    const name = nameOf(index);
    const sent = `${name}> ${this.#written(request)}`;
    // The reply first: ids are learned there.
    const answer = reply === "" ? "" : `  ${name}< ${this.#written(reply)}`;
    this.#add(sent.padEnd(answer === "" ? 0 : 24) + answer, cache);
  }

  /** A reply that had to wait. */
  reply(cache: number, index: number, reply: string): void {
    this.#learn(cache, reply);
    this.#add(`${nameOf(index)}< ${this.#written(reply)}`, cache);
  }

  note(text: string): void {
    this.#add(`# ${text}`);
  }

  /** Like `note`, for events that neither a client nor the clock causes. */
  noteDeed(text: string): void {
    this.canBePlayed = false;
    this.note(text);
  }

  clock(seconds: number): void {
    this.#add(`clock +${seconds}`);
  }

  disconnect(cache: number, index: number): void {
    this.#add(`${nameOf(index)}: disconnects`, cache);
  }

  /** Returns the whole case. Its last lines show the fault. */
  text(title: string): string {
    const lines: string[] = [];
    let last = 0;
    for (const { text, cache = last } of this.#lines) {
      if (cache !== last) lines.push(`# at cache ${cache + 1}:`);
      lines.push(text);
      last = cache;
    }
    return [`== ${title}`, ...lines, ""].join("\n");
  }

  /** Returns what one of several caches sees, as a case. */
  textOf(cache: number, title: string): string {
    const lines = this.#lines.filter((line) => (line.cache ?? cache) === cache);
    return [`== ${title}`, ...lines.map(({ text }) => text), ""].join("\n");
  }

  #add(text: string, cache?: number): void {
    this.#lines.push({ text, cache });
  }

  #learn(cache: number, reply: string): void {
    const given = this.#given[cache] ??= new Set();
    for (const [id] of reply.matchAll(ID)) given.add(id);
  }

  #written(text: string): string {
    const whole = text.endsWith("\r\n");
    const line = (whole ? text.slice(0, -2) : text).replaceAll("\r\n", "|")
      .replace(/x{100,}/g, (run) => `{x*${run.length}}`)
      .replace(ID, (id) => {
        if (!this.#ids.has(id)) this.#ids.set(id, `{id${this.#ids.size + 1}}`);
        return this.#ids.get(id)!;
      });
    const shown = line.replace(
      /[^ -~]/g,
      (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
    return whole ? shown : `${shown}\\`;
  }
}
