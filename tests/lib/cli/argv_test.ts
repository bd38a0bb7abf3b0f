import { assert, assertEquals } from "@std/assert";
import { parseArguments } from "../../../lib/cli/argv.ts";

Deno.test("parseArguments() fills in memcached's defaults", () => {
  const { values, extended, errors, ignored, given } = parseArguments([]);
  assertEquals(errors, []);
  assertEquals(ignored, []);
  assertEquals(given.size, 0);
  assertEquals(values.port, 11211);
  assertEquals(values["memory-limit"], 64 * 1024 * 1024);
  assertEquals(values["max-item-size"], 1024 * 1024);
  assertEquals(values["conn-limit"], 1024);
  assertEquals(values.threads, 4);
  assertEquals(values["unix-mask"], 0o700);
  assertEquals(values.listen, ["127.0.0.1"]);
  assertEquals(extended.maxconns_fast, true);
  assertEquals(extended.idle_timeout, 0);
});

Deno.test("parseArguments() takes values glued on, behind =, and as the next word", () => {
  for (
    const argv of [
      ["-m64"],
      ["-m", "64"],
      ["-m64m"],
      ["--memory-limit=64"],
      [
        "--memory-limit",
        "64",
      ],
      ["-m", "65536k"],
      ["-m0.0625g"],
      ["-Mm64"],
      ["-v", "-m64mb"],
    ]
  ) {
    const { values, errors } = parseArguments(argv);
    assertEquals(errors, [], argv.join(" "));
    assertEquals(values["memory-limit"], 64 * 1024 * 1024, argv.join(" "));
  }
  assertEquals(parseArguments(["-p", "-1"]).values.port, -1);
  assertEquals(parseArguments(["-U-1"]).values["udp-port"], -1);
  assertEquals(parseArguments(["-l127.0.0.1:1"]).values.listen, ["127.0.0.1:1"]);
  assertEquals(parseArguments(["-s/tmp/a=b"]).values["unix-socket"], "/tmp/a=b");
  assertEquals(parseArguments(["-a", "0770"]).values["unix-mask"], 0o770);
});

Deno.test("parseArguments() counts -v, and takes the last of what is given twice", () => {
  assertEquals(parseArguments(["-vv"]).values.verbose, 2);
  assertEquals(parseArguments(["-v", "-v", "--verbose"]).values.verbose, 3);
  assertEquals(parseArguments(["-p", "1", "-p", "2"]).values.port, 2);
});

Deno.test("parseArguments() collects lists over commas, semicolons and repetition", () => {
  assertEquals(parseArguments(["-l", "a,b;c", "-l", "d"]).values.listen, ["a", "b", "c", "d"]);
  const { extended, errors } = parseArguments([
    "-o",
    "idle_timeout=5,no_maxconns_fast",
    "-oslab_layout=memcached",
  ]);
  assertEquals(errors, []);
  assertEquals(extended.idle_timeout, 5);
  assertEquals(extended.maxconns_fast, false);
  assertEquals(extended.slab_layout, "memcached");
});

Deno.test("parseArguments() accepts options without effect, and gives the reason of each", () => {
  const line =
    "-d -k -r -L -u memcache -N 2 -o modern,no_hashexpand,slab_automove,slab_automove=2,no_slab_automove," +
    "hashpower=20,hash_algorithm=jenkins,lru_crawler,no_lru_maintainer,relaxed_privileges,drop_privileges," +
    "no_drop_privileges,no_inline_ascii_resp,track_sizes,slab_sizes=100-200";
  const { errors, ignored } = parseArguments(line.split(" "));
  assertEquals(errors, []);
  assertEquals(ignored.slice(0, 6).map(({ option }) => option), [
    "-d (--daemon)",
    "-u (--user)",
    "-k (--lock-memory)",
    "-L (--enable-largepages)",
    "-r (--enable-coredumps)",
    "-N (--napi-ids)",
  ]);
  assertEquals(
    ignored.find(({ option }) => option === "-o no_hashexpand")?.reason,
    "the hash table starts small and grows with the items; there is nothing to set",
  );
  for (const { option, reason } of ignored) assert(reason.length > 20, `${option}: ${reason}`);
});

Deno.test("parseArguments() names everything that is wrong at once", () => {
  // deno-fmt-ignore
  const { errors } = parseArguments(["--prot", "1", "-m", "abc", "-t0", "-I", "2g", "-B", "asci", "-a", "9", "-f", "x",
    "-o", "idel_timeout=3,idle_timeout=-1,maxconns_fast=1,ext_path=/x,slab_layout,no_idle_timeout",
    "-Z", "-q", "--daemon=yes", "stray", "-c"]);
  assertEquals(errors, [
    "unknown option -q",
    "-d (--daemon): takes no value",
    "-c (--conn-limit): needs a value (connections)",
    "unknown option --prot; did you mean --port or --protocol?",
    'unexpected argument "stray": options start with -',
    '-a (--unix-mask) "9": must be an octal number, 0 to 777',
    '-m (--memory-limit) "abc": must be a size from 1m to 15g (a bare number is in MiB)',
    '-I (--max-item-size) "2g": must be a size from 1k to 1g (a bare number is in bytes)',
    '-t (--threads) "0": must be a whole number from 1 to 256',
    '-B (--protocol) "asci": must be auto, ascii or binary',
    '-f (--slab-growth-factor) "x": must be a number from 1.001 to 1024',
    "unknown option -o idel_timeout; did you mean idle_timeout?",
    '-o idle_timeout "-1": must be a whole number from 0 to 2147483647',
    '-o maxconns_fast: takes no value, got "1"',
    "-o ext_path is not supported: items live in memory only; raise -m, or run several servers",
    '-o slab_layout "": needs a value',
    "unknown option -o no_idle_timeout; did you mean idle_timeout?",
  ]);
});

Deno.test("parseArguments() says did you mean only when a word is near", () => {
  assertEquals(parseArguments(["--threds=2"]).errors, [
    "unknown option --threds; did you mean --threads?",
  ]);
  assertEquals(parseArguments(["--xyzzy"]).errors, ["unknown option --xyzzy"]);
  assertEquals(parseArguments(["-y"]).errors, ["unknown option -y"]);
});

Deno.test("parseArguments() is not confused by names that objects have", () => {
  for (const name of ["__proto__", "constructor", "toString", "a.b"]) {
    assertEquals(parseArguments([`--${name}=1`]).errors.length, 1, name);
    assertEquals(parseArguments(["-o", `${name}=1`]).errors.length, 1, name);
  }
});

Deno.test("parseArguments() says why -m ends at 15g", () => {
  assertEquals(parseArguments(["-m", "16g"]).errors, [
    '-m (--memory-limit) "16g": must be a size from 1m to 15g (a bare number is in MiB); ' +
    "one server addresses at most 15 GiB; run several for more",
  ]);
});
