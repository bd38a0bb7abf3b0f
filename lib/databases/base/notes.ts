import type { NotedCaches, NotedState } from "./backend.ts";

// The notes of caches as the database stores them: a line for each cache, `host:port listed` or `host:port out`.

export function notesText(caches: NotedCaches["caches"]): string {
  return [...caches].map(([name, state]) => `${name} ${state}\n`).join("");
}

export function readNotes(text: string): NotedCaches["caches"] {
  const lines = text.split("\n").filter((line) => line !== "");
  return new Map(lines.map((line) => line.split(" ") as [string, NotedState]));
}
