import { descriptorsNeeded } from "../../net/descriptors.ts";
import { chooseTransport, probeSystem } from "../../net/transports.ts";
import { bytesText } from "../output.ts";
import { fault, type Finding, ok, unseen, warning } from "./finding.ts";

/** A server on this machine, running or to be started. */
export interface Plan {
  /** The folder of a running server's process in /proc, `/proc/self` before it is started. */
  readonly process: string;
  readonly memoryLimitBytes: number;
  readonly threads: number;
  readonly connLimit: number;
  readonly listenBacklog: number;
}

/** The facts of the machine that the doctor reads. */
export interface Machine {
  readonly os: string;
  /** Permissions of `deno run` that are missing, as its flags. */
  readonly missingFlags: readonly string[];
  readonly hasLibc: boolean;
  /** Why io_uring cannot be used; "": it can. */
  readonly ioUringFault: string;
  /** Returns the text of a file, or null if it cannot be read. */
  read(path: string): string | null;
}

/** The machine that the process runs on. */
export function thisMachine(): Machine {
  const hasLibc = chooseTransport("auto") === "native";
  const probe = hasLibc ? probeSystem() : { ioUringFault: "", read: () => null };
  return {
    os: Deno.build.os,
    missingFlags: (["ffi", "net", "read"] as const)
      .filter((name) => Deno.permissions.querySync({ name }).state !== "granted")
      .map((name) => `--allow-${name}`),
    hasLibc,
    ...probe,
  };
}

const MIB = 2 ** 20;
/** Memory of the process beside the store, from docs/running.md. */
const PROCESS_BYTES = 70e6;
const THREAD_BYTES = 30e6;
const FAST_CLOCKS = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
const CLOCK_FOLDER = "/sys/devices/system/clocksource/clocksource0";
const HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled";

/** Looks at the machine. */
export function examineMachine(machine: Machine, plan: Plan): Finding[] {
  const findings = [permissions(machine), libc(machine)];
  if (machine.os !== "linux") {
    return [...findings, unseen("machine", `limits of ${machine.os} are not looked at`)];
  }
  const checks = [ioUring, hugePages, openFiles, backlog, memory, clockSource];
  return [...findings, ...checks.map((check) => check(machine, plan))];
}

function permissions({ missingFlags }: Machine): Finding {
  if (missingFlags.length === 0) return ok("permissions", "deno run grants FFI, network and files");
  return warning("permissions", [
    `deno run does not grant ${missingFlags.join(" ")}`,
    "the server uses slower sockets, or does not start, and the doctor sees less",
    "deno task doctor",
  ]);
}

function libc({ hasLibc, os }: Machine): Finding {
  if (hasLibc) return ok("ffi", "the C library can be called: native transport");
  return warning("ffi", [
    `the C library cannot be called (${os})`,
    "the portable transport needs up to three times the CPU time",
    "deno task start on Linux with glibc, which grants --allow-ffi",
  ]);
}

function ioUring({ hasLibc, ioUringFault, read }: Machine): Finding {
  if (!hasLibc) return unseen("io_uring", "needs the C library");
  if (ioUringFault === "") return ok("io_uring", "can be used");
  const isOff = Number(read("/proc/sys/kernel/io_uring_disabled") ?? 0) > 0;
  return warning("io_uring", [
    ioUringFault,
    "each read and each reply is a system call of its own",
    isOff
      ? "sysctl -w kernel.io_uring_disabled=0"
      : "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile",
  ]);
}

function hugePages({ read }: Machine): Finding {
  const text = read(HUGE_PAGES);
  const mode = /\[(\w+)\]/.exec(text ?? "")?.[1];
  if (mode === undefined) return unseen("huge-pages", `${HUGE_PAGES} cannot be read`);
  if (mode !== "never") return ok("huge-pages", mode);
  return warning("huge-pages", [
    "transparent huge pages are off",
    "a lookup in a large store then waits for the translation of addresses",
    `echo madvise > ${HUGE_PAGES}`,
  ]);
}

