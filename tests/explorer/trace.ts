/** Ids are the only numbers as long as this in these sessions. */
const ID = /\d{15,}/g;

/** Records events as a transcript (tests/support/sessions/transcript.ts). */
export class TraceWriter {
  readonly #lines: string[] = [];
  readonly #ids = new Map<string, string>();
  /** The transcript alone reaches this state. */
  canBePlayed = true;

  begin(roles: readonly string[]): void {
    this.note(roles.map((role, index) => `${this.nameOf(index)}: ${role}`).join("; "));
  }

  /** The letter of a connection. */
  nameOf(index: number): string {
    return String.fromCharCode(65 + index);
  }

  exchange(index: number, request: string, reply: string): void {
    // Ids in packets are no text that holes could stand for.
    if (request.startsWith("\x80")) this.canBePlayed = false;
    const name = this.nameOf(index);
    const sent = `${name}> ${this.#written(request)}`;
    // The reply first: ids are learned there.
    const answer = reply === "" ? "" : `  ${name}< ${this.#written(reply)}`;
    this.#lines.push(sent.padEnd(answer === "" ? 0 : 24) + answer);
  }

  note(text: string): void {
    this.#lines.push(`# ${text}`);
  }

  /** Like `note`, for events that neither a client nor the clock causes. */
  noteDeed(text: string): void {
    this.canBePlayed = false;
    this.note(text);
  }

  clock(seconds: number): void {
    this.#lines.push(`clock +${seconds}`);
  }

  disconnect(index: number): void {
    this.#lines.push(`${this.nameOf(index)}: disconnects`);
  }

  /** Returns the whole case. Its last lines show the fault. */
  text(title: string): string {
    return [`== ${title}`, ...this.#lines, ""].join("\n");
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
