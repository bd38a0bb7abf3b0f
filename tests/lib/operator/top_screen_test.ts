import { assertEquals } from "@std/assert";
import {
  type Choices,
  choicesOf,
  keysOf,
  pressed,
  screenLines,
  tableText,
} from "../../../lib/operator/top/screen.ts";
import { type Sample, type ViewName, VIEWS } from "../../../lib/operator/top/views.ts";

/** A server with one table. */
function sampleOf(table: string, figures: Readonly<Record<string, number | string>>): Sample {
  const values = new Map(Object.entries(figures).map(([stat, value]) => [stat, `${value}`]));
  return { name: "one:1", reason: "", now: new Map([[table, values]]), before: null, seconds: 1 };
}

/** Connections with these idle times, numbered from 0. */
function connections(...idle: readonly number[]): Sample {
  return sampleOf(
    "conns",
    Object.fromEntries(
      idle.flatMap((seconds, cfd) => [
        [`${cfd}:addr`, `peer${cfd}`],
        [`${cfd}:secs_since_last_cmd`, seconds],
      ]),
    ),
  );
}

const SIZE = { columns: 80, rows: 8 };
/** Rows between title, head and keys. */
const ROOM = 5;

/** Returns the first word of each row that is on the screen. */
function shownOf(samples: readonly Sample[], choices: Choices): string[] {
  return screenLines(samples, choices, SIZE, false).slice(2, -1).filter((line) => line !== "")
    .map((line) => line.trim().split(" ")[0]!);
}

function press(samples: readonly Sample[], choices: Choices, keys: string): Choices {
  return keysOf(keys).reduce((now, key) => pressed(now, key, samples, SIZE.rows)!, choices);
}

Deno.test("durations are cut to one unit, which changes where two digits of the next would do", () => {
  const idle = [0, 99.9, 100, 119, 5999, 6000, 172_799, 172_800, 864_000];
  const text = tableText([connections(...idle)], "connections");
  const written = text.trimEnd().split("\n").slice(1).map((line) => / (\S+)$/.exec(line)![1]);
  assertEquals(written.toReversed(), [
    ...["0s", "99s", "1m", "1m", "99m", "1h", "47h", "2d", "10d"],
  ]);
});

Deno.test("counts have steps of 1000, bytes of 1024, and both a digit behind the point", () => {
  const cells = (bytes: number, pages: number): string[] => {
    const sample = {
      ...sampleOf("items", { "items:1:number": pages }),
      now: new Map([
        ["items", new Map([["items:1:number", `${pages}`]])],
        ["slabs", new Map([["1:chunk_size", `${bytes}`]])],
      ]),
    };
    const [, chunk, , items] = tableText([sample], "classes").split("\n")[1]!.trim().split(/ +/);
    return [chunk!, items!];
  };
  assertEquals(cells(1024, 1024), ["1024", "1024"]);
  assertEquals(cells(99_999, 99_999), ["99999", "99999"]);
  assertEquals(cells(102_400, 100_000), ["100.0k", "100.0k"]);
  assertEquals(cells(2 ** 20, 1e6), ["1.0M", "1.0M"]);
  assertEquals(cells(3 * 2 ** 29, 1.5e9), ["1.5G", "1.5G"]);
  assertEquals(cells(2 ** 40, 1e12), ["1.0T", "1.0T"]);
  assertEquals(cells(2 ** 50, 1e15), ["1024.0T", "1000.0T"]);
  assertEquals(cells(1.25, 0.5), ["1.3", "0.5"]);
  const hotkeys = sampleOf("hotkeys", { "1:key": "a", "1:share": 1 / 3 });
  assertEquals(tableText([hotkeys], "hotkeys").split("\n")[1]!.trim().split(/ +/)[1], "33.3");
});

