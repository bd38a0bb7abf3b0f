/**
 * Two networks of their own with a wire between them (Linux network namespaces), so that a host can
 * vanish without a packet. TCP on the server's side gives a silent peer up after some three
 * seconds.
 */
export class TwoNetworks implements Disposable {
  /** Put in front of a command, these run it in one of the networks. */
  readonly onServer: readonly string[];
  readonly onClient: readonly string[];
  readonly serverAddress = "10.213.0.1";
  readonly #server: string;
  readonly #client: string;

  /** Undefined where that is not allowed, or cannot be. */
  static create(): TwoNetworks | undefined {
    const networks = new TwoNetworks();
    try {
      networks.#build();
      return networks;
    } catch {
      networks[Symbol.dispose]();
      return undefined;
    }
  }

  private constructor() {
    const name = `leased-test-${Deno.pid}`;
    this.#server = `${name}-s`;
    this.#client = `${name}-c`;
    this.onServer = ["ip", "netns", "exec", this.#server];
    this.onClient = ["ip", "netns", "exec", this.#client];
  }

  /** Cuts the wire: no packet leaves or reaches the client's network any more. */
  cut(): void {
    run("ip", "-n", this.#client, "addr", "flush", "dev", "wire");
  }

  [Symbol.dispose](): void {
    for (const name of [this.#server, this.#client]) {
      try {
        run("ip", "netns", "del", name);
      } catch {
        // It was never made.
      }
    }
  }

  #build(): void {
    for (const name of [this.#server, this.#client]) run("ip", "netns", "add", name);
    const wire = ["link", "add", "wire", "netns", this.#server, "type", "veth"];
    run("ip", ...wire, "peer", "name", "wire", "netns", this.#client);
    run("ip", "-n", this.#server, "addr", "add", `${this.serverAddress}/30`, "dev", "wire");
    run("ip", "-n", this.#client, "addr", "add", "10.213.0.2/30", "dev", "wire");
    for (const name of [this.#server, this.#client]) {
      for (const device of ["lo", "wire"]) run("ip", "-n", name, "link", "set", device, "up");
    }
    const [program, ...args] = this.onServer;
    for (const [name, value] of [["time", 1], ["intvl", 1], ["probes", 2]]) {
      const file = `/proc/sys/net/ipv4/tcp_keepalive_${name}`;
      run(program!, ...args, "sh", "-c", `echo ${value} > ${file}`);
    }
  }
}

/** @throws Error when it fails. */
function run(program: string, ...args: string[]): void {
  const { success, stderr } = new Deno.Command(program, { args, stdout: "null", stderr: "piped" })
    .outputSync();
  if (!success) {
    throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  }
}
