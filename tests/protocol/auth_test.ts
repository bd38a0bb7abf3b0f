import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Access } from "../../protocol/auth/access.ts";
import { Verdicts } from "../../protocol/auth/password_checks.ts";
import { BINARY_COMMANDS } from "../../protocol/binary/table.ts";
import { COMMANDS } from "../../protocol/text/table.ts";
import { STAT } from "../../store/stats.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import {
  binaryReplies,
  type RowRequest,
  rowRequests,
  saslLogin,
  textLogin,
  USER_LINES,
  withoutRefusals,
} from "../support/sessions/auth_requests.ts";

// No command before authentication, and none above a user's level, reads or changes anything.

const UNAUTHENTICATED = "CLIENT_ERROR unauthenticated\r\n";
const FAILED = "CLIENT_ERROR authentication failure\r\n";
const NOT_PERMITTED =
  /^CLIENT_ERROR not permitted: this user (?:may only read|is no node|is no administrator)\r\n$/;
const REFUSED = 0x20;
/** Commands that change, or tell, something else in every run: the options that allow them all. */
const OPTIONS = ["-z", "80", "-A", "--tokens", "volatile", "--token-quarantine", "0"];

const REQUESTS = rowRequests();
/** Counts that connections and authentications change. */
const TRAFFIC = new Set([
  ...["bytes_read", "bytes_written", "auth_cmds", "auth_errors"],
  ...["total_connections", "rejected_connections"],
]);

function withSide(run: (side: ConversationSide) => void, ...options: string[]): void {
  const file = Deno.makeTempFileSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(file, USER_LINES);
    using side = new ConversationSide([
      ...["-Y", file, "-S", "-B", "auto", "--allow-token-drop"],
      ...OPTIONS,
      ...options,
    ]);
    side.advanceNow(1);
    const ann = side.connect();
    assertEquals(ann.ask(textLogin("ann", "nna")), "STORED\r\n");
    assertEquals(ann.ask("set secret-key 0 0 1\r\n1\r\n"), "STORED\r\n");
    ann.disconnect();
    run(side);
  } finally {
    Deno.removeSync(file);
  }
}

/** All that a command could change or count, but for traffic, connections and authentications. */
function traces(side: ConversationSide): string {
  const { memory, tunables, ops } = side.thread;
  const counted = Object.entries(STAT).filter(([name]) => !TRAFFIC.has(name))
    .map(([, index]) => memory.stats[index]);
  const asked = [
    ...COMMANDS.map(({ index }) => ops.text(index)),
    ...BINARY_COMMANDS.map(({ opcode }) => ops.binary(opcode)),
  ];
  const tuned = tunables.text("verbosity") + tunables.text("detail_enabled");
  return JSON.stringify([counted, asked, tuned, side.shutdown, side.drops.length]);
}

const isSasl = ({ name }: RowRequest): boolean => /^binary (?:Sasl|Version)/.test(name);

Deno.test("before authentication every row of the command tables is refused, and changes and counts nothing", () => {
  withSide((side) => {
    for (const request of REQUESTS.filter((each) => !isSasl(each))) {
      const before = traces(side);
      const peer = side.connect();
      const reply = peer.ask(request.text);
      if (request.isBinary) {
        assertEquals(binaryReplies(reply).map(({ status }) => status), [REFUSED], request.name);
        assert(peer.closed, request.name);
      } else if (request.text.length < 7) {
        assert(reply === "" && peer.closed, request.name);
      } else {
        assert(withoutRefusals(reply) === "" && reply !== "", request.name);
      }
      peer.disconnect();
      assertEquals(traces(side), before, request.name);
    }
  });
});

Deno.test("requests behind a wrong password, in the same packet or later, are refused", () => {
  withSide((side) => {
    for (const request of REQUESTS.filter((each) => !isSasl(each))) {
      for (const isSplit of [false, true]) {
        const before = traces(side);
        const peer = side.connect();
        const login = request.isBinary ? saslLogin("ann", "wrong") : textLogin("ann", "wrong");
        const reply = isSplit
          ? peer.ask(login) + peer.ask(request.text)
          : peer.ask(login + request.text);
        const what = `${request.name}, split: ${isSplit}`;
        if (request.isBinary) {
          const statuses = binaryReplies(reply).map(({ status }) => status);
          assertEquals(statuses, [REFUSED, REFUSED], what);
        } else {
          assert(reply.startsWith(FAILED), what);
          assertEquals(withoutRefusals(reply), "", what);
        }
        peer.disconnect();
        // The attempt itself is a command of the binary table.
        if (!request.isBinary) assertEquals(traces(side), before, what);
      }
    }
  });
});