Deno.test("bytes a second are written as bytes are", () => {
  const looks = (bytes: number, before: number): Map<string, Map<string, string>> => {
    const counters = ["bytes_read", "bytes_written"].map((stat) => [stat, `${before}`] as const);
    return new Map([["", new Map([["bytes", `${bytes}`], ...counters])]]);
  };
  const titles = VIEWS.servers.columns.map(([title]) => title);
  for (const bytes of [0, 1023, 99_999, 100_000, 2 ** 20, 1.5e9, 2 ** 40]) {
    const sample: Sample = {
      ...{ name: "one:1", reason: "", seconds: 1 },
      ...{ now: looks(bytes, bytes), before: looks(0, 0) },
    };
    const [head, line] = tableText([sample], "servers").split("\n");
    // Numbers end where their titles end.
    const cell = (title: string): string => {
      const end = titles.slice(0, titles.indexOf(title)).reduce(
        (at, each) => head!.indexOf(each, at) + each.length,
        0,
      );
      const stop = head!.indexOf(title, end) + title.length;
      return line!.slice(end, stop).trim();
    };
    assertEquals([cell("in/s"), cell("out/s")], [cell("mem"), cell("mem")], `${bytes} bytes`);
  }
});

Deno.test("rates have a digit behind the point unless they are whole; a reset has a dash", () => {
  const rateOf = (now: number): string => {
    const sample = {
      ...sampleOf("rows", { puts: now }),
      before: new Map([["rows", new Map([["puts", "10"]])]]),
      seconds: 4,
    };
    return tableText([sample], "rows").split("\n")[1]!.trim().split(/ +/)[1]!;
  };
  assertEquals([rateOf(14), rateOf(15), rateOf(9)], ["1", "1.3", "-"]);
});

Deno.test("a text is cut to 48 characters, and has no character that controls a terminal", () => {
  const long = `${"a".repeat(47)}bc`;
  const text = tableText([sampleOf("rows", { [long]: 1, "x\x1b[2Jy\u00e9": 2 })], "rows");
  assertEquals(text.split("\n").slice(1, 3).map((line) => line.split(" ")[0]), [
    `${"a".repeat(47)}b`,
    "x?[2Jy?",
  ]);
});

Deno.test("texts stand on the left of their columns and numbers on the right", () => {
  const text = tableText([sampleOf("rows", { a: 5, long_name: 1234 })], "rows");
  assertEquals(
    text,
    [
      "statistic  per s  value",
      "a              -      5",
      "long_name      -   1234",
      "",
    ].join("\n"),
  );
});

Deno.test("texts rise and numbers fall at first; r turns the order, and unknown ones change places", () => {
  const samples = [connections(5, 70, 20)];
  const byIdle = choicesOf("connections");
  assertEquals(byIdle.sort, "idle");
  assertEquals(shownOf(samples, byIdle), ["1", "2", "0"]);
  assertEquals(shownOf(samples, { ...byIdle, isReversed: true }), ["0", "2", "1"]);
  const byText = { ...byIdle, sort: "address" };
  assertEquals(shownOf(samples, byText), ["0", "1", "2"]);
  assertEquals(shownOf(samples, { ...byText, isReversed: true }), ["2", "1", "0"]);
  assertEquals(shownOf(samples, { ...byIdle, sort: "no such column" }), ["2", "1", "0"]);
});

Deno.test("the head marks the column that sorts, and which way", () => {
  const head = (choices: Choices): string =>
    screenLines([connections(1)], choices, SIZE, false)[1]!.trimEnd();
  const choices = choicesOf("connections");
  assertEquals(head(choices), "cfd  address  state  idle*");
  assertEquals(head({ ...choices, sort: "cfd", isReversed: true }), "cfd^  address  state  idle");
});

Deno.test("the title tells of the view, rows behind the filter, the pause and the filter", () => {
  const samples = [connections(1, 2)];
  const title = (choices: Partial<Choices>): string =>
    screenLines(samples, { ...choicesOf("connections"), ...choices }, SIZE, false)[0]!;
  assertEquals(title({}), "leased top: connections, 2 rows");
  assertEquals(title({ isPaused: true }), "leased top: connections, 2 rows, paused");
  assertEquals(title({ filter: "PEER1" }), "leased top: connections, 1 rows, filter: PEER1");
  assertEquals(title({ isTyping: true }), "leased top: connections, 2 rows, filter: ");
  const keys = (choices: Partial<Choices>): string =>
    screenLines(samples, { ...choicesOf("connections"), ...choices }, SIZE, false).at(-1)!;
  assertEquals(keys({}).startsWith("q quit  space pause"), true);
  assertEquals(keys({ isTyping: true, filter: "ab" }), "filter: ab_");
});

