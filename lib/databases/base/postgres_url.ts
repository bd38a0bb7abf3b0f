/** The scheme with the user, the hosts with their ports, and the rest. */
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(\S*)$/;
const ATTRIBUTES = "target_session_attrs";
/** An origin writes: only the primary serves it. */
const ATTRIBUTES_OF_PRIMARY = ["read-write", "primary"];

/**
 * Returns a URL for each host of an address in libpq's form:
 * `postgres://user@one:5432,two/app?target_session_attrs=read-write`.
 *
 * @throws RangeError when it is no such address, or its session would not be one of the primary.
 */
export function hostUrls(address: string): string[] {
  const [, head, hosts, tail] = PARTS.exec(address) ?? [];
  if (head === undefined) throw new RangeError(FORM);
  const several = hosts!.split(",");
  return several.map((host) => {
    const text = `${head}${host}${tail}`;
    const url = URL.parse(text);
    if (url === null || (several.length > 1 && host === "")) throw new RangeError(FORM);
    const attributes = url.searchParams.get(ATTRIBUTES);
    if (attributes === null) return text;
    if (!ATTRIBUTES_OF_PRIMARY.includes(attributes)) {
      throw new RangeError(
        `${ATTRIBUTES} must be ${ATTRIBUTES_OF_PRIMARY.join(" or ")}, not ${
          JSON.stringify(attributes)
        }: an origin writes`,
      );
    }
    url.searchParams.delete(ATTRIBUTES);
    return url.href;
  });
}

const FORM = "must be sqlite:<file> or postgres://<user>@<host>/<database>";

/** Returns an address without its password and parameters. */
export function shownAddress(address: string): string {
  const urls = hostUrls(address).map((text) => new URL(text));
  const { protocol, username, pathname, hash } = urls[0]!;
  const user = username === "" ? "" : `${username}@`;
  return `${protocol}//${user}${urls.map(({ host }) => host).join(",")}${pathname}${hash}`;
}
