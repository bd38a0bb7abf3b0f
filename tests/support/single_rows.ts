import type { Backend, Edit, Found, WriteResult } from "../../lib/databases/base/backend.ts";

/** A backend with calls for one row. */
export type RowBackend = Backend & {
  read(key: string): Promise<Found>;
  write(
    key: string,
    tokenId: number,
    epoch: number,
    edit: Edit,
    owner?: string,
  ): Promise<WriteResult>;
};

export function withSingleRows(backend: Backend): RowBackend {
  return Object.assign(backend, {
    read: async (key: string) => (await backend.readMany([key]))[0]!,
    write: async (
      key: string,
      tokenId: number,
      epoch: number,
      edit: Edit,
      owner = "",
    ) => (await backend.writeGroup([{ key, tokenId, edit, owner }], epoch))[0]!,
  });
}