Deno.test("the time to authenticate does not begin anew with a wrong password", () => {
  withSide((side) => {
    for (const login of [textLogin, saslLogin]) {
      const [guesser, silent] = [side.connect(), side.connect()];
      for (let guess = 0; guess < 3; guess++) {
        side.advanceNow(2);
        guesser.ask(login("ann", `guess${guess}`));
        assertEquals(guesser.unauthenticatedSinceSec, silent.unauthenticatedSinceSec);
      }
      side.advanceNow(2);
      guesser.ask(login("ann", "nna"));
      assertEquals(guesser.unauthenticatedSinceSec, 0);
      // By text, what follows is a set.
      if (login === textLogin) continue;
      guesser.ask(login("ann", "no"));
      assertEquals(guesser.unauthenticatedSinceSec, side.connect().unauthenticatedSinceSec);
    }
  });
});

Deno.test("requests that wait behind a password check run after a right one only", () => {
  withSide((side) => {
    for (const request of REQUESTS.filter((each) => !isSasl(each))) {
      for (const isRight of [false, true]) {
        side.heldVerdicts = [];
        const peer = side.connect();
        const password = isRight ? "bob" : "no";
        const login = request.isBinary ? saslLogin("bob", password) : textLogin("bob", password);
        const before = request.isBinary ? "" : traces(side);
        assertEquals(peer.ask(login + request.text), "", request.name);
        assert(peer.isWaiting, request.name);
        if (!request.isBinary) assertEquals(traces(side), before, request.name);
        side.deliverVerdicts();
        const reply = peer.ask("");
        if (request.isBinary) {
          const [first, second] = binaryReplies(reply);
          assertEquals(first!.status, isRight ? 0 : REFUSED, request.name);
          if (!isRight) assertEquals(second!.status, REFUSED, request.name);
        } else {
          assert(reply.startsWith(isRight ? "STORED\r\n" : FAILED), request.name);
          if (!isRight) assertEquals(withoutRefusals(reply), "", request.name);
          else assert(!reply.includes("unauthenticated"), request.name);
        }
        side.heldVerdicts = null;
        peer.disconnect();
      }
    }
  });
});

Deno.test("a long line before authentication closes the connection, however much of its block follows", () => {
  withSide((side) => {
    for (const length of [2100, 5000, 9000, 15_000]) {
      for (const blockLength of [9, 300, 4096]) {
        const line = `set ${"k".repeat(length)} 0 0 ${blockLength}\r\n`;
        for (const sent of [0, 1, blockLength - 1]) {
          const peer = side.connect();
          assertEquals(peer.ask(line + "ann nna".padEnd(blockLength, "x").slice(0, sent)), "");
          assert(peer.closed, `${length} + ${sent} of ${blockLength}`);
          peer.disconnect();
        }
      }
    }
  });
});

Deno.test("the verdict about a connection that is gone says nothing about the next one in its row", () => {
  withSide((side) => {
    side.heldVerdicts = [];
    const peer = side.connect();
    peer.ask(textLogin("ann", "nna"));
    peer.disconnect();
    const next = side.connect();
    next.ask(textLogin("ann", "wrong"));
    side.deliverVerdicts(1);
    assert(next.isWaiting);
    side.deliverVerdicts();
    side.heldVerdicts = null;
    assertEquals(next.ask("get secret-key\r\n"), FAILED + UNAUTHENTICATED);
    assertEquals(next.ask(textLogin("carl", "lrac")), "STORED\r\n");
    next.disconnect();
  });
});

Deno.test("no connection waits for the verdict about one that is gone", () => {
  withSide((side) => {
    side.heldVerdicts = [];
    const verdicts = new Verdicts(side.shared.verdicts!, side.thread.connections);
    const peer = side.connect();
    peer.ask(textLogin("ann", "nna"));
    assert(verdicts.isAwaited(peer.owner));
    peer.disconnect();
    assert(!verdicts.isAwaited(peer.owner));
  });
});

Deno.test("by SASL a user may ask for its own rights only", () => {
  withSide((side) => {
    const statusAs = (identity: string): number => {
      const peer = side.connect();
      const value = `${identity}\0carl\0lrac`;
      const reply = peer.ask(packetText({ opcode: 0x21, key: "PLAIN", extras: "", value }));
      peer.disconnect();
      return binaryReplies(reply)[0]!.status;
    };
    assertEquals(["", "carl"].map(statusAs), [0, 0]);
    assertEquals(["ann", "car", "carlo"].map(statusAs), [REFUSED, REFUSED, REFUSED]);
  });
});

