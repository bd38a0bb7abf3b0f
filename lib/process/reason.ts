/** Returns a text as a line of a reply: without line ends, and not too long. */
export function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, " ").slice(0, 200);
}

/** Returns the message of a thrown value. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns a text with its control characters as \xNN: a peer's text must not control a terminal or forge log lines. */
export function controlsEscaped(text: string): string {
  return text.replace(
    /\p{Cc}/gu,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}