Deno.test("a screen has as many lines as the terminal, filled with empty ones", () => {
  const samples = [connections(1, 2)];
  for (const rows of [1, 2, 3, 4, 10]) {
    const lines = screenLines(samples, choicesOf("connections"), { columns: 80, rows }, false);
    assertEquals(lines.length, rows);
    if (rows > 3) assertEquals(lines[2]!.trim().split(" ")[0], "1");
  }
  const lines = screenLines(samples, choicesOf("connections"), { columns: 80, rows: 10 }, false);
  assertEquals(lines.slice(4, 9), ["", "", "", "", ""]);
  assertEquals(screenLines(samples, choicesOf("connections"), { columns: 80, rows: 0 }, false), [
    "leased top: connections, 2 rows",
  ]);
});

Deno.test("a column that fits to the last character is shown, and one less room leaves it out", () => {
  // "cfd  address  state  idle*" has 26 characters, with the mark behind the title that sorts.
  const head = (columns: number): string =>
    screenLines([connections(1)], choicesOf("connections"), { columns, rows: 8 }, false)[1]!;
  const wide = { columns: 80, rows: 8 };
  const whole = screenLines([connections(1)], choicesOf("connections"), wide, false)[1]!.trimEnd();
  let fitting = 80;
  while (head(fitting).includes("idle")) fitting--;
  assertEquals(head(fitting).trimEnd(), "cfd  address  state");
  assertEquals(head(fitting + 1).trimEnd(), whole);
  // Each column has room for the mark of the column that sorts.
  assertEquals(fitting + 1, "cfd_  address_  state_  idle_".length);
  assertEquals([head(1), head(8).trimEnd()], ["c", "cfd"]);
});

Deno.test("rows that are equal in the column that sorts keep their order, whichever way it sorts", () => {
  const same = Object.fromEntries(
    [0, 1, 2].flatMap((cfd) => [[`${cfd}:addr`, "peer"], [`${cfd}:secs_since_last_cmd`, 5 - cfd]]),
  );
  for (const sort of ["address", "idle"]) {
    for (const isReversed of [false, true]) {
      const choices = { ...choicesOf("connections"), sort, isReversed };
      const order = sort === "idle" && isReversed ? ["2", "1", "0"] : ["0", "1", "2"];
      assertEquals(shownOf([sampleOf("conns", same)], choices), order, `${sort} ${isReversed}`);
    }
  }
});

Deno.test("the keys of the arrows, pages, home and end scroll within the rows", () => {
  const samples = [connections(...Array.from({ length: 20 }, (_, index) => 100 - index))];
  const start = choicesOf("connections");
  const first = (keys: string): string => shownOf(samples, press(samples, start, keys))[0]!;
  const [UP, DOWN, PAGE_UP, PAGE_DOWN] = ["\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"];
  const [HOME, END] = ["\x1b[H", "\x1b[F"];
  assertEquals(first(""), "0");
  assertEquals(first(UP), "0");
  assertEquals(first(DOWN), "1");
  assertEquals(first(DOWN + DOWN + UP), "1");
  assertEquals(first(PAGE_DOWN), `${ROOM}`);
  assertEquals(first(PAGE_DOWN + DOWN + PAGE_UP), "1");
  assertEquals(first(END), `${20 - ROOM}`);
  assertEquals(first(END + DOWN), `${20 - ROOM}`);
  assertEquals(first(END + HOME), "0");
  assertEquals(press(samples, start, END).scroll, 20 - ROOM);
  // Fewer rows than before: the last ones are shown.
  assertEquals(shownOf([connections(9, 8)], { ...start, scroll: 15 }), ["0", "1"]);
  assertEquals(pressed(start, END, [connections(9, 8)], SIZE.rows)!.scroll, 0);
});

