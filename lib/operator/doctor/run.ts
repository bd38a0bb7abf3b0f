import * as tls from "node:tls";
import { obey, print } from "../../cli/command_line.ts";
import { ExitCode } from "../../cli/exit.ts";
import { isLoopback } from "../../net/transport.ts";
import type { Address, DialOptions, UnixAddress } from "../../peers/dial.ts";
import { addressText, PeerError } from "../../peers/peer.ts";
import { NEEDS_LOGIN, numberOf, StatsClient, type Table } from "../stats_client.ts";
import { fault, type Finding, findingsText } from "./finding.ts";
import { examineMachine, type Plan, thisMachine } from "./machine.ts";
import { type DoctorOptions, readDoctorCommand } from "./options.ts";
import { examineServer, hasOldToken, type ServerFacts } from "./server.ts";

/** Findings about this machine or about one server. */
interface Report {
  /** `host:port`, or the path of a Unix socket; "": this machine. */
  readonly server: string;
  readonly findings: readonly Finding[];
}

/** `leased doctor` */
export function runDoctor(argv: readonly string[]): Promise<ExitCode> {
  return obey(readDoctorCommand(argv), examine);
}

/** Prints findings. */
async function examine(options: DoctorOptions): Promise<ExitCode> {
  const { addresses, dial } = options.targets;
  const seen = await Promise.all(addresses.map((address) => look(address, dial)));
  const isHere = addresses.length === 0 || addresses.some(isOfThisHost);
  const local = seen.find(({ facts }) => facts !== null && facts.isHere);
  const reports: Report[] = [
    ...isHere
      ? [{
        server: "",
        findings: examineMachine(thisMachine(), planOf(options, local?.facts ?? null)),
      }]
      : [],
    ...seen.map(({ name, facts, reason }) => ({
      server: name,
      findings: facts === null ? [unreachable(name, reason)] : examineServer(facts),
    })),
  ];
  print(options.json ? jsonText(reports) : reports.map(reportText).join("\n"));
  if (seen.some(({ facts }) => facts === null)) return ExitCode.UNAVAILABLE;
  const isFaulty = reports.some(({ findings }) => findings.some(isFault));
  return isFaulty ? ExitCode.DIFFERENT : ExitCode.OK;
}

function isFault({ level }: Finding): boolean {
  return level === "warning" || level === "error";
}

function unreachable(server: string, reason: string): Finding {
  const remedy = reason.endsWith(NEEDS_LOGIN)
    ? `deno task doctor --login FILE ${server}`
    : "systemctl status leased";
  return fault("connection", [reason, "nothing else can be seen", remedy]);
}

function reportText({ server, findings }: Report): string {
  return findingsText(server === "" ? "This machine" : `Server ${server}`, findings);
}

/** Escapes what is not ASCII, so that no terminal acts on it. */
function jsonText(reports: readonly Report[]): string {
  const json = JSON.stringify({ reports }, null, 2);
  const escape = (character: string): string =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `${json.replace(/[^\x20-\x7e\n]/g, escape)}\n`;
}

/** Returns the server that runs here, or the one that the options describe. */
function planOf(options: DoctorOptions, facts: ServerFacts | null): Plan {
  if (facts === null) return { ...options, process: "/proc/self" };
  const { settings, stats } = facts;
  const or = (value: number, other: number): number => Number.isNaN(value) ? other : value;
  return {
    process: `/proc/${or(numberOf(stats, "pid"), 0)}`,
    memoryLimitBytes: or(numberOf(stats, "limit_maxbytes"), options.memoryLimitBytes),
    threads: or(numberOf(stats, "threads"), options.threads),
    connLimit: or(numberOf(stats, "max_connections"), options.connLimit),
    listenBacklog: or(numberOf(settings, "tcp_backlog"), options.listenBacklog),
  };
}

/** The facts of a server; without facts, the reason. */
interface Seen {
  readonly name: string;
  readonly facts: ServerFacts | null;
  readonly reason: string;
}

async function look(address: Address | UnixAddress, dial: DialOptions): Promise<Seen> {
  const name = addressText(address);
  try {
    const client = await StatsClient.connect(address, dial);
    try {
      return { name, facts: await factsOf(client, address, dial), reason: "" };
    } finally {
      client.close();
    }
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
    return { name, facts: null, reason: error.message };
  }
}

function isOfThisHost(address: Address | UnixAddress): boolean {
  return "path" in address || isLoopback(address.hostname);
}

/** @throws PeerError */
async function factsOf(
  client: StatsClient,
  address: Address | UnixAddress,
  dial: DialOptions,
): Promise<ServerFacts> {
  const stats = await client.table();
  if (stats === null) throw new PeerError("answers stats with an error");
  const nowMs = Date.now();
  const isHere = isOfThisHost(address);
  const settings = await client.table("settings");
  const rows = await client.table("rows");
  return {
    isHere,
    netcat: "path" in address ? `-U ${address.path}` : `${address.hostname} ${address.port}`,
    stats,
    settings,
    items: await client.table("items"),
    threads: await client.table("threads"),
    rows,
    prefixes: await client.lines("stats detail dump"),
    tokens: hasOldToken({ stats, rows }) ? await client.lines("token list") : null,
    certificateEndMs: dial.caCert === null || "path" in address
      ? null
      : await certificateEnd(address, dial.timeoutMs),
    journalBytes: journalBytes(settings, isHere),
    nowMs,
  };
}

function journalBytes(settings: Table | null, isHere: boolean): number | null {
  const folder = settings?.get("state_dir") ?? "NULL";
  if (folder === "NULL") return null;
  try {
    return isHere ? Deno.statSync(`${folder}/tokens.journal`).size : NaN;
  } catch {
    return NaN;
  }
}

/** Returns when a server's certificate ends, in Unix milliseconds, verified or not; NaN: the handshake failed. */
function certificateEnd({ hostname, port }: Address, timeoutMs: number): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const socket = tls.connect({ host: hostname, port, rejectUnauthorized: false }, () => {
    resolve(Date.parse(socket.getPeerCertificate().valid_to));
    socket.destroy();
  });
  socket.setTimeout(timeoutMs, () => socket.destroy());
  socket.on("error", () => resolve(NaN));
  socket.on("close", () => resolve(NaN));
  return promise;
}
