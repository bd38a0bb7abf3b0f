import { createHash } from "node:crypto";

/** Points of a server of average weight on the ring, as in libketama. */
const POINTS_PER_SERVER = 160;
/** An MD5 sum gives 4 points. */
const NUMBERS_PER_SUM = 4;
const DEFAULT_PORT = "11211";

interface Weighted<Server> {
  /** `host:port`, or the path of a Unix socket. */
  readonly name: string;
  readonly weight: number;
  readonly server: Server;
}

interface Point<Server> {
  readonly hash: number;
  readonly server: Server;
}

/**
 * The ring of hashes of libmemcached's weighted ketama. It gives each key one server, and moves few keys when a server
 * is added or removed.
 */
export class KetamaRing<Server> {
  readonly #points: readonly Point<Server>[];

  /** @param servers At least one. */
  constructor(servers: readonly Weighted<Server>[]) {
    const total = servers.reduce((sum, { weight }) => sum + weight, 0);
    this.#points = servers
      .flatMap((each) => pointsOf(each, sumsOf(each.weight, total, servers.length)))
      .sort((a, b) => a.hash - b.hash);
  }

  /** Returns the server of a key. @param key Its bytes, one a character. */
  of(key: string): Server {
    const points = this.#points;
    const hash = numberAt(createHash("md5").update(key, "latin1").digest(), 0);
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (points[middle]!.hash < hash) low = middle + 1;
      else high = middle;
    }
    return points[low === points.length ? 0 : low]!.server;
  }
}

/** Returns the number of MD5 sums of a server. libmemcached computes it with 32 bits, and so rounds some down. */
function sumsOf(weight: number, total: number, servers: number): number {
  const { fround } = Math;
  const share = fround(fround(weight) / fround(total));
  return Math.floor(fround(fround(share * POINTS_PER_SERVER) / NUMBERS_PER_SUM * servers));
}

function pointsOf<Server>({ name, server }: Weighted<Server>, sums: number): Point<Server>[] {
  const points: Point<Server>[] = [];
  const hashed = hashedName(name);
  for (let sum = 0; sum < sums; sum++) {
    const digest = createHash("md5").update(`${hashed}-${sum}`).digest();
    for (let number = 0; number < NUMBERS_PER_SUM; number++) {
      points.push({ hash: numberAt(digest, number), server });
    }
  }
  return points;
}

/** Returns the name that libmemcached hashes: without its default port, and without the brackets of IPv6. */
function hashedName(name: string): string {
  const [, hostname, port] = /^\[?(.*?)\]?:(\d+)$/.exec(name) ?? [];
  if (port === undefined) return name;
  return port === DEFAULT_PORT ? hostname! : `${hostname}:${port}`;
}

/** Reads a little-endian 32-bit number from a sum. */
function numberAt(digest: Uint8Array, index: number): number {
  return new DataView(digest.buffer, digest.byteOffset).getUint32(4 * index, true);
}
