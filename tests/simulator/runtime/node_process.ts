// Takes the place of node:process in the client library.

export function nextTick(act: () => void): void {
  queueMicrotask(act);
}
