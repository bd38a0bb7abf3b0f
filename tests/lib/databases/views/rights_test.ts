// The steps of docs/follow.md with a role for each: the owner of the tables, a superuser, the origin's user.
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { sharedPostgres, testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startOrigin } from "../../../support/servers/origin_process.ts";
import { path } from "../../../support/servers/server_process.ts";
import { read, untilReads } from "./shop.ts";

const VIEWS = path("examples/views.jsonc");
const ATLAS = '{"id":1,"name":"Atlas","category":"Books","cents":2500}';
/** Every right that the origin's user has, as `table right`. */
const RIGHTS =
  `SELECT string_agg(relname || ' ' || privilege_type, ', ' ORDER BY relname, privilege_type)
  FROM pg_class, aclexplode(relacl) WHERE grantee = 'ROLE'::regrole`;
const ROLE =
  "SELECT concat_ws(' ', rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication, " +
  "(SELECT count(*) FROM pg_auth_members WHERE member = pg_roles.oid)) FROM pg_roles WHERE rolname = 'ROLE'";

testDatabases(
  "the origin's user needs the rights of contrib, and no others",
  async ({ url, folder }) => {
    const server = await sharedPostgres();
    const suffix = `r${Date.now()}`;
    const [owner, proxy, application] = ["owner", "proxy", "application"].map((role) =>
      role + suffix
    );
    /** The role's own name, as each cluster has one of it. */
    const sql = (file: string): string =>
      Deno.readTextFileSync(path(file)).replaceAll(/\b(proxy|application)\b/g, `$1${suffix}`);
    const as = (role: string): string => {
      const each = new URL(url);
      each.username = role;
      return each.href;
    };
    const database = new URL(url).pathname.slice(1);
    await server.execute(
      `CREATE ROLE ${owner} LOGIN; CREATE ROLE ${application} LOGIN; ALTER DATABASE ${database} OWNER TO ${owner}; ` +
        `ALTER SCHEMA public OWNER TO ${owner}`,
      url,
    );
    await server.execute(Deno.readTextFileSync(path("examples/shop.sql")), as(owner!));
    await server.execute(`GRANT UPDATE, SELECT ON price TO ${application}`, as(owner!));
    const place = { folder: [folder, path("examples")].filter((each) => each !== "").join() };
    const options = ["--follow", "--views", VIEWS];
    const init = await runInit({ ...place, url: as(owner!) }, [...options, "--run"]);
    assertEquals(init.code, 0, init.stderr);
    assertStringIncludes(init.stderr, "changes of the schema are noticed within a second");
    for (const file of ["contrib/proxy_user.sql", "contrib/follow_user.sql"]) {
      await server.execute(sql(file), url);
    }
    await server.execute(`GRANT SELECT ON product, category, price TO ${proxy}`, url);
    const ask = (query: string): Promise<string> =>
      server.execute(query.replace("ROLE", proxy!), url);
    assertEquals(await ask(ROLE), "f f f f t 0");
    assertEquals((await ask(RIGHTS)).split(", "), [
      "category SELECT",
      ...["INSERT", "SELECT", "UPDATE"].map((right) => `kv ${right}`),
      ...["DELETE", "INSERT", "SELECT"].map((right) => `leased_applied ${right}`),
      ...["DELETE", "INSERT", "SELECT", "UPDATE"].map((right) => `leased_follow ${right}`),
      ...["INSERT", "SELECT", "UPDATE"].map((right) => `leased_proxy ${right}`),
      ...["price SELECT", "product SELECT"],
    ]);

    await using origin = await startOrigin({ ...place, url: as(proxy!) }, [
      ...options,
      "--rows",
      "*",
    ]);
    using client = await origin.connect();
    await untilReads([client], "product:1", ATLAS);
    await client.ask("set row 0 0 1\r\nx\r\n", "STORED\r\n");
    await server.execute("UPDATE price SET cents = 2000 WHERE product_id = 1", as(application!));
    await untilReads([client], "product:1", ATLAS.replace("2500", "2000"));
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    await assertRejects(
      () => server.execute("UPDATE kv SET value = ''", as(application!)),
      Error,
      "permission denied for table kv",
    );

    const revoked = `REVOKE SELECT ON price FROM ${proxy}; REVOKE INSERT ON kv FROM ${proxy}`;
    await server.execute(revoked, url);
    await client.send("set row 0 0 1\r\ny\r\n");
    assertStringIncludes(await client.until(/\r\n$/), "permission denied for table kv");
    await origin.line("view product:{id} is not cached");
    assertStringIncludes(await read(client, "product:3"), "permission denied for table price");
  },
  ["PostgreSQL"],
);
