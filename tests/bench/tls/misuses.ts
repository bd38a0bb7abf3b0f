/** How clients misuse TLS. */
export const MISUSES = ["half-finished", "flood", "unread", "key-updates"] as const;
export type Misuse = typeof MISUSES[number];

/** What `misuse_worker.ts` does. */
export interface MisuseOrder {
  readonly kind: Misuse;
  readonly port: number;
  /** What a client sends first. */
  readonly hello: Uint8Array;
  /** Not 0: end. */
  readonly stop: SharedArrayBuffer;
  readonly core: number;
}