Deno.test("a user gives the commands of its level, and no others", () => {
  const users = [["bob", "bob", Access.WRITE], ["carl", "lrac", Access.READ]] as const;
  withSide((side) => {
    for (const [user, password, access] of users) {
      for (const request of REQUESTS.filter((each) => !isSasl(each) && each.access !== null)) {
        const peer = side.connect();
        peer.ask(request.isBinary ? saslLogin(user, password) : textLogin(user, password));
        const reply = peer.ask(request.text);
        const what = `${user}: ${request.name}`;
        const isRefused = request.isBinary
          ? binaryReplies(reply)[0]?.status === REFUSED
          : NOT_PERMITTED.test(reply);
        assertEquals(isRefused, request.access! > access, what);
        if (isRefused) assert(!peer.closed, what);
        peer.disconnect();
      }
    }
  });
});

Deno.test("commands whose level depends on their words", () => {
  withSide((side) => {
    const ask = (user: string, request: string): string => {
      const peer = side.connect();
      peer.ask(textLogin(user, { ann: "nna", bob: "bob", carl: "lrac" }[user]!));
      const reply = peer.ask(request);
      peer.disconnect();
      return reply;
    };
    const onlyRead = "CLIENT_ERROR not permitted: this user may only read\r\n";
    const noAdmin = "CLIENT_ERROR not permitted: this user is no administrator\r\n";
    assertStringIncludes(ask("carl", "stats\r\n"), "STAT pid");
    assertStringIncludes(ask("carl", "stats settings\r\n"), "auth_enabled_ascii");
    for (const word of ["reset", "r", "detail dump", "cachedump 1 1", "c", "conns"]) {
      assertEquals(ask("bob", `stats ${word}\r\n`), noAdmin, word);
    }
    assertEquals(ask("carl", "mg secret-key v\r\n"), "VA 1\r\n1\r\n");
    for (const flag of ["N60", "T60", "R60", "k T0", "N0 q"]) {
      assertEquals(ask("carl", `mg secret-key v ${flag}\r\n`), onlyRead, flag);
    }
    assertEquals(
      ask("carl", "set secret-key 0 0 3 \r\nabc\r\nget secret-key\r\n"),
      `${onlyRead}VALUE secret-key 0 1\r\n1\r\nEND\r\n`,
    );
    assertEquals(ask("carl", "set secret-key 0 0 3 noreply\r\nabc\r\nmn\r\n"), "MN\r\n");
    assertEquals(ask("carl", "ms secret-key 3 q\r\nabc\r\nmn\r\n"), `${onlyRead}MN\r\n`);
    assertEquals(
      ask("carl", `set k 0 0 9000\r\n${"x".repeat(9000)}\r\nmn\r\n`),
      `${onlyRead}MN\r\n`,
    );
    assertEquals(ask("carl", "getss 10 absent\r\n"), onlyRead);
    assertEquals(ask("carl", "get absent secret-key\r\n"), "VALUE secret-key 0 1\r\n1\r\nEND\r\n");
    assertEquals(ask("bob", "lock secret-key\r\n"), "OK\r\n");
    assertEquals(ask("bob", "lock list\r\n"), noAdmin);
    assertEquals(ask("carl", "nodes\r\n"), "ERROR\r\n");
    assertEquals(ask("bob", "nodes forget one\r\n"), noAdmin);
    assertStringIncludes(ask("bob", "token get other\r\n"), "TOKEN ");
    assertEquals(ask("bob", "token list\r\n"), noAdmin);
    assertStringIncludes(ask("ann", "token list\r\n"), "TOKEN other");
  });
});

Deno.test("binary statistics are for every user, except the words that change them", () => {
  withSide((side) => {
    const status = (login: string, key: string): number => {
      const peer = side.connect();
      peer.ask(login);
      const reply = peer.ask(packetText({ opcode: 0x10, key, extras: "", value: "" }));
      peer.disconnect();
      return binaryReplies(reply)[0]!.status;
    };
    const words = ["", "settings", "reset", "detail on"];
    assertEquals(words.map((word) => status(saslLogin("ann", "nna"), word)), [0, 0, 0, 0]);
    assertEquals(words.map((word) => status(saslLogin("carl", "lrac"), word)), [
      ...[0, 0, REFUSED, REFUSED],
    ]);
  });
});

