/**
 * Counters over a plain socket: deno run --allow-net=127.0.0.1 examples/counters_raw.ts [PORT]
 *
 * The server is started with `--counter-port PORT`. Two clients share three tickets.
 */
import { connect, type Socket } from "node:net";
import { Buffer } from "node:buffer";
import process from "node:process";

const [port = "11215"] = process.argv.slice(2);
const NAME = "tickets";
const MAXIMUM = 3;
const HEADER_BYTES = 12;
const OPCODE = { GET: 0x01, ACQUIRE: 0x02, RELEASE: 0x03 } as const;
const STATUS: Readonly<Record<number, string>> = { 0x00: "ok", 0x21: "not available" };

/** One connection, one request at a time. Its resources are given back when it ends. */
class CounterClient {
  readonly #socket: Socket = connect(Number(port), "127.0.0.1");

  get(): Promise<string> {
    return this.#ask(OPCODE.GET, []);
  }

  acquire(resources: number): Promise<string> {
    return this.#ask(OPCODE.ACQUIRE, [resources, MAXIMUM]);
  }

  release(resources: number): Promise<string> {
    return this.#ask(OPCODE.RELEASE, [resources]);
  }

  close(): void {
    this.#socket.end();
  }

  /** The status in words, and the number that came with it, if any. */
  async #ask(opcode: number, numbers: readonly number[]): Promise<string> {
    const packet = Buffer.alloc(HEADER_BYTES + 4 * numbers.length + 2 + NAME.length);
    packet[0] = 0x90;
    packet[1] = opcode;
    packet.writeUInt32BE(packet.length - HEADER_BYTES, 4);
    numbers.forEach((number, index) => packet.writeUInt32BE(number, HEADER_BYTES + 4 * index));
    packet.writeUInt16BE(NAME.length, HEADER_BYTES + 4 * numbers.length);
    packet.write(NAME, packet.length - NAME.length);
    this.#socket.write(packet);
    const reply = await new Promise<Buffer>((resolve) => this.#socket.once("data", resolve));
    const status = STATUS[reply[2]!] ?? `status ${reply[2]}`;
    const hasNumber = status === "ok" && reply.length === HEADER_BYTES + 4;
    return hasNumber ? `${status} ${reply.readUInt32BE(HEADER_BYTES)}` : status;
  }
}

const [first, second] = [new CounterClient(), new CounterClient()];
const say = (text: string): boolean => process.stdout.write(`${text}\n`);
say(`the first acquires 2 of 3: ${await first.acquire(2)}`);
say(`the second acquires 2: ${await second.acquire(2)}`);
say(`the second acquires 1: ${await second.acquire(1)}`);
say(`in use: ${await second.get()}`);
say(`the first releases 2: ${await first.release(2)}`);
say(`in use: ${await second.get()}`);
first.close();
second.close();
