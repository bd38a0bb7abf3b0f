import type { ApplicationPlan, ClientPlan, Plan } from "./plan.ts";
import { simulate } from "./simulation.ts";

/** Parts of a plan that can be left out. */
type Without<Part> = (parts: readonly Part[]) => Plan;

/**
 * Returns the shortest plan found that fails, too: without faults, clients and requests that it does not need.
 *
 * @param plan Fails.
 * @param runsMax Most runs.
 */
export function shorten(plan: Plan, runsMax: number): Plan {
  return new Shortening(runsMax).shorten(plan);
}

class Shortening {
  #left: number;

  constructor(runsMax: number) {
    this.#left = runsMax;
  }

  shorten(plan: Plan): Plan {
    let shortest = plan;
    for (let size = Infinity; sizeOf(shortest) < size && this.#left > 0;) {
      size = sizeOf(shortest);
      shortest = this.#pass(shortest);
    }
    return shortest;
  }

  #pass(plan: Plan): Plan {
    let shortest = this.#less(plan.faults, (faults) => ({ ...plan, faults }));
    const { clients } = shortest;
    shortest = this.#less(clients, (left) => ({ ...shortest, clients: left }));
    for (const { name } of shortest.clients) {
      const { requests } = shortest.clients.find((client) => client.name === name)!;
      shortest = this.#less(requests, (left) => withRequests(shortest, name, left));
    }
    const { applications } = shortest;
    shortest = this.#less(applications, (left) => ({ ...shortest, applications: left }));
    for (const [at, { requests }] of shortest.applications.entries()) {
      shortest = this.#less(requests, (left) => withItemRequests(shortest, at, left));
    }
    return shortest;
  }

  /** Leaves parts out as long as the plan fails, larger runs of them first. */
  #less<Part>(all: readonly Part[], without: Without<Part>): Plan {
    let parts = all;
    for (let count = Math.ceil(parts.length / 2); count >= 1; count = Math.floor(count / 2)) {
      for (let at = 0; at < parts.length && this.#left > 0;) {
        const fewer = [...parts.slice(0, at), ...parts.slice(at + count)];
        if (this.#fails(without(fewer))) parts = fewer;
        else at += count;
      }
    }
    return without(parts);
  }

  #fails(plan: Plan): boolean {
    this.#left--;
    return simulate(plan).violations.length > 0;
  }
}

function withRequests(plan: Plan, name: string, requests: ClientPlan["requests"]): Plan {
  const clients = plan.clients.map((client) =>
    client.name === name ? { ...client, requests } : client
  );
  return { ...plan, clients };
}

function withItemRequests(
  plan: Plan,
  index: number,
  requests: ApplicationPlan["requests"],
): Plan {
  const applications = plan.applications.map((application, at) =>
    at === index ? { ...application, requests } : application
  );
  return { ...plan, applications };
}

function sizeOf({ clients, applications, faults }: Plan): number {
  return [...clients, ...applications]
    .reduce((sum, { requests }) => sum + 1 + requests.length, faults.length);
}
