import type { ServerOptions } from "../cli/options.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { BoundTransport, Listen } from "../net/transport.ts";
import { bindTransport, serves, type ThreadMember, type TransportName } from "../net/transports.ts";

/** The listeners and the transport of each thread. */
export interface ThreadPlan {
  /** The addresses, with the ports that were bound. */
  readonly listens: readonly Listen[];
  readonly members: readonly ThreadMember[];
  /** Makes a thread check `lifecycle`, and resume connections whose waiting is over. */
  wake(threadIndex: number): void;
  /** As `BoundTransport.listen`. */
  listen(): void;
  /** Closes the listeners and removes socket files. Idempotent. */
  close(): void;
}

/**
 * Binds the addresses. Listeners that the chosen transport does not serve get one more thread, with the portable one.
 *
 * @throws ListenError when the server cannot listen on an address.
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
  const members: ThreadMember[] = [];
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
    listen: () => bound.forEach((each) => each.listen()),
    close: () => bound.forEach((each) => each.close()),
  };
}