Deno.test("every row of the command tables has a level that a request of the tests reaches", () => {
  const names = new Set(REQUESTS.map(({ name }) => name.split(" ").slice(0, 2).join(" ")));
  for (const { name } of COMMANDS) {
    assert([...names].some((each) => each.split(" ")[0] === name), name);
  }
  for (const { name } of BINARY_COMMANDS) assert(names.has(`binary ${name}`), name);
});

Deno.test("a change of a level in a table is noticed", () => {
  // Written out, so that a change of a table alone is noticed.
  const expected = new Map<Access, string>([
    [Access.NONE, "Version SaslMechanisms SaslAuth SaslStep"],
    [
      Access.READ,
      "get gets uget uread caches follow version me mn quit Get Quit GetQ Noop GetK GetKQ QuitQ",
    ],
    [Access.NODE, "node"],
    [
      Access.ADMIN,
      "lease quarantine flush_all verbosity refresh_certs cache_memlimit keys shutdown debugtime watch slabs lru " +
      "lru_crawler Flush FlushQ Keys",
    ],
  ]);
  for (const [level, names] of expected) {
    const found = [...COMMANDS, ...BINARY_COMMANDS].filter(({ access }) => access === level);
    assertEquals(found.map(({ name }) => name).join(" "), names);
  }
});

Deno.test("without -S the binary protocol knows no SASL", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  assertEquals(binaryReplies(peer.ask(saslLogin("ann", "nna")))[0]!.status, 0x81);
  peer.disconnect();
});

Deno.test("an authentication that arrives in two pieces, cut at any byte, is the same", () => {
  withSide((side) => {
    const play = (pieces: readonly string[]): string => {
      const peer = side.connect();
      const reply = pieces.map((piece) => peer.ask(piece)).join("");
      peer.disconnect();
      return reply;
    };
    const byText = textLogin("ann", "no") + textLogin("ann", "nna") + "get secret-key\r\n";
    const bySasl = saslLogin("ann", "no") + saslLogin("ann", "nna");
    for (const request of [byText, bySasl]) {
      const whole = play([request]);
      for (let cut = 1; cut < request.length; cut++) {
        assertEquals(play([request.slice(0, cut), request.slice(cut)]), whole, `cut at ${cut}`);
      }
      assertEquals(play([...request]), whole);
    }
  });
});

Deno.test("a login of any length is refused whole, and the next one is read", () => {
  withSide((side) => {
    for (const length of [100, 3000, 4000, 4096, 4097, 4098, 10_000, 16_300]) {
      const peer = side.connect();
      const byText = textLogin("ann", "x".repeat(length)) + textLogin("ann", "nna");
      assertEquals(peer.ask(`${byText}mn\r\n`), `${FAILED}STORED\r\nMN\r\n`, `${length}`);
      peer.disconnect();
      const other = side.connect();
      const refused = other.ask(saslLogin("ann", "x".repeat(length)));
      assertEquals(other.ask(saslLogin("ann", "x".repeat(100))), refused, `${length}`);
      assertStringIncludes(other.ask(saslLogin("ann", "nna")), "Authenticated", `${length}`);
      other.disconnect();
    }
  });
});

Deno.test("what comes before authentication takes bounded memory", () => {
  withSide((side) => {
    const waiting = [
      "set x 0 0 4096\r\n" + "y".repeat(4097),
      "x".repeat(2048),
      "set x 0 0 16384\r\n" + "y".repeat(16_000),
      saslLogin("ann", "x".repeat(3000)).slice(0, -1),
      saslLogin("ann", "x".repeat(500_000)).slice(0, -1),
    ];
    for (const text of waiting) {
      const peer = side.connect();
      peer.ask(text);
      assert(!peer.closed && peer.pendingLength <= 8192, `${peer.pendingLength}`);
      peer.disconnect();
    }
    const peer = side.connect();
    peer.ask("x".repeat(2049));
    assert(peer.closed);
  });
});

Deno.test("-vvv logs no line of a client that has not authenticated", () => {
  withSide((side) => {
    const peer = side.connect();
    peer.ask("set x 0 0 x\r\nann my-secret-password\r\n");
    peer.ask(textLogin("ann", "nna"));
    peer.ask("get after\r\n");
    peer.disconnect();
    const log = JSON.stringify(side.events);
    assertStringIncludes(log, "get after");
    assert(!log.includes("my-secret-password") && !log.includes("nna"), log);
  }, "-vvv");
});
