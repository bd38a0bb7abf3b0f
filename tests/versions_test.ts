import { assertEquals } from "@std/assert";
import { drawSeed, withSeed } from "./support/seed.ts";
import { randomFrom } from "./support/random.ts";
import { ConversationSide } from "./support/sessions/conversation_side.ts";
import { held, movePage } from "./support/store.ts";
import { VersionAudit } from "./support/version_audit.ts";

// Reads without the mutex are right only if no writer forgets a version (store/memory/versions.ts). Here one thread
// executes random commands of every kind, and whatever readers could reach is compared at every change of a version.

const OPTIONS = ["-t", "2", "-m", "2", "-I", "128k"];
const COMMANDS = 700;
const KEYS = 60;

type Below = (end: number) => number;

/** Lengths of values: in one chunk, in a chain, of a number. */
function valueOf(below: Below): string {
  switch (below(6)) {
    case 0:
      return String(below(1000));
    case 1:
      return "x".repeat(below(12_000));
    case 2:
      return "c".repeat(15_000 + below(60_000));
    default:
      return String.fromCharCode(97 + below(26)).repeat(below(300));
  }
}

/** A random command. Ends of lines are added. */
function commandOf(below: Below): string {
  const key = `key${below(KEYS)}`;
  const value = valueOf(below);
  const flags = below(3) === 0 ? 7 : 0;
  const exptime = [0, 0, 0, 5, -1][below(5)]!;
  const store = (name: string): string =>
    `${name} ${key} ${flags} ${exptime} ${value.length}\r\n${value}`;
  const meta = (words: string): string => `ms ${key} ${value.length} ${words}\r\n${value}`;
  const commands = [
    () => store("set"),
    () => store("set"),
    () => store("set"),
    () => store("add"),
    () => store("replace"),
    () => store("append"),
    () => store("prepend"),
    () => meta(`F${flags} T5 E${below(1e9) + 1}`),
    () => meta("I C1 T0"),
    () => meta("MA"),
    () => `incr ${key} ${below(1e6)}`,
    () => `decr ${key} ${below(1e6)}`,
    () => `ma ${key} D${below(1e6)} E${below(1e9) + 1} v`,
    () => `ma ${key} N30 J7 v`,
    () => `delete ${key}`,
    () => `md ${key} I T30`,
    () => `md ${key} I E${below(1e9) + 1}`,
    () => `md ${key} x`,
    () => `md ${key} x I`,
    () => `mg ${key} v N30 R60`,
    () => `mg ${key} v c f t h l`,
    () => `touch ${key} 9`,
    () => `gat 9 ${key} key${below(KEYS)}`,
    () => `get ${key}`,
    () => `lock ${key}`,
    () => `unlock ${key}`,
    () => `getss 10 ${key}`,
    () => `deletess 10 ${key}`,
    () => `token get ${key} me`,
    () => `token drop ${key} unsafe`,
    () => `cache_memlimit ${1 + below(2)}`,
  ];
  return commands[below(commands.length)]!() + "\r\n";
}

function audit(seed: number): void {
  const random = randomFrom(seed);
  const below = (end: number): number => Math.floor(random() * end);
  using side = new ConversationSide(OPTIONS);
  const peer = side.connect();
  const { cache, memory } = side.thread;
  const watch = new VersionAudit(memory);
  for (let count = 0; count < COMMANDS && watch.faults.length === 0; count++) {
    let name = commandOf(below);
    switch (below(30)) {
      case 0:
        name = "maintenance";
        side.advanceNow(1);
        break;
      case 1:
        name = "page move";
        held(cache, () => movePage(cache, -1, 0));
        break;
      case 2:
        name = below(4) === 0 ? "flush_all\r\n" : "get x\r\n";
        peer.ask(name);
        break;
      default:
        peer.ask(name);
    }
    watch.endCommand(name.slice(0, 60));
  }
  assertEquals(watch.faults, []);
}

Deno.test("nothing that readers can reach changes while its version is even, and no key looks half changed", async () => {
  for (let run = 0; run < 3; run++) {
    await withSeed(drawSeed(), (seed) => Promise.resolve(audit(seed)));
  }
});
