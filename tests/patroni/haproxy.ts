import { freePort } from "../support/free_ports.ts";
import { path } from "../support/servers/server_process.ts";
import type { PatroniCluster } from "./cluster.ts";

/** HAProxy with contrib/haproxy.cfg, before a cluster on this machine. */
export class Haproxy implements Disposable {
  readonly port: number;
  readonly #process: Deno.ChildProcess;

  private constructor(port: number, config: string) {
    this.port = port;
    this.#process = new Deno.Command("haproxy", {
      args: ["-db", "-f", config],
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
  }

  static async start(cluster: PatroniCluster): Promise<Haproxy> {
    const port = freePort();
    let text = await Deno.readTextFile(path("contrib/haproxy.cfg"));
    text = text.replace("bind :5000", `bind 127.0.0.1:${port}`);
    for (const { name, port, apiPort } of cluster.members) {
      const here = `${name} 127.0.0.1:${port} check port ${apiPort}`;
      text = text.replace(`${name} ${name}:5432 check port 8008`, here);
    }
    const config = `${cluster.folder}/haproxy.cfg`;
    await Deno.writeTextFile(config, text);
    return new Haproxy(port, config);
  }

  [Symbol.dispose](): void {
    this.#process.kill("SIGKILL");
  }
}
