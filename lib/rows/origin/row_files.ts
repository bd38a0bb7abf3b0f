// The files that options of an origin name.
import type { CacheAddress } from "../caches/caches_file.ts";
import { readCachesFile } from "../caches/list_keeper.ts";
import type { RowsOptions } from "../options.ts";
import { StartError } from "./start_error.ts";
import type { Views } from "../../databases/views/view.ts";
import { readViewsFile } from "../../databases/views/views_file.ts";

/** @returns Null: there are none. @throws StartError */
export function viewsOf({ viewsPath, prefixes }: RowsOptions): Views | null {
  return viewsPath === "" ? null : useFile("--views", () => readViewsFile(viewsPath, prefixes));
}

/** @throws StartError */
export function addressesOf({ cachesPath, caches }: RowsOptions): readonly CacheAddress[] {
  return cachesPath === "" ? caches : useFile("--caches", () => readCachesFile(cachesPath));
}

/** @throws StartError */
function useFile<Content>(option: string, read: () => Content): Content {
  try {
    return read();
  } catch (error) {
    throw new StartError(`cannot use ${option}`, error, true);
  }
}
