/// <reference lib="deno.worker" />
// Many clients in turns, who know every byte of every reply: a request that is lost, or executed twice, shows.
import { randomFrom } from "../random.ts";
import type { LoadStart } from "../servers/native_in_process.ts";
import { Client } from "../servers/server_process.ts";
import { stopThread } from "./stop_thread.ts";

const CLIENTS = 24;
const ROUNDS = 60;
/** Longer than a slot of the inbox, and than a value that the reply buffer copies. */
const VALUE_BYTES_MAX = 12_000;

self.onmessage = async ({ data }: MessageEvent<LoadStart>) => {
  self.postMessage(await drive(data).then(() => "", (error) => String(error)));
  self.close();
};
self.postMessage("ready");

async function drive(start: LoadStart): Promise<void> {
  const { port, seed } = start;
  try {
    const random = randomFrom(seed);
    const clients = await Promise.all(
      Array.from({ length: CLIENTS }, (_, index) => ExactClient.connect(port, index)),
    );
    for (let round = 0; round < ROUNDS; round++) {
      const exchanges = clients.map((client) => client.next(round, random));
      // All requests first, so that the server finds many connections ready.
      await Promise.all(clients.map((client, index) => client.send(exchanges[index]![0])));
      await Promise.all(clients.map((client, index) => client.expect(exchanges[index]![1])));
    }
    for (const client of clients) client[Symbol.dispose]();
  } finally {
    await stopThread(start);
  }
}

class ExactClient extends Client {
  /** The value that the server has for this client. */
  #value = "";

  constructor(socket: Deno.Conn, readonly name: number) {
    super(socket);
  }

  static async connect(port: number, name: number): Promise<ExactClient> {
    const client = new ExactClient(await Deno.connect({ hostname: "127.0.0.1", port }), name);
    const setUp = `set n${name} 0 0 1\r\n0\r\nset v${name} 0 0 0\r\n\r\n`;
    await client.ask(setUp, "STORED\r\nSTORED\r\n");
    return client;
  }

  /** Returns the requests of a round, and their replies. */
  next(round: number, random: () => number): [request: string, reply: string] {
    const { name } = this;
    const length = Math.floor(random() ** 4 * VALUE_BYTES_MAX);
    const value = `${round}:`.padEnd(length, "v");
    const old = this.#value;
    this.#value = value;
    return [
      `incr n${name} 1\r\nget v${name}\r\nset v${name} 0 0 ${value.length}\r\n${value}\r\n` +
      `mg v${name} s\r\n`,
      `${round + 1}\r\nVALUE v${name} 0 ${old.length}\r\n${old}\r\nEND\r\n` +
      `STORED\r\nHD s${value.length}\r\n`,
    ];
  }
}
