/// <reference lib="deno.worker" />
// A thread that executes queries of views, one after another.
import { reasonOf } from "../../process/reason.ts";
import { type QueryAnswer, ViewQueries, type ViewQuery } from "./view_query.ts";

/** A query, and the file that it reads. */
export interface QueryCommand {
  readonly path: string;
  readonly query: ViewQuery;
}

/** Null: the thread runs. A text: why the file cannot be read. */
export type QueryMessage = QueryAnswer | string | null;

let queries: ViewQueries | undefined;

self.onmessage = ({ data }: MessageEvent<QueryCommand>) => {
  let message: QueryMessage;
  try {
    queries ??= new ViewQueries(data.path);
    message = queries.execute(data.query);
  } catch (error) {
    message = reasonOf(error);
  }
  self.postMessage(message);
};
self.postMessage(null);
