import { assertEquals, assertMatch } from "@std/assert";
import { refuseUsage } from "../../lib/cli/exit.ts";
import { logConnection, logProcess } from "../../lib/process/log.ts";
import { loggedBy } from "../support/log.ts";

Deno.test("logConnection() obeys the verbosity, logProcess() does not", () => {
  const events = (): void => {
    logProcess("info", "started", "started");
    logConnection("warning", "accept_failed", "failed");
    logConnection("info", "connection_refused", "refused");
    logConnection("debug", "connection_opened", "opened");
  };
  assertEquals(loggedBy("text", 0, events), ["started", "warning: failed"]);
  assertEquals(loggedBy("text", 1, events), ["started", "warning: failed", "refused"]);
  assertEquals(loggedBy("text", 2, events), ["started", "warning: failed", "refused", "opened"]);
});

Deno.test("a JSON line has time, level, event, the fields and the message", () => {
  const [line] = loggedBy("json", 1, () => {
    logConnection("info", "connection_closed", "a {brace}", { peer: "tcp:x", conn: 3 });
  });
  const { time, ...rest } = JSON.parse(line!);
  assertMatch(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  assertEquals(rest, {
    level: "info",
    event: "connection_closed",
    peer: "tcp:x",
    conn: 3,
    message: "a {brace}",
  });
});

Deno.test("control characters of a message are escaped, in both formats", () => {
  const hostile = "a\x1b[31m\r\n\x00\x07b\x7f\x9bc \u010a é";
  const text = "a\\x1b[31m \\x00\\x07b\\x7f\\x9bc \u010a é";
  const log = (): void => logProcess("info", "hostile", hostile, { reason: hostile });
  assertEquals(loggedBy("text", 0, log), [text]);
  const [line] = loggedBy("json", 0, log);
  assertEquals(/\p{Cc}/u.test(line!), false, line);
  assertEquals(JSON.parse(line!).reason, hostile);
});

Deno.test("usage errors follow log_format", () => {
  const errors = ["-m (--memory-limit): needs a value (MiB)"];
  assertEquals(loggedBy("text", 0, () => refuseUsage(errors, "text")), [
    "leased: -m (--memory-limit): needs a value (MiB)",
    "leased: try --help for the list of options",
  ]);
  const lines = loggedBy("json", 0, () => refuseUsage(errors, "json"));
  assertEquals(
    lines.map((line) => JSON.parse(line)).map(({ event, message }) => [event, message]),
    [
      ["usage_error", errors[0]],
    ],
  );
});
