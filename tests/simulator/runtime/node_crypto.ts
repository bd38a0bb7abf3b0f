// Takes the place of node:crypto in the client library: chance that a world may have replaced.
export { createHash } from "node:crypto";

export function randomUUID(): string {
  return crypto.randomUUID();
}
