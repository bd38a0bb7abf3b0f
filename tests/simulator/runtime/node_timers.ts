// Takes the place of node:timers in the client library: timers that a world may have replaced.

type Timer = ReturnType<typeof globalThis.setTimeout>;

export function setTimeout(act: () => void, ms?: number): Timer {
  return globalThis.setTimeout(act, ms);
}

export function clearTimeout(timer?: Timer): void {
  globalThis.clearTimeout(timer);
}

export function setInterval(act: () => void, ms?: number): Timer {
  return globalThis.setInterval(act, ms);
}

export function clearInterval(timer?: Timer): void {
  globalThis.clearInterval(timer);
}
