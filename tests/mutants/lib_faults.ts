import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/** Faults in the process around the store: options, transports, counters, start and stop. */
export const LIB_FAULTS: readonly Fault[] = [
  // --- metrics
  ...faults("lib/admin/http_server.ts", "lib/admin/http_server", [
    ["connections for metrics have no limit", "if (this.#connections.size >= CONNECTIONS_MAX) this.#closeOldest();", ""],
    ["connections for metrics last for ever",
      "setTimeout(() => closeQuietly(socket), this.#connectionMsMax)", "setTimeout(() => {}, this.#connectionMsMax)"],
    ["a request gets a page that was rendered before it", "    this.#rendering = null;\n", ""],
  ]),
  ...faults("lib/admin/http_request.ts", "lib/admin/http_request", [
    ["the head of a request has no limit", "text.length < HEAD_BYTES_MAX", "true"],
    ["web pages can read metrics by DNS rebinding", "if (!isLoopback(localAddress)) return true;", "return true;"],
  ]),
  ...faults("lib/admin/server_metrics.ts", "lib/admin/metrics", [
    ["a cas is a set in the metrics, too", "less === 0 ? stat", "less < Infinity ? stat"],
  ]),
  ...faults("lib/server/admin.ts", "lib/admin/metrics", [
    ["/health is 200 while the server drains", "lifecycle.phase === LifecyclePhase.RUNNING", "lifecycle.phase >= LifecyclePhase.RUNNING", "/health"],
  ]),
  // --- native transport
  ...faults("lib/net/native/bind.ts", "lib/net/native/bind", [
    ["malloc_trim is never called", "setInterval(() => libc.calls.malloc_trim(0), TRIM_MS)", "setInterval(() => {}, TRIM_MS)"],
  ]),
  ...faults("lib/net/native/listener.ts", "lib/net/native/listener", [
    ["a peer that vanishes is noticed after the system's two hours", "setOption(libc, fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);", ""],
    ["keepalive is off", "setOption(libc, fd, SOL_SOCKET, SO_KEEPALIVE, 1);", ""],
  ]),
  ...faults("lib/net/accept_failures.ts", "lib/net/accept_failures", [
    ["a shortage of descriptors is reported at every attempt", "this.#reportedAtMs = nowMs;", ""],
  ]),
  ...faults("lib/net/native/acceptor.ts", "lib/net/transport", [
    ["closed connections stay counted: -c runs out",
      "this.#unreserve(service);\n    this.#libc.calls.close(fd);\n  }\n\n  #peerText", "this.#libc.calls.close(fd);\n  }\n\n  #peerText", "native: "],
  ]),
  ...faults("lib/net/native/sender.ts", "lib/net/transport", [
    ["bytes of long values that the kernel does not take are lost",
      "if (sent >= 0 && sent < length) this.stall(connection, this.#valueIo.unsentReply(sent));", "", "native: "],
  ]),
  ...faults("lib/net/native/io_uring.ts", "lib/net/native/io_uring", [
    ["completions that do not fit the ring are not waited for",
      "for (let missing = begun - this.#collect(results); missing > 0;) {", "this.#collect(results);\n    for (let missing = 0; missing > 0;) {"],
  ]),
  ...faults("lib/net/native/round_io.ts", "lib/net/native/io_uring", [
    ["replies that the kernel has not begun to send are taken for sent",
      "outbox.connection(index);\n      results[index] = NOT_BEGUN;", "outbox.connection(index);\n      results[index] = outbox.length(index);"],
    ["an operation that the ring cancels closes its connection",
      "return result < 0 && result !== -EAGAIN", "return result < -4096 && result !== -EAGAIN"],
  ]),
  ...faults("lib/net/native/io_uring.ts", "lib/net/native/io_uring", [
    ["operations that the kernel has not taken are executed by a later run",
      "this.#next = (this.#next + begun) | 0;", "this.#next = (this.#next + this.#prepared) | 0;"],
    ["a signal during the wait for completions ends the server", "if (failed && this.#libc.errno !== EINTR) {", "if (failed) {"],
    ["one of the needed features is enough", "if ((features & FEATURES) !== FEATURES) {", "if ((features & FEATURES) === 0) {"],
    ["the kernel is not asked which operations it knows", "if ((flags & IO_URING_OP_SUPPORTED) === 0) {", "if (flags < 0) {"],
    ["a kernel whose receives wait in spite of MSG_DONTWAIT is taken",
      "if (!ring.receivesWithoutWaiting(fd)) {", "if (ring.receivesWithoutWaiting(fd) === undefined) {"],
    ["a ring that is refused stays open",
      "    requireNoWait(libc, open);\n  } catch (error) {\n    libc.calls.close(fd);", "    requireNoWait(libc, open);\n  } catch (error) {"],
    ["operations of a ring wait",
      "this.#prepare(index, IORING_OP_RECV, fd, region, at, length, MSG_DONTWAIT);", "this.#prepare(index, IORING_OP_RECV, fd, region, at, length, 0);"],
  ]),
  ...faults("lib/net/native/bind.ts", "lib/net/native/io_uring", [
    ["the rings of other threads stay open when one cannot be opened", "for (const { fd } of rings) libc.calls.close(fd);", ""],
  ]),
  ...faults("lib/net/native/round_io.ts", "lib/net/native/io_uring", [
    ["a reset that the ring has reported is asked for again, and taken for an end", "result !== -ECONNRESET &&", ""],
  ]),
  ...faults("lib/net/native/sender.ts", "lib/net/native/io_uring", [
    ["a reply that was sent in part is taken for sent", "if (result === length) continue;", "if (result > 0) continue;"],
    ["the sent part of a reply is sent again", "outbox.bytes(index).slice(sent, length)", "outbox.bytes(index).slice(0, length)"],
  ]),
  ...faults("lib/net/native/value_io.ts", "lib/net/transport lib/net/hostile", [
    ["the unsent part of a long reply begins at its start", "let to = -sent;", "let to = 0;", "native: "],
  ]),
  ...faults("lib/net/native/waiting.ts", "lib/net/transport lib/server/lock_kill", [
    ["a connection that waits for a lock is not watched: its end is not noticed",
      "EPOLLERR | EPOLLHUP : EPOLLERR | EPOLLHUP | EPOLLRDHUP;", "0 : 0;", "native: "],
  ]),
  ...faults("lib/net/native/thread.ts", "lib/net/transport lib/net/hostile", [
    ["requests that one read cut are lost", "connection.pending = this.#thread.input.bytes.slice(start, end);", "", "native: "],
  ]),
  ...faults("lib/net/native/socket_address.ts", "lib/net/native/socket_address", [
    ["the first run of zeros in an IPv6 address is left out, not the longest",
      "if (length > runLength) [runStart", "if (length > 1 && runStart < 0) [runStart"],
  ]),
  // --- both transports
  ...faults("lib/net/connection_timeouts.ts", "lib/net/transport", [
    ["a peer that takes nothing is never dropped",
      "if (sendingSinceSec === 0 || nowSec - sendingSinceSec <= sendTimeoutSec) continue;", "continue;", "never reads"],
  ]),
  ...faults("lib/net/connection_timeouts.ts", "lib/server/half_open", [
    ["--lock-idle-timeout closes connections without locks too",
      "lockIdleTimeoutSec > 0 && silentSec > lockIdleTimeoutSec && cache.locks.countOf(id) > 0", "lockIdleTimeoutSec > 0 && silentSec > lockIdleTimeoutSec", "silent"],
  ]),
  // --- portable transport
  ...faults("lib/net/portable/connection.ts", "lib/net/transport lib/net/hostile", [
    ["requests that one read cut are lost", "if (at < end) this.#pending = input.bytes.slice(at, end);", "", "portable: "],
  ]),
  ...faults("lib/net/portable/connection.ts", "lib/server/lock_kill", [
    ["a connection that ends keeps its locks", "this.#conversation.end();\n    this.#buffers", "this.#buffers", "portable: "],
  ]),
  ...faults("lib/net/portable/buffer_pool.ts", "lib/net/portable/buffer_pool", [
    ["any number of large buffers is lent", "if (this.#lentCount >= this.#lentMax) return null;", ""],
  ]),
  ...faults("lib/net/udp_frames.ts", "lib/net/udp_frames", [
    ["datagrams of one answer all have number 0", "putUint16(to, at + 2, number);", "putUint16(to, at + 2, 0);"],
  ]),
  ...faults("lib/net/portable/fair_scheduler.ts", "lib/net/portable/fair_scheduler", [
    ["a busy connection keeps the thread", "const isRoundOver = this.#spentUnits >= ROUND_UNITS;", "const isRoundOver = false;"],
  ]),
  // --- counters
  ...faults("lib/counters/counters.ts", "lib/counters/counters", [
    ["more than the maximum can be acquired", "counter.consumption + resources > maximum", "counter.consumption > maximum"],
    ["a client that is gone keeps what it holds", "this.#dropAcquisition(acquired, counter);\n      this.#addConsumption(counter, -held);", ""],
    ["counters may take any memory", "if (this.usedBytes + bytes > this.#bytesMax) return false;", ""],
  ]),
  ...faults("lib/counters/conversation.ts", "lib/counters/conversation", [
    ["a body longer than any request is waited for", "const isLegal = bodyLength <= BODY_LENGTH_MAX;", "const isLegal = true;"],
    ["a slice of counters has no end",
      "while (!work.isSpent && reply.length - reply.start < REPLIES_BYTES_MAX) {", "while (reply.length - reply.start < REPLIES_BYTES_MAX) {"],
    ["a connection that ends changes the interval before",
      "this.#counters.keepTime();\n    this.#counters.connectionCount--;", "this.#counters.connectionCount--;"],
  ]),
  ...faults("lib/net/native/acceptor.ts", "lib/counters/server", [
    ["connections are given to threads that do not serve their protocol",
      "service.isShared && index < this.#context.options.threads", "index < this.#context.options.threads"],
  ]),
  // --- journal of update tokens
  ...faults("lib/journal/token_journal.ts", "lib/journal/token_journal", [
    ["a damaged frame is read as it is", "if (crc32(checked) !== view.getUint32(CHECKSUM_AT, true)) return null;", ""],
    ["damage in the middle passes for an interrupted write", "if (frame !== null && frame.synced > start) {", "if (false) {"],
    ["tokens count as out before they are on the disk", "if (sync) this.sync();", ""],
    ["the name of a rewritten journal is not synced",
      "this.#files.rename(NEW_JOURNAL_NAME, JOURNAL_NAME);\n      this.#files.sync();", "this.#files.rename(NEW_JOURNAL_NAME, JOURNAL_NAME);"],
  ]),
  ...faults("lib/journal/token_records.ts", "lib/journal/token_journal", [
    ["released tokens come back after a restart", "this.#records.delete(id);", ""],
  ]),
  ...faults("lib/journal/token_journal.ts", "lib/journal/journal_loop", [
    ["tokens are promised into a file that was removed", "if (!this.#file.isNamed(JOURNAL_NAME)) {", "if (false) {"],
  ]),
  ...faults("lib/journal/journal_loop.ts", "lib/journal/journal_loop", [
    ["a restart hands ids out again", "cache.journal.raiseId(tokens.highestId);", ""],
    ["releases that no get follows are never written", "this.#dueMs = Math.min(this.#dueMs, nowMs + LAZY_MS);", ""],
    ["one failed reservation of ids empties the cache", "const isOut = !isReserved && left <= ID_MARGIN;", "const isOut = !isReserved;"],
  ]),
  ...faults("lib/journal/token_records.ts", "lib/journal/journal_loop", [
    ["quarantine ends with a restart", "this.isQuarantined = type === TokenRecordType.QUARANTINE_ON;", ""],
  ]),
  // --- command line
  ...faults("lib/cli/values.ts", "lib/cli/argv lib/cli/options", [
    ["sizes in kilobytes are sizes in megabytes", "k: KIB,", "k: KIB ** 2,"],
  ]),
  ...faults("lib/cli/values.ts", "lib/cli/argv", [
    ["values beyond an option's range are taken", "if (Number.isNaN(value) || value < least || value > most) {", "if (Number.isNaN(value)) {"],
  ]),
  ...faults("lib/cli/argv.ts", "lib/cli/argv lib/cli/options", [
    ["-vv counts as -v", "this.values[name] = this.values[name] as number + 1;", "this.values[name] = 1;"],
  ]),
  ...faults("lib/cli/argv.ts", "lib/cli/argv", [
    ["a word of -o may name every option", "row?.[1] !== \"-o\"", "row === undefined"],
    ["no_maxconns_fast turns it on", "kind === \"switch\" ? !isNegated", "kind === \"switch\" ? true"],
  ]),
  ...faults("lib/cli/listen.ts", "lib/cli/argv lib/cli/options", [
    ["a port above 65535 is taken", "if (!(port <= 65535))", "if (!(port <= 99999))"],
  ]),
  ...faults("lib/cli/store_options.ts", "hash_flooding", [
    ["every server has the same hash seed", "hashSeed: processInfo.hashSeed,", "hashSeed: new Int32Array(2),"],
  ]),
  ...faults("lib/cli/options.ts", "lib/cli/options", [
    ["-U alone leaves the TCP port as it is",
      "const tcpPort = udpPort !== 0 && !given.has(\"port\") ? udpPort : values.port;", "const tcpPort = values.port;"],
  ]),
  // --- server
  ...faults("lib/stop.ts", "lib/stop", [
    ["an echo of the first signal ends the server at once", "if (nowMs - this.#requestedAtMs < REPEATED_SIGNAL_MS) return;", ""],
  ]),
  ...faults("lib/stop.ts", "lib/server/process", [
    ["a second signal is ignored", "this.exitNow(statusAtExit);", "return;", "second signal"],
  ]),
  ...faults("lib/server/files.ts", "lib/server/process", [
    ["a server removes a pid file that another one wrote", "if (!this.#written) return;", "", "pid file"],
  ]),
  ...faults("lib/server/ticker.ts", "lib/net/transport", [
    ["the store's clock stands still", "writeClock(this.#cache.memory, elapsedMs);", "", "idle_timeout"],
  ]),
  ...faults("lib/server/ticker.ts", "lib/server/ticker", [
    ["the store is never maintained: waits for locks do not end", "if (this.#maintenanceTimer === undefined) this.#maintain();", ""],
  ]),
  ...faults("lib/server/worker.ts", "lib/server/process", [
    ["a thread that fails leaves the process running", "process.kill(process.pid, \"SIGABRT\");", "", "takes the process down"],
  ]),
  ...faults("lib/net/native/thread.ts", "lib/net/transport", [
    ["nobody serves UDP with the native transport", "for (const fd of this.#udp.keys()) this.#epoll.add(fd, EPOLLIN, 0);", "", "native: UDP"],
  ]),
  ...faults("lib/server/permissions.ts", "lib/server/process", [
    ["a missing permission for the pid file is not noticed", "if (pidFile !== \"\") {", "if (false) {"],
  ]),
];
