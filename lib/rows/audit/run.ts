import { obey } from "../../cli/command_line.ts";
import { ExitCode } from "../../cli/exit.ts";
import { writeRefusal } from "../../log.ts";
import { hostPortText } from "../../net/transport.ts";
import { readProcessInfo } from "../../process_info.ts";
import { reasonOf } from "../../reason.ts";
import { type DialOptions, readDialOptions } from "../../peers/dial.ts";
import { auditCache, noCounts } from "./audit.ts";
import { CacheView } from "./cache_view.ts";
import { type AuditOptions, readAuditCommand } from "./options.ts";
import { type Address, PeerError } from "../../peers/peer.ts";
import { ProxyView } from "./proxy_view.ts";
import { Report } from "./report.ts";

/** `leased audit` */
export function runAudit(argv: readonly string[]): Promise<ExitCode> {
  return obey(readAuditCommand(argv, readProcessInfo()), auditCaches);
}

/**
 * Compares caches with the database, one cache after the other. A cache that fails is named on stderr, and the others
 * are compared all the same; without the proxy nothing can be.
 */
async function auditCaches(options: AuditOptions): Promise<ExitCode> {
  const flags = missingFlags(options);
  if (flags !== "") {
    const remedy = `add ${flags} to deno run, or use deno task audit, which may read this folder`;
    writeRefusal(options.logFormat, "permission_missing", `not permitted to audit: ${remedy}`);
    return ExitCode.NO_PERMISSION;
  }
  let dials: Dials;
  try {
    dials = dialsOf(options);
  } catch (error) {
    writeRefusal(options.logFormat, "audit_failed", reasonOf(error));
    return ExitCode.OS_ERROR;
  }
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
    for (const address of await cachesOf(options, dials)) {
      const counts = noCounts();
      try {
        await auditOne(address, options, dials, counts, report);
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

/** Returns the flags of `deno run` that are missing; "": none. Caches that only the proxy knows are not asked about. */
function missingFlags(options: AuditOptions): string {
  const { proxy, caches, proxyLoginFile, cacheLoginFile } = options;
  const isDenied = (descriptor: Deno.PermissionDescriptor): boolean =>
    Deno.permissions.querySync(descriptor).state !== "granted";
  const hosts = [proxy, ...caches]
    .map(({ hostname, port }) => hostPortText(hostname, port))
    .filter((host) => isDenied({ name: "net", host }));
  const paths = [proxyLoginFile, cacheLoginFile, options.proxyCaCertPath, options.cacheCaCertPath]
    .filter((path) => path !== "" && isDenied({ name: "read", path }));
  const net = caches.length === 0 ? "--allow-net" : `--allow-net=${[...new Set(hosts)].join()}`;
  return [
    ...hosts.length > 0 ? [net] : [],
    ...paths.length > 0 ? [`--allow-read=${paths.join()}`] : [],
  ].join(" ");
}

/** How to connect. */
interface Dials {
  readonly proxy: DialOptions;
  readonly cache: DialOptions;
}

/** @throws When a file cannot be read, or has another form. */
function dialsOf(options: AuditOptions): Dials {
  const { timeoutMs } = options;
  return {
    proxy: readDialOptions(timeoutMs, options.proxyLoginFile, options.proxyCaCertPath),
    cache: readDialOptions(timeoutMs, options.cacheLoginFile, options.cacheCaCertPath),
  };
}

async function cachesOf(
  { proxy, caches }: AuditOptions,
  dials: Dials,
): Promise<readonly Address[]> {
  if (caches.length > 0) return caches;
  const view = await ProxyView.connect(proxy, dials.proxy);
  try {
    return await view.caches();
  } finally {
    view.close();
  }
}

/** @throws PeerError */
async function auditOne(
  address: Address,
  { proxy, prefix }: AuditOptions,
  dials: Dials,
  counts: ReturnType<typeof noCounts>,
  report: Report,
): Promise<void> {
  const name = hostPortText(address.hostname, address.port);
  const rows = await ProxyView.connect(proxy, dials.proxy);
  try {
    const cache = await CacheView.connect(address, dials.cache);
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
