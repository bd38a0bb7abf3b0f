import { obey } from "../../cli/command_line.ts";
import { ExitCode } from "../../cli/exit.ts";
import { writeRefusal } from "../../process/log.ts";
import { hostPortText } from "../../net/transport.ts";
import {
  fileNeeds,
  type Need,
  permissionHost,
  refusedForPermissions,
} from "../../process/permissions.ts";
import { readProcessInfo } from "../../process/info.ts";
import { handleSignals, listenToSignals } from "../../process/signals.ts";
import { reasonOf } from "../../process/reason.ts";
import { type DialOptions, readDialOptions } from "../../peers/dial.ts";
import { auditCache, noCounts } from "./audit.ts";
import { Canary, type Target } from "./canary.ts";
import { CacheView } from "./cache_view.ts";
import { type AuditOptions, readAuditCommand } from "./options.ts";
import { type Address, PeerError } from "../../peers/peer.ts";
import { OriginView } from "./origin_view.ts";
import { Report } from "./report.ts";

const TASK = "or use deno task audit, which may read this folder";

/** `leased audit` */
export function runAudit(argv: readonly string[]): Promise<ExitCode> {
  return obey(readAuditCommand(argv, readProcessInfo()), (options) => {
    const command = { run: "deno run", argv: ["audit", ...argv], cost: "" };
    if (refusedForPermissions(neededPermissions(options), command, options.logFormat)) {
      return Promise.resolve(ExitCode.NO_PERMISSION);
    }
    return options.canary.length > 0 ? runCanary(options) : auditCaches(options);
  });
}

/**
 * Compares caches with the database, one cache after the other. A cache that fails is named on stderr, and the others
 * are compared all the same; without the origin nothing can be.
 */
async function auditCaches(options: AuditOptions): Promise<ExitCode> {
  const dials = readDials(options);
  if (dials === null) return ExitCode.OS_ERROR;
  const report = new Report();
  let different = 0;
  let failed = 0;
  const fail = (error: unknown): void => {
    if (!(error instanceof PeerError)) throw error;
    report.abandon();
    failed++;
    writeRefusal(options.logFormat, "audit_failed", error.message);
  };
  try {
    for (const target of await cachesOf(options, dials)) {
      const counts = noCounts();
      try {
        await auditOne(target, options, dials.origin, counts, report);
      } catch (error) {
        fail(error);
      }
      different += counts.different;
    }
  } catch (error) {
    fail(error);
  }
  if (different > 0) return ExitCode.DIFFERENT;
  return failed > 0 ? ExitCode.UNAVAILABLE : ExitCode.OK;
}

/** Writes and reads canary keys, until it has written them so often as the options say, or until a signal. */
async function runCanary(options: AuditOptions): Promise<ExitCode> {
  const dials = readDials(options);
  if (dials === null) return ExitCode.OS_ERROR;
  const { logFormat, origin } = options;
  const report = new Report();
  const fail = (error: PeerError): void =>
    writeRefusal(logFormat, "canary_failed", `${new Date().toISOString()} ${error.message}`);
  const stopped = new AbortController();
  listenToSignals();
  handleSignals(() => stopped.abort(), () => {});
  let canary: Canary;
  try {
    const caches = await cachesOf(options, dials);
    canary = new Canary({ address: origin, dial: dials.origin }, caches, {
      ...options,
      keys: options.canary,
    }, {
      stale: (read) => report.wrong("stale", read),
      lost: (read) => report.wrong("lost", read),
      failed: fail,
    });
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
    fail(error);
    return ExitCode.UNAVAILABLE;
  }
  await canary.run(stopped.signal);
  const { stale, lost, unread, unwritten } = canary.counts;
  report.canary(canary.counts);
  if (stale + lost > 0) return ExitCode.DIFFERENT;
  return unread + unwritten > 0 ? ExitCode.UNAVAILABLE : ExitCode.OK;
}

/** Nodes that only the origin knows may need more than what is granted, or not. */
function neededPermissions(options: AuditOptions): Need[] {
  const { origin, caches } = options;
  const files = [
    options.originLogin,
    options.cacheLogin,
    options.originCaCert,
    options.cacheCaCert,
  ];
  const net = (purpose: string, { hostname, port }: Address): Need => ({
    descriptor: { name: "net", host: permissionHost(hostname, port) },
    purpose,
    alternative: TASK,
  });
  return [
    net("ask the origin (--origin)", origin),
    ...caches.map((cache) => net("read the caches (--cache)", cache)),
    ...caches.length > 0
      ? []
      : [{ descriptor: { name: "net" as const }, purpose: "", optional: true }],
    ...files.filter((path) => path !== "").flatMap((path) =>
      fileNeeds(["read"], [path], `read ${path}`, TASK)
    ),
  ];
}

/** How to connect. */
interface Dials {
  readonly origin: DialOptions;
  /** To the origin, as one who may list its keys. */
  readonly own: DialOptions;
  readonly cache: DialOptions;
}

/** @returns Null: a file cannot be read, or has another form, which is said. */
function readDials(options: AuditOptions): Dials | null {
  try {
    return dialsOf(options);
  } catch (error) {
    writeRefusal(options.logFormat, "audit_failed", reasonOf(error));
    return null;
  }
}

/** @throws When a file cannot be read, or has another form. */
function dialsOf(options: AuditOptions): Dials {
  const { timeoutMs, originLogin, cacheLogin, originCaCert, cacheCaCert } = options;
  return {
    origin: readDialOptions(timeoutMs, originLogin, originCaCert),
    own: readDialOptions(timeoutMs, cacheLogin || originLogin, originCaCert),
    cache: readDialOptions(timeoutMs, cacheLogin, cacheCaCert),
  };
}

async function cachesOf(
  { origin, caches }: AuditOptions,
  dials: Dials,
): Promise<readonly Target[]> {
  const targets = (addresses: readonly Address[]): Target[] =>
    addresses.map((address) => ({ address, dial: dials.cache }));
  if (caches.length > 0) return targets(caches);
  const view = await OriginView.connect(origin, dials.origin);
  try {
    return [{ address: origin, dial: dials.own }, ...targets(await view.nodes())];
  } finally {
    view.close();
  }
}

/** @throws PeerError */
async function auditOne(
  { address, dial }: Target,
  { origin, prefix }: AuditOptions,
  originDial: DialOptions,
  counts: ReturnType<typeof noCounts>,
  report: Report,
): Promise<void> {
  const name = hostPortText(address.hostname, address.port);
  const rows = await OriginView.connect(origin, originDial);
  try {
    const cache = await CacheView.connect(address, dial);
    try {
      report.start(name, report.showsProgress ? await cache.count() : 0);
      await auditCache(cache, rows, prefix, counts, {
        difference: (difference) => report.difference(name, difference),
        progress: (keys) => report.progress(keys),
      });
      report.end(name, counts);
    } finally {
      cache.close();
    }
  } finally {
    rows.close();
  }
}
