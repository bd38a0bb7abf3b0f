/** Clients and servers that are disturbed. */
export interface Disturbed<Ran> {
  start(): Promise<void>;
  /** Waits until clients have got on since the last disturbance. */
  progress(): Promise<void>;
  disturb(): Promise<void>;
  /** Ends the clients. @returns What they did. @throws When the history has a violation. */
  finish(): Promise<Ran>;
  /** Ends all servers. */
  stop(): Promise<void>;
}

/** Disturbs so many times, and lets clients get on in between. @returns and @throws as `finish`. */
export async function runDisturbed<Ran>(all: Disturbed<Ran>, disturbances: number): Promise<Ran> {
  try {
    await all.start();
    for (let count = 0; count < disturbances; count++) {
      await all.progress();
      await all.disturb();
    }
    await all.progress();
    return await all.finish();
  } finally {
    await all.stop();
  }
}
