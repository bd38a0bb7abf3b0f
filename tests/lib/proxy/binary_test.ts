import { assertEquals } from "@std/assert";
import { createDatabase } from "../../support/servers/databases.ts";
import { startProxy } from "../../support/servers/proxy_process.ts";
import { type Client, ServerProcess } from "../../support/servers/server_process.ts";
import {
  numberBytes,
  opcodeOf,
  type PacketFields,
  packetText,
} from "../../support/sessions/binary_text.ts";

type Fields = Omit<PacketFields, "opcode">;

/** A request of the binary protocol. */
function request(name: string, fields: Fields = {}): string {
  return packetText({ opcode: opcodeOf(name), ...fields });
}

function reply(name: string, fields: Fields = {}): string {
  return packetText({ opcode: opcodeOf(name), magic: 0x81, ...fields });
}

const four = (number: number): string => numberBytes(number, 4);
const eight = (number: number): string => numberBytes(number, 8);
/** Extras of Set: flags and exptime. */
const storing = (flags: number, exptime = 0): string => four(flags) + four(exptime);
const counting = (delta: number, initial: number, exptime: number): string =>
  eight(delta) + eight(initial) + four(exptime);

const NO_CREATION = 0xffffffff;
const NO_EXPIRY = "rows have no expiry time: exptime must be 0";

async function withProxy(run: (client: Client) => Promise<void>): Promise<void> {
  await using database = await createDatabase("SQLite");
  await using cache = await ServerProcess.start();
  await using proxy = await startProxy(database, [cache.port], ["-I", "1000"]);
  using client = await proxy.connect();
  await run(client);
}

Deno.test("the binary protocol reads and writes rows", () =>
  withProxy(async (client) => {
    const ask = async (name: string, fields: Fields, ...replies: string[]): Promise<void> => {
      await client.ask(request(name, { opaque: 7, ...fields }), replies.join(""));
    };
    const answer = (name: string, fields: Fields = {}): string =>
      reply(name, { opaque: 7, ...fields });
    const refusal = (name: string, status: number, value: string): string =>
      answer(name, { status, value });
    await ask("Get", { key: "k" }, answer("Get", { status: 1 }));
    await ask("Set", { key: "k", extras: storing(5), value: "one" }, answer("Set", { cas: "1" }));
    await ask("Get", { key: "k" }, answer("Get", { extras: four(5), value: "one", cas: "1" }));
    await ask(
      "GetK",
      { key: "k" },
      answer("GetK", { key: "k", extras: four(5), value: "one", cas: "1" }),
    );
    await ask(
      "Add",
      { key: "k", extras: storing(0), value: "x" },
      refusal("Add", 2, "Data exists for key."),
    );
    await ask(
      "Replace",
      { key: "no", extras: storing(0), value: "x" },
      refusal("Replace", 1, "Not found"),
    );
    const other = { key: "k", extras: storing(0), value: "x", cas: "9" };
    await ask("Set", other, refusal("Set", 2, "Data exists for key."));
    await ask("Set", { ...other, key: "no" }, refusal("Set", 1, "Not found"));
    await ask("Set", { ...other, cas: "1" }, answer("Set", { cas: "2" }));
    await ask("Append", { key: "k", value: "y" }, answer("Append", { cas: "3" }));
    await ask("Prepend", { key: "k", value: "w" }, answer("Prepend", { cas: "4" }));
    await ask("Append", { key: "no", value: "y" }, refusal("Append", 5, "Not stored."));
    await ask("Get", { key: "k" }, answer("Get", { extras: four(0), value: "wxy", cas: "4" }));
    const counter = { key: "n", extras: counting(3, 10, 0) };
    await ask(
      "Increment",
      { key: "n", extras: counting(3, 10, NO_CREATION) },
      refusal("Increment", 1, "Not found"),
    );
    await ask("Increment", counter, answer("Increment", { value: eight(10), cas: "1" }));
    await ask("Increment", counter, answer("Increment", { value: eight(13), cas: "2" }));
    await ask(
      "Decrement",
      { key: "n", extras: counting(99, 0, 0) },
      answer("Decrement", { value: eight(0), cas: "3" }),
    );
    await ask(
      "Increment",
      { ...counter, key: "k" },
      refusal("Increment", 6, "Non-numeric server-side value for incr or decr"),
    );
    await ask("Touch", { key: "k", extras: four(0) }, answer("Touch", { cas: "4" }));
    await ask("Touch", { key: "k", extras: four(60) }, refusal("Touch", 4, NO_EXPIRY));
    await ask(
      "Set",
      { key: "k", extras: storing(0, 60), value: "x" },
      refusal("Set", 4, NO_EXPIRY),
    );
    await ask("Delete", { key: "k", cas: "9" }, refusal("Delete", 2, "Data exists for key."));
    await ask("Delete", { key: "k" }, answer("Delete", { cas: "5" }));
    await ask("Delete", { key: "k" }, refusal("Delete", 1, "Not found"));
    // Quiet requests, text between packets, and the end.
    await client.ask(
      request("GetQ", { key: "k" }) +
        request("SetQ", { key: "k", extras: storing(0), value: "q" }) +
        "get k\r\n" + request("GetQ", { key: "k" }) +
        request("AddQ", { key: "k", extras: storing(0), value: "q" }) +
        request("Noop"),
      "VALUE k 0 1\r\nq\r\nEND\r\n" + reply("GetQ", { extras: four(0), value: "q", cas: "6" }) +
        reply("AddQ", { status: 2, value: "Data exists for key." }) + reply("Noop"),
    );
    await ask("Quit", {}, answer("Quit"));
    assertEquals(await client.rest(), "");
  }));

Deno.test("malformed binary requests are refused, and the connection stays open", () =>
  withProxy(async (client) => {
    const refused = async (
      sent: string,
      name: string,
      status: number,
      value: string,
    ): Promise<void> => {
      await client.ask(sent + request("Noop"), reply(name, { status, value }) + reply("Noop"));
    };
    const INVALID = "Invalid arguments";
    await refused(request("Flush"), "Flush", 0x81, "Unknown command");
    await refused(request("Get"), "Get", 4, INVALID);
    await refused(request("Get", { key: "a b" }), "Get", 4, INVALID);
    await refused(request("Get", { key: "a\r\nflush_all" }), "Get", 4, INVALID);
    await refused(request("Get", { key: "k".repeat(251) }), "Get", 4, INVALID);
    await refused(request("Get", { key: "k", extras: four(1) }), "Get", 4, INVALID);
    await refused(request("Get", { key: "k", value: "v" }), "Get", 4, INVALID);
    await refused(request("Set", { key: "k", value: "v" }), "Set", 4, INVALID);
    const long = { key: "k", extras: storing(0) };
    await refused(request("Set", { ...long, value: "v".repeat(1001) }), "Set", 3, "Too large.");
    await refused(request("Set", { ...long, value: "v".repeat(5000) }), "Set", 3, "Too large.");
    await client.ask(
      request("Set", { ...long, value: "v".repeat(1000) }),
      reply("Set", { cas: "1" }),
    );
    await client.send("\x80\0\0\x09\0\0\0\0\0\0\0\x01" + "\0".repeat(12) + "k");
    assertEquals(await client.rest(), reply("Get", { status: 4, value: INVALID }));
  }));
