import type { ServerOptions } from "../cli/options.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { Listen, TransportHost } from "../net/transport.ts";
import { bindTransport, serves, type TransportName } from "../net/transports.ts";

/** Who serves what: one entry a thread, by its number. */
export interface ThreadPlan {
  /** Where it listens, with the real ports. */
  readonly listens: readonly Listen[];
  readonly members: readonly { readonly transport: TransportName; readonly part: unknown }[];
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
export async function threadPlanFor(
  name: TransportName,
  options: ServerOptions,
  lifecycle: Lifecycle,
): Promise<ThreadPlan> {
  const { listens, transport } = options;
  const served = listens.filter((listen) => serves(name, listen));
  const others = listens.filter((listen) => !serves(name, listen));
  const host = await bindTransport(name, served, transport, lifecycle);
  const members = [];
  for (let index = 0; index < transport.threads; index++) {
    members.push({ transport: name, part: host.threadPart(index) });
  }
  const hosts: TransportHost[] = [host];
  if (others.length > 0) {
    try {
      const side = await bindTransport("portable", others, transport, lifecycle);
      members.push({ transport: side.name, part: side.threadPart(0) });
      hosts.push(side);
    } catch (error) {
      host.close();
      throw error;
    }
  }
  return {
    listens: hosts.flatMap((each) => each.listens),
    members,
    wake: (index) => {
      if (index < transport.threads) host.wake(index);
      else hosts[1]?.wake(index);
    },
    close: () => hosts.forEach((each) => each.close()),
  };
}