Deno.test("left and right choose the column that sorts, around the ends", () => {
  const samples = [connections(1)];
  const start = choicesOf("connections");
  const sortAfter = (keys: string, servers = samples): string => press(servers, start, keys).sort;
  assertEquals(sortAfter("\x1b[C"), "cfd");
  assertEquals(sortAfter("\x1b[D"), "state");
  assertEquals(sortAfter("\x1b[D\x1b[D\x1b[D\x1b[D"), "idle");
  // With two servers, the first column is the server.
  assertEquals(sortAfter("\x1b[C", [connections(1), connections(2)]), "server");
});

Deno.test("tab goes through all views and back to the first, and forgets filter and sort", () => {
  const samples = [connections(1)];
  const names = Object.keys(VIEWS) as ViewName[];
  let choices: Choices = { ...choicesOf(names[0]!), filter: "x", sort: "up", isReversed: true };
  for (const name of [...names.slice(1), names[0]!]) {
    choices = press(samples, choices, "\t");
    assertEquals(choices, choicesOf(name));
  }
});

Deno.test("a filter takes printable characters, up to 60, until enter or escape", () => {
  const samples = [connections(1)];
  const start: Choices = { ...choicesOf("connections"), scroll: 3 };
  const after = (keys: string): Pick<Choices, "filter" | "isTyping" | "scroll"> => {
    const { filter, isTyping, scroll } = press(samples, start, keys);
    return { filter, isTyping, scroll };
  };
  assertEquals(after("/"), { filter: "", isTyping: true, scroll: 3 });
  assertEquals(after("/a"), { filter: "a", isTyping: true, scroll: 0 });
  // Keys that mean something outside of a filter are characters in it.
  assertEquals(after("/qr /"), { filter: "qr /", isTyping: true, scroll: 0 });
  assertEquals(after("/ab\b"), { filter: "a", isTyping: true, scroll: 0 });
  assertEquals(after("/ab\x7f"), { filter: "a", isTyping: true, scroll: 0 });
  assertEquals(after("/a\x1b[A\u00e9\x01"), { filter: "a", isTyping: true, scroll: 0 });
  assertEquals(after("/a\r"), { filter: "a", isTyping: false, scroll: 0 });
  assertEquals(after("/a\n"), { filter: "a", isTyping: false, scroll: 0 });
  assertEquals(after("/a\r/b"), { filter: "ab", isTyping: true, scroll: 0 });
  assertEquals(after("/a\x1b"), { filter: "", isTyping: false, scroll: 0 });
  assertEquals(after(`/${"z".repeat(61)}`).filter, "z".repeat(60));
});

Deno.test("space pauses and goes on, r turns the order back, and other keys change nothing", () => {
  const samples = [connections(1)];
  const start = choicesOf("connections");
  assertEquals(press(samples, start, " "), { ...start, isPaused: true });
  assertEquals(press(samples, start, "  "), start);
  assertEquals(press(samples, start, "r"), { ...start, isReversed: true });
  assertEquals(press(samples, start, "rr"), start);
  for (const key of ["x", "\x1b", "\x1b[Z", "Q"]) assertEquals(press(samples, start, key), start);
  assertEquals(pressed(start, "q", samples, 8), null);
  assertEquals(pressed(start, "\x03", samples, 8), null);
});

Deno.test("what a terminal sends is split into characters and whole sequences", () => {
  assertEquals(keysOf("a\x1b[A\x1b[5~\x1b[1;5Cq\x1b\n"), [
    ...["a", "\x1b[A", "\x1b[5~", "\x1b[1;5C", "q", "\x1b", "\n"],
  ]);
  assertEquals(keysOf(""), []);
});

Deno.test("a server that lacks every table of a view is named below the rows, one that lacks some is not", () => {
  const lacking = (...absent: readonly string[]): Sample => ({
    ...connections(),
    name: "two:2",
    now: new Map(
      ["items", "slabs"].map((name) => [name, absent.includes(name) ? null : new Map()]),
    ),
  });
  assertEquals(tableText([lacking("items", "slabs")], "classes").split("\n").slice(1), [
    "two:2: has no stats items",
    "",
  ]);
  assertEquals(tableText([lacking("slabs")], "classes").split("\n").slice(1), [""]);
  const reason = "cannot\x07";
  assertEquals(tableText([{ ...lacking(), reason }], "classes").split("\n")[1], "two:2: cannot?");
});
