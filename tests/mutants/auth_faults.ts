import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/** Faults in authentication: which clients may do what, and how fast passwords can be guessed. */
export const AUTH_FAULTS: readonly Fault[] = [
  ...faults("protocol/waits/auth_wait.ts", "protocol/auth", [
    ["a wrong password gives access", "conversation.grant(access);", "conversation.grant(Access.ADMIN);"],
  ]),
  ...faults("protocol/auth/password_checks.ts", "protocol/auth", [
    ["a verdict goes to the next connection with the same row",
      "Atomics.compareExchange(this.#words, row, owner, -1 - access) === owner", "Atomics.exchange(this.#words, row, -1 - access) === owner"],
  ]),
  ...faults("protocol/binary/table.ts", "protocol/auth", [
    ["binary commands are executed before authentication", "BINARY_COMMANDS.filter((command) => command.access === OPEN)", "BINARY_COMMANDS"],
  ]),
  ...faults("protocol/text/table.ts", "protocol/auth", [
    ["a user who may only read may write", "needed(conversation) <= access", "true"],
  ]),
  ...faults("protocol/text/parser.ts", "protocol/auth", [
    ["a user who may only read stores by a plain set", "if (this.#mayWrite && this.#readSet(start, end)) {", "if (this.#readSet(start, end)) {"],
  ]),
  ...faults("protocol/conversation.ts", "protocol/auth", [
    ["no client has to authenticate", "this.access = isOpen ? Access.ADMIN : Access.NONE;", "this.access = Access.ADMIN;"],
  ]),
  ...faults("protocol/binary/table.ts", "protocol/auth", [
    ["every user may give every command of the binary protocol", "return rule <= access ? command", "return rule >= 0 ? command"],
  ]),
  ...faults("protocol/meta/get.ts", "protocol/auth", [
    ["a user who may only read may create placeholders", "letter === FLAG.N || letter === FLAG.T", "letter === FLAG.T"],
  ]),
  ...faults("protocol/text/refuse_access.ts", "protocol/auth", [
    ["the data block of a refused command is read as commands",
      "return lengthWord > 0 ? swallowBlock(conversation) : Flow.DONE;", "return Flow.DONE;"],
  ]),
  ...faults("protocol/auth/sasl_plain.ts", "protocol/auth", [
    ["a user may ask for the rights of another one", "return isOwn && user.length > 0", "return user.length > 0"],
  ]),
  ...faults("protocol/waits/auth_wait.ts", "protocol/auth", [
    ["a password is checked for a connection that is gone", "auth!.end(this.#owner);", "void auth;"],
  ]),
  ...faults("lib/auth/throttle.ts", "lib/auth/throttle", [
    ["every address that ever failed is remembered", "if (this.#rows.size > ADDRESSES_MAX)", "if (false)"],
  ]),
  ...faults("lib/auth/authenticator.ts", "lib/auth/authenticator", [
    ["passwords of one address fill the queue of hashes", "ofAddress >= HASHES_PER_ADDRESS_MAX || ", ""],
    ["clients that are gone cost a check",
      "if (this.#stopped || !attempt.isAwaited()) return Access.NONE;", "if (this.#stopped) return Access.NONE;"],
    ["any number of attempts wait because their addresses are slowed down",
      "if (this.#sleepers.size >= SLOWED_MAX || this.#stopped)", "if (this.#stopped)"],
    ["a user with several lines gets the access of the first one",
      "for (const each of known ?? [this.#decoy]) {", "for (const each of known?.slice(0, 1) ?? [this.#decoy]) {"],
    ["a longer password with the right beginning gives access",
      "return createHmac(\"sha256\", this.#key).update(bytes)", "return createHmac(\"sha256\", this.#key).update(bytes.subarray(0, 3))"],
  ]),
  ...faults("protocol/text/table.ts", "protocol/auth", [
    ["a user who may write may give one command of administrators",
      "[\"lru_crawler\",   1,     true,    0,      ADMIN, ", "[\"lru_crawler\",   1,     true,    0,      WRITE, "],
    ["every user may give one command of administrators",
      "needed(conversation) <= access\n        ?", "row.name === \"flush_all\" || needed(conversation) <= access\n        ?"],
  ]),
  ...faults("lib/auth/throttle.ts", "lib/auth/throttle", [
    ["wrong passwords slow no address down", "if (failures <= FREE_FAILURES) return 0;", "if (failures >= 0) return 0;"],
    ["failures are never forgotten", "if (halvings < 1) return;", "if (halvings < Infinity) return;"],
  ]),
  ...faults("lib/auth/scrypt.ts", "lib/auth/user_file", [
    ["a hash in the user file may take any memory", "if (bytes > MEMORY_BYTES_MAX) {", "if (bytes > Infinity) {"],
  ]),
  ...faults("lib/auth/user_file.ts", "lib/auth/user_file", [
    ["users of memcached's file may only read", "level = \"admin\"", "level = \"read\""],
  ]),
  ...faults("lib/net/connection_timeouts.ts", "lib/server/auth", [
    ["--auth-timeout closes nothing",
      "nowSec - since <= authTimeoutSec", "nowSec - since <= Infinity", "portable: connections that do not authenticate are closed"],
  ]),
  ...faults("lib/cli/auth_options.ts", "lib/cli/auth_options", [
    ["--require-auth takes addresses that anybody can reach", "if (!isOn) refusePublic(listens, \"add -Y (--auth-file)\", errors);", ""],
  ]),
];
