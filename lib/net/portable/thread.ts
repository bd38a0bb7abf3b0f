import { ConnectionKind } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../accept_failures.ts";
import { type Lifecycle, LifecyclePhase } from "../../process/lifecycle.ts";
import { VERBOSITY_DROPPED } from "../cache_service.ts";
import { ConnectionTimeouts, SWEEP_MS } from "../connection_timeouts.ts";
import { ConnectionBuffers, PortableConnection } from "./connection.ts";
import { certificateAgeSec, openSocket, type PortableWorkerData, refuseRefresh } from "./bind.ts";
import { pause } from "../../process/pause.ts";
import { peerName, prepareTcp, resourceShortage } from "./sockets.ts";
import { reasonOf } from "../../process/reason.ts";
import {
  DRAIN_GRACE_MS,
  DRAIN_MS_MAX,
  type EventSource,
  handshakeFailed,
  type Listen,
  listenerName,
  type TcpListen,
  tlsOf,
  type UnixListen,
} from "../transport.ts";
import type { Transport, TransportContext, TransportThread } from "../worker_transport.ts";
import type { Service } from "../service.ts";
import { UdpServer } from "./udp_server.ts";
import { hasPath, setSocketMode, socketFileId } from "../unix_socket.ts";

/** The transport on `Deno.listen`: works wherever Deno does. */
export class PortableThread implements Transport {
  readonly #context: TransportContext;
  readonly #thread: TransportThread;
  readonly #lifecycle: Lifecycle;
  readonly #timeouts: ConnectionTimeouts<PortableConnection>;
  readonly #buffers = new ConnectionBuffers();
  readonly #connections = new Set<PortableConnection>();
  readonly #listeners: {
    readonly socket: Deno.Listener;
    readonly listen: TcpListen | UnixListen;
    readonly service: Service;
    /** The inode of a Unix socket's file; null: it has none. */
    readonly fileId: number | null;
    /** Accepts until the listener is closed. */
    accepting: Promise<void>;
  }[] = [];
  readonly #udp: UdpServer[] = [];
  /** Awaited at the end beside connections: accept loops, refusals. */
  readonly #tasks = new Set<Promise<void>>();
  #accepting = true;
  #endsWithProcess = false;
  readonly #acceptFailures: AcceptFailures;

  constructor(context: TransportContext) {
    this.#context = context;
    this.#thread = context.thread;
    const { times } = context.thread;
    times.readClock = () => {
      times.clockUs[0] = performance.now() * 1000;
    };
    this.#lifecycle = context.lifecycle;
    this.#acceptFailures = new AcceptFailures((event) => context.report(event));
    this.#timeouts = new ConnectionTimeouts(
      context,
      (connection, reason) => connection.close(reason),
    );
  }

  open(): void {
    const { listenBacklog } = this.#context.options;
    for (const listen of this.#listens) {
      if (listen.kind !== "udp") continue;
      const socket = openSocket(listen, listenBacklog, false) as Deno.DatagramConn;
      this.#udp.push(new UdpServer(socket, listen, this.#context, this.#buffers.scheduler));
    }
  }

  listen(): void {
    const { listenBacklog, threads } = this.#context.options;
    const { certificate } = this.#context.workerData as PortableWorkerData;
    for (const listen of this.#listens) {
      const service = this.#context.services[listen.protocol];
      if (listen.kind === "udp" || service === null) continue;
      const isPortShared = service.isShared && threads > 1;
      const socket = openSocket(listen, listenBacklog, isPortShared, certificate) as Deno.Listener;
      const isUnix = listen.kind === "unix";
      if (isUnix) setSocketMode(listen);
      const fileId = isUnix ? socketFileId(listen) : null;
      this.#listeners.push({ socket, listen, service, fileId, accepting: Promise.resolve() });
    }
  }

  get #listens(): readonly Listen[] {
    return (this.#context.workerData as PortableWorkerData).listens;
  }

  async serve(): Promise<void> {
    for (const each of this.#listeners) {
      each.accepting = this.#accept(each.socket, each.listen, each.service);
      this.#track(each.accepting);
    }
    for (const udp of this.#udp) this.#track(udp.serve());
    const connections = this.#connections;
    const sweep = setInterval(() => this.#timeouts.sweep(connections, connections), SWEEP_MS);
    const { threadIndex } = this.#context;
    for (;;) {
      const wakeCount = this.#lifecycle.wakeCount(threadIndex);
      if (this.#lifecycle.phase !== LifecyclePhase.RUNNING) break;
      this.#resumeReady();
      await this.#lifecycle.woken(threadIndex, wakeCount);
    }
    // Connections in the backlog are accepted first: requests sent before the stop are answered.
    await pause(0);
    this.#accepting = false;
    this.#closeListeners();
    if (this.#lifecycle.phase === LifecyclePhase.DRAINING) await this.#drain();
    for (const udp of this.#udp) udp.close();
    for (const connection of this.#connections) connection.close("shutdown");
    await this.#waitUntilClosed(DRAIN_MS_MAX);
    await Promise.all(this.#tasks);
    clearInterval(sweep);
  }

  /** Closes the listeners, except those of Unix sockets whose path another file has. */
  #closeListeners(): void {
    for (const { socket, listen, fileId, accepting } of this.#listeners) {
      if (listen.kind === "unix" && hasPath(listen) && socketFileId(listen) !== fileId) {
        // The runtime would remove that file, also when the worker ends.
        this.#endsWithProcess = true;
        this.#tasks.delete(accepting);
      } else {
        socket.close();
      }
    }
  }

  get endsWithProcess(): boolean {
    return this.#endsWithProcess;
  }

  /** Lets connections finish requests in progress. */
  async #drain(): Promise<void> {
    await this.#waitUntilClosed(DRAIN_GRACE_MS);
    for (const connection of this.#connections) connection.finish();
    await this.#waitUntilClosed(DRAIN_MS_MAX);
  }

  /** Resolves when no connection is left, after `ms`, or when the process must stop at once. */
  async #waitUntilClosed(ms: number): Promise<void> {
    const stepMs = 10;
    for (let passed = 0; passed < ms; passed += stepMs) {
      if (this.#connections.size === 0 || this.#lifecycle.phase === LifecyclePhase.STOPPING) return;
      this.#resumeReady();
      await pause(stepMs);
    }
  }

  /** Adds a task to await at the end. A task that fails ends the process. */
  #track(task: Promise<void>): void {
    this.#tasks.add(task);
    task.then(() => this.#tasks.delete(task));
  }

  /** Resumes connections that need not wait any longer. */
  #resumeReady(): void {
    this.#thread.takeReady(this.#context.threadIndex, (owner) => {
      this.#buffers.everWaiting.get(owner)?.resume();
    });
  }

  // --- accepting ---------------------------------------------------------------------------------

  async #accept(
    listener: Deno.Listener,
    listen: TcpListen | UnixListen,
    service: Service,
  ): Promise<void> {
    const waitsForRoom = service.isShared && !this.#context.options.maxconnsFast;
    while (this.#accepting) {
      if (waitsForRoom) await this.#untilRoom(service);
      let socket: Deno.Conn;
      try {
        socket = await listener.accept();
      } catch (error) {
        if (!this.#accepting) return;
        const code = resourceShortage(error);
        // Even an error of this one connection gets a short pause, in case it repeats.
        await (code !== "" ? this.#pauseAccepting(code) : pause(1));
        continue;
      }
      this.#adopt(socket, listen, service);
    }
  }

  /** Waits until a connection may be accepted under `no_maxconns_fast`. */
  async #untilRoom({ connections }: Service): Promise<void> {
    if (connections.openCount < connections.rows) return;
    await this.#withoutAccepting(async () => {
      while (this.#accepting && connections.openCount >= connections.rows) {
        await pause(ACCEPT_PAUSE_MS);
      }
    });
  }

  async #pauseAccepting(code: string): Promise<void> {
    this.#acceptFailures.add(code, performance.now());
    await this.#withoutAccepting(() => pause(ACCEPT_PAUSE_MS));
  }

  async #withoutAccepting(wait: () => Promise<void>): Promise<void> {
    const startMs = performance.now();
    this.#lifecycle.pauseAccepting();
    await wait();
    this.#lifecycle.resumeAccepting();
    const { stats } = this.#thread.memory;
    stats[STAT.listen_disabled_num]! += 1;
    stats[STAT.time_in_listen_disabled_us]! += Math.round((performance.now() - startMs) * 1000);
  }

  #adopt(socket: Deno.Conn, listen: TcpListen | UnixListen, service: Service): void {
    const listener = listenerName(listen);
    const isTcp = listen.kind === "tcp";
    const peer = isTcp ? peerName(socket.remoteAddr as Deno.NetAddr) : listener;
    const kind = isTcp ? ConnectionKind.TCP : ConnectionKind.UNIX;
    const conversation = service.open(kind, peer, listener);
    if (conversation === null) {
      // A peer that expects a handshake could not read the refusal.
      if (tlsOf(listen) === undefined) this.#track(refuse(socket, service.refusal));
      else socket.close();
      return;
    }
    if (isTcp) prepareTcp(socket as Deno.TcpConn);
    const connection = new PortableConnection(
      socket,
      kind,
      this.#thread,
      service,
      conversation,
      this.#buffers,
    );
    this.#connections.add(connection);
    // A connection that fails for another reason than its peer rejects, which ends the process.
    connection.serve(this.#connectionEnded);
    if (tlsOf(listen) === undefined) return;
    const source = service.sourceOf(connection.id);
    (socket as Deno.TlsConn).handshake().catch((error) => this.#handshakeFailed(source, error));
  }

  /** The first read of the connection fails too, and closes it. */
  #handshakeFailed(source: EventSource, error: unknown): void {
    const { memory, tunables } = this.#thread;
    memory.stats[STAT.ssl_handshake_errors]! += 1;
    if (tunables.get("verbosity") >= VERBOSITY_DROPPED) {
      this.#context.report(handshakeFailed(reasonOf(error), source));
    }
  }

  refreshCertificates(): void {
    refuseRefresh();
  }

  get certificateAgeSec(): number {
    return certificateAgeSec((this.#context.workerData as PortableWorkerData).certificate);
  }

  readonly #connectionEnded = (connection: PortableConnection): void => {
    this.#connections.delete(connection);
    connection.service.close(connection.id, connection.closeReason);
  };
}

/** Replies that there are too many connections. */
async function refuse(socket: Deno.Conn, reply: Uint8Array): Promise<void> {
  try {
    await socket.write(reply);
  } catch {
    // The peer closed before the reply.
  }
  socket.close();
}
