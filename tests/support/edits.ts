import type { Change, Edit } from "../../lib/databases/base/backend.ts";

/** The forms in which an origin's backend gets the same change: it writes each in a way of its own. */
export const EDIT_FORMS: readonly (readonly [name: string, edit: (change: Change) => Edit])[] = [
  ["whatever the row is", (change) => change],
  ["computed from the row", (change) => () => change],
];
