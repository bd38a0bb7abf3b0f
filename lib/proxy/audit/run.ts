import { readLoginFile } from "../../auth/user_file.ts";
import { ExitCode } from "../../cli/exit.ts";
import { writeRefusal } from "../../log.ts";
import { hostPortText } from "../../net/transport.ts";
import { reasonOf } from "../../reason.ts";
import type { CacheLogin } from "../cache_client.ts";
import { auditCache, noCounts } from "./audit.ts";
import { CacheView } from "./cache_view.ts";
import type { AuditOptions } from "./options.ts";
import { type Address, PeerError } from "./peer.ts";
import { ProxyView } from "./proxy_view.ts";
import { Report } from "./report.ts";

/**
 * Compares caches with the database, one cache after the other. A cache that fails is named on stderr, and the others
 * are compared all the same; without the proxy nothing can be.
 */
export async function runAudit(options: AuditOptions): Promise<ExitCode> {
  let logins: Logins;
  try {
    logins = { proxy: loginOf(options.proxyLoginFile), cache: loginOf(options.cacheLoginFile) };
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
    for (const address of await cachesOf(options, logins)) {
      const counts = noCounts();
      try {
        await auditOne(address, options, logins, counts, report);
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

/** Names and passwords; null: nobody asks for them. */
interface Logins {
  readonly proxy: CacheLogin | null;
  readonly cache: CacheLogin | null;
}

/** @throws When the file cannot be read, or has another form. */
function loginOf(file: string): CacheLogin | null {
  return file === "" ? null : readLoginFile(file);
}

async function cachesOf(
  { proxy, caches, timeoutMs }: AuditOptions,
  logins: Logins,
): Promise<readonly Address[]> {
  if (caches.length > 0) return caches;
  const view = await ProxyView.connect(proxy, timeoutMs, logins.proxy);
  try {
    return await view.caches();
  } finally {
    view.close();
  }
}

/** @throws PeerError */
async function auditOne(
  address: Address,
  { proxy, prefix, timeoutMs }: AuditOptions,
  logins: Logins,
  counts: ReturnType<typeof noCounts>,
  report: Report,
): Promise<void> {
  const name = hostPortText(address.hostname, address.port);
  const rows = await ProxyView.connect(proxy, timeoutMs, logins.proxy);
  try {
    const cache = await CacheView.connect(address, timeoutMs, logins.cache);
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
