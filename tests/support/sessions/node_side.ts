import type { Row } from "../../../lib/databases/base/backend.ts";
import * as wire from "../../../lib/rows/nodes/wire.ts";
import { RowsSide } from "./rows_side.ts";

/** A node in which every key is a row. Its origin has the database, and answers at once. */
export class NodeSide extends RowsSide {
  constructor(options: readonly string[] = []) {
    super(options, undefined, ["--origin", "127.0.0.1:1"]);
  }

  protected override read(keys: readonly string[]): (Row | null)[] {
    const rows: (Row | null)[] = [];
    while (rows.length < keys.length) {
      const next = keys.slice(rows.length, rows.length + wire.RECORDS_MAX);
      const asked = wire.unpackKeys(wire.packKeys(next));
      const reads = super.read(asked).map((row) => (
        { row, version: row?.version ?? 0, cacheable: true, epoch: 0 }
      ));
      for (const read of wire.unpackReads(wire.packReads(reads))) {
        if (read === null) break;
        rows.push(read.row);
      }
    }
    return rows;
  }

  /** The origin has the key deleted in its nodes before it commits. */
  protected override write(sent: wire.SentWrite): wire.SentReply {
    const [packed] = wire.packWrites([sent]);
    const [received] = wire.unpackWrites(packed!.block);
    const due = { seq: 1, grantedMs: 0, keys: [received!.request.key], prefixes: [] };
    this.delete(wire.unpackDue(wire.packDue(due), 0, 0).keys);
    const block = wire.packReplies([this.execute(received!)]);
    const [reply] = wire.unpackReplies(block, packed!.writes);
    return reply!;
  }

  /** Becomes a member once more: without rows. */
  rejoin(): void {
    for (const _ of this.serverRows.removal.dropRows([""]));
  }
}
