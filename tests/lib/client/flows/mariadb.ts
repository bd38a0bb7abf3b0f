// MariaDB for tests: a server of its own in a temporary folder, on a Unix socket. It speaks MySQL's protocol, and has
// MySQL's errors.
import { endAtTimeLimit, waitingFor } from "../../../support/waiting.ts";
import { textOf } from "../../../support/sessions/side.ts";

const SERVER = "/usr/sbin/mariadbd";
const INSTALLER = "/usr/bin/mariadb-install-db";
/** A program of the installer's, in another of Debian's packages. */
const READER = "/usr/bin/my_print_defaults";
export const HAS_MARIADB = [SERVER, INSTALLER, READER].every((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});

/** A server, whose superuser root needs no password. */
export class MariadbServer implements AsyncDisposable {
  readonly socketPath: string;
  readonly #folder: string;
  readonly #child: Deno.ChildProcess;
  readonly #registration: Disposable;

  private constructor(folder: string) {
    this.#folder = folder;
    this.socketPath = `${folder}/socket`;
    this.#child = new Deno.Command(SERVER, {
      args: [
        ...["--no-defaults", "--skip-networking", `--datadir=${folder}/data`],
        ...[
          `--socket=${this.socketPath}`,
          `--pid-file=${folder}/pid`,
          `--log-error=${folder}/log.err`,
        ],
        ...["--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=0", ...asUser()],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#registration = endAtTimeLimit(() => this.#kill());
  }

  /** Makes its folder, and starts it. */
  static async start(): Promise<MariadbServer> {
    const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
    const { success, stdout, stderr } = await new Deno.Command(INSTALLER, {
      args: [
        ...["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"],
        ...[`--datadir=${folder}/data`, ...asUser()],
      ],
      stdin: "null",
    }).output();
    if (!success) throw new Error(`${INSTALLER}: ${textOf(stdout)}${textOf(stderr)}`);
    const server = new MariadbServer(folder);
    try {
      await waitingFor("MariaDB's start", server.#started());
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill();
    await this.#child.status;
    this.#registration[Symbol.dispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }

  async #started(): Promise<void> {
    let isOver = false;
    void this.#child.status.then(() => isOver = true);
    for (;;) {
      const log = await Deno.readTextFile(`${this.#folder}/log.err`).catch(() => "");
      if (/ready for connections/.test(log)) return;
      if (isOver) throw new Error(`${SERVER} ended:\n${log}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  #kill(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

/** The server refuses to run as root by accident. */
function asUser(): string[] {
  return Deno.uid() === 0 ? ["--user=root"] : [];
}
