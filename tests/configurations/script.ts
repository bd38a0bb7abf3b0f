// The requests that every configuration answers, and the differences that its options make.

import type { Client } from "../support/servers/server_process.ts";
import type { Configuration } from "./covering.ts";

/** One request, whose reply is compared. `{key}` is replaced; `{cas}` by the id of the last `gets`. */
export interface Step {
  readonly name: string;
  readonly request: string;
}

const LONG = "v".repeat(100_000);

function step(request: string, name = request.replaceAll(/\r\n.*/gs, "")): Step {
  return { name, request: `${request}\r\n` };
}

/** Requests about ordinary items, with every option. */
export const ITEM_STEPS: readonly Step[] = [
  step("flush_all"),
  step("debugtime 0"),
  step("shutdown at once"),
  step("watch nothing"),
  step("lease list nothing"),
  step("token drop nothing unsafe"),
  step("get {key}"),
  step("set {key} 5 0 3\r\none"),
  step("add {key} 5 0 3\r\ntwo"),
  step("replace {key} 6 600 3\r\ntwo"),
  step("get {key}"),
  step("gets {key}"),
  step("cas {key} 7 0 5 {cas}\r\nthree"),
  step("cas {key} 7 0 5 {cas}\r\nfourx", "cas again"),
  step("set {key} 7 0 5\r\nthree"),
  step("append {key} 0 0 1\r\n!"),
  step("prepend {key} 0 0 1\r\n<"),
  step("get {key} {key}2 {key}"),
  step("touch {key} 600"),
  step("gat 0 {key}"),
  step("gats 0 {key}"),
  step("mg {key} f k s t v O1 q"),
  step("mg {key}2 v q"),
  step("ms {key}3 2 F9 T0 I\r\n77"),
  step("ma {key}3 D3 v t"),
  step("ma {key}3 MD D100 v"),
  step("mg {key}3 v k N60"),
  step("md {key}3 q"),
  step("md {key}3 O2"),
  step("set {key}4 0 0 2\r\n99"),
  step("incr {key}4 1"),
  step("decr {key}4 200"),
  step("incr {key} 1"),
  step("delete {key}4"),
  step("delete {key}4"),
  step("lock {key}"),
  step("lock {key}", "lock again"),
  step("unlock {key}"),
  step("unlock {key}", "unlock again"),
  step(`set {key}5 1 0 ${LONG.length}\r\n${LONG}`),
  step("get {key}5"),
  step("delete {key}5"),
  step("getss 5 {key}6"),
  step("lease-get {key}7"),
  step("token get {key}8 writer"),
  step("get {key}8"),
  step("set {key}8 0 0 1\r\nx"),
  step("bogus"),
  step("set {key} x"),
];

/** Requests about rows, at an origin and at a node. */
export const ROW_STEPS: readonly Step[] = [
  ...ITEM_STEPS.filter(({ request }) =>
    !/^(?:token|lease|getss|touch|gat|flush_all|debugtime|shutdown|watch|mg \S+ v k N)| 600 |key}8/
      .test(request)
  ),
  step("uget {key} {key}2"),
  step("touch {key} 600"),
  step("set {key}9 0 600 1\r\nx"),
  step("get {key}9"),
];

/** Plays steps, and returns the replies without what differs from server to server. */
export async function play(
  client: Client,
  key: string,
  steps: readonly Step[],
): Promise<string[]> {
  const replies = [];
  let cas = "1";
  for (const { request } of steps) {
    await client.send(request.replaceAll("{key}", key).replaceAll("{cas}", cas) + "mn\r\n");
    const reply = await client.until(/(?:^|\r\n)MN\r\n$/);
    if (request.startsWith("gets ")) cas = /^VALUE \S+ \d+ \d+ (\d+)/.exec(reply)?.[1] ?? cas;
    replies.push(comparable(reply));
  }
  return replies;
}

function comparable(reply: string): string {
  return reply.replace(/MN\r\n$/, "")
    .replaceAll(/^(VALUE \S+ \d+ \d+ )\d+(?=\r| [CN]\r)/gm, "$1<id>")
    .replaceAll(/^(LVALUE \S+ )\d{5,}/gm, "$1<id>")
    .replaceAll(/^TOKEN \d+/gm, "TOKEN <id>");
}

/** Replies that an option changes. */
// deno-fmt-ignore
const DIFFERENCES: readonly (readonly [option: string, step: RegExp, reply: RegExp])[] = [
  // option             step            reply
  ["compat=yrmcds",     /^lock again/,  /^LOCKED\r\n$/],
  ["disable-flush-all", /^flush_all/,   /^CLIENT_ERROR flush_all not allowed\r\n$/],
  ["test-commands",     /^debugtime/,   /^OK\r\n$/],
  ["enable-shutdown",   /^shutdown/,    /^CLIENT_ERROR invalid shutdown mode\r\n$/],
  ["disable-watch",     /^watch/,       /^CLIENT_ERROR watch commands not allowed\r\n$/],
  ["disable-dumping",   /^lease list/,  /^ERROR lease list not allowed\r\n$/],
  ["allow-token-drop",  /^token drop/,  /^(?:SERVER_ERROR update tokens need a state directory|OK 0)\r\n$/],
  ["node",              /^lock/,        /^CLIENT_ERROR rows cannot be locked at a node: lock them at its origin\r\n$/],
  ["node",              /^unlock/,      /^CLIENT_ERROR object is not locked or not found\r\n$/],
  ["disable-cas",       /^cas \{/,      /^EXISTS\r\n$/],
  ["row-expiry=ignore", /^touch/,       /^TOUCHED\r\n$/],
  ["row-expiry=ignore", /^set \{key\}9/, /^STORED\r\n$/],
  ["row-expiry=ignore", /^get \{key\}9/, /^VALUE \S+ 0 1\r\nx\r\nEND\r\n$/],
  ["row-expiry=column", /^touch/,       /^TOUCHED\r\n$/],
  ["row-expiry=column", /^set \{key\}9/, /^STORED\r\n$/],
  ["row-expiry=column", /^get \{key\}9/, /^VALUE \S+ 0 1\r\nx\r\nEND\r\n$/],
  ["lease-flag",        /^getss/,       /^VALUE \S+ \d+ 1 <id>\r\n0\r\nEND\r\n$/],
  ["lease-entries=0",   /^lease-get/,   /^SERVER_ERROR out of memory storing lease\r\n$/],
  ["state-dir",         /^token get/,   /^TOKEN <id>\r\n$/],
  ["state-dir",         /^set \{key\}8/, /^NOT_STORED\r\n$/],
  ["tokens=volatile",   /^token get/,   /^TOKEN <id>\r\n$/],
  ["tokens=volatile",   /^set \{key\}8/, /^NOT_STORED\r\n$/],
];

/** Whether the configuration is known to answer the step so. */
export function isDeclared({ role, given }: Configuration, { name }: Step, reply: string): boolean {
  return DIFFERENCES.some(([option, step, pattern]) => {
    const [optionName = "", value] = option.split("=");
    const holds = option === role ||
      (value === undefined ? given.has(optionName) : given.get(optionName) === value);
    return holds && step.test(name) && pattern.test(reply);
  });
}
