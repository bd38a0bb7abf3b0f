import type { ServerOptions } from "../cli/options.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { BoundTransport, Listen } from "../net/transport.ts";
import { bindTransport, serves, type TransportName } from "../net/transports.ts";

/** Who serves what: one entry a thread, by its number. */
export interface ThreadPlan {
  /** Where it listens, with the real ports. */
  readonly listens: readonly Listen[];
  readonly members: readonly { readonly transport: TransportName; readonly workerData: unknown }[];
  /** Makes a thread look at `lifecycle`, and for connections whose waiting is over. */
  wake(threadIndex: number): void;
  /** Closes what is shared and removes socket files. Idempotent. */
  close(): void;
}

/**
 * Takes the addresses. What the chosen transport does not serve gets a portable thread of its own beside the others.
 *
 * @throws ListenError when an address cannot be had.
 */
export async function bindThreads(
  name: TransportName,
  options: ServerOptions,
  lifecycle: Lifecycle,
): Promise<ThreadPlan> {
  const { listens, transport } = options;
  const served = listens.filter((listen) => serves(name, listen));
  const unserved = listens.filter((listen) => !serves(name, listen));
  const chosen = await bindTransport(name, served, transport, lifecycle);
  const members = [];
  for (let index = 0; index < transport.threads; index++) {
    members.push({ transport: name, workerData: chosen.workerData(index) });
  }
  const bound: BoundTransport[] = [chosen];
  if (unserved.length > 0) {
    try {
      const portable = await bindTransport("portable", unserved, transport, lifecycle);
      members.push({ transport: portable.name, workerData: portable.workerData(0) });
      bound.push(portable);
    } catch (error) {
      chosen.close();
      throw error;
    }
  }
  return {
    listens: bound.flatMap((each) => each.listens),
    members,
    wake: (index) => {
      if (index < transport.threads) chosen.wake(index);
      else bound[1]?.wake(index);
    },
    close: () => bound.forEach((each) => each.close()),
  };
}