function openFiles({ read }: Machine, { process, threads, connLimit }: Plan): Finding {
  const text = read(`${process}/limits`);
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(text ?? "")?.[1];
  if (soft === undefined) return unseen("open-files", `${process}/limits cannot be read`);
  const needed = descriptorsNeeded(threads) + connLimit;
  if (soft === "unlimited" || Number(soft) >= needed) {
    return ok("open-files", `limit ${soft}, ${needed} needed`);
  }
  const pid = /\d+/.exec(process)?.[0];
  return fault("open-files", [
    `the limit is ${soft}; ${connLimit} connections and ${threads} threads need ${needed}`,
    "the server refuses connections below -c, or does not start",
    pid === undefined ? `ulimit -n ${needed}` : `prlimit --pid ${pid} --nofile=${needed}`,
  ]);
}

function backlog({ read }: Machine, plan: Plan): Finding {
  const somaxconn = Number(read("/proc/sys/net/core/somaxconn") ?? NaN);
  if (Number.isNaN(somaxconn)) return unseen("somaxconn", "net.core.somaxconn cannot be read");
  if (somaxconn >= plan.listenBacklog) return ok("somaxconn", `${somaxconn}`);
  return warning("somaxconn", [
    `net.core.somaxconn is ${somaxconn}, below the ${plan.listenBacklog} of -b`,
    "the kernel drops new connections when many clients connect at once",
    `sysctl -w net.core.somaxconn=${plan.listenBacklog}`,
  ]);
}

function memory(machine: Machine, { process, memoryLimitBytes, threads }: Plan): Finding {
  const needed = memoryLimitBytes + PROCESS_BYTES + threads * THREAD_BYTES;
  const limits = [...cgroupLimits(machine, process), machineMemory(machine)];
  const [bytes, name] = limits.reduce((least, each) => each[0] < least[0] ? each : least);
  if (bytes === Infinity) return unseen("memory", "neither /proc nor /sys shows a limit");
  if (bytes >= needed) {
    return ok("memory", `${name} allows ${bytesText(bytes)}, ${bytesText(needed)} planned`);
  }
  const fits = Math.floor((bytes - needed + memoryLimitBytes) / MIB);
  return fault("memory", [
    `${name} allows ${bytesText(bytes)}; -m ${memoryLimitBytes / MIB} and -t ${threads} need ${
      bytesText(needed)
    }`,
    "the kernel kills the server when the store fills",
    fits > 0 ? `leased -m ${fits}` : "raise the memory limit, or lower -t",
  ]);
}

type MemoryLimit = readonly [bytes: number, name: string];

function machineMemory({ read }: Machine): MemoryLimit {
  const kib = /^MemTotal:\s+(\d+) kB/m.exec(read("/proc/meminfo") ?? "")?.[1];
  return [kib === undefined ? Infinity : Number(kib) * 1024, "the machine"];
}

/** Returns the limits of the process's control group and of the groups around it, of versions 1 and 2. */
function cgroupLimits({ read }: Machine, process: string): MemoryLimit[] {
  const limits: MemoryLimit[] = [];
  for (const line of (read(`${process}/cgroup`) ?? "").split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (path === undefined) continue;
    const isV1 = controllers!.split(",").includes("memory");
    if (!isV1 && controllers !== "") continue;
    const [root, file] = isV1
      ? ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"]
      : ["/sys/fs/cgroup", "memory.max"];
    for (let at = path.replace(/\/$/, "");; at = at.slice(0, at.lastIndexOf("/"))) {
      const text = read(`${root}${at}/${file}`)?.trim() ?? "";
      if (/^\d+$/.test(text)) limits.push([Number(text), `${root}${at}/${file}`]);
      if (at === "") break;
    }
  }
  return limits;
}

function clockSource({ read }: Machine): Finding {
  const name = read(`${CLOCK_FOLDER}/current_clocksource`)?.trim();
  if (name === undefined) return unseen("clock", `${CLOCK_FOLDER} cannot be read`);
  if (FAST_CLOCKS.includes(name)) return ok("clock", name);
  return warning("clock", [
    `the clock source is ${name}`,
    "each look at the clock is a slow system call",
    `echo tsc > ${CLOCK_FOLDER}/current_clocksource`,
  ]);
}
