import * as yaml from "npm:js-yaml@5.5.0";
import { assert, assertEquals } from "@std/assert";
import { parseExposition } from "./support/exposition.ts";
import { path, ServerProcess } from "./support/servers/server_process.ts";
import { textOf } from "./support/sessions/side.ts";
import { needs } from "./support/needs/needs.ts";

// contrib/alerts.yml and contrib/grafana/leased.json: expressions that Prometheus reads, of metrics that exist.

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}

const ALERTS = path("contrib/alerts.yml");
const { groups } = yaml.load(Deno.readTextFileSync(ALERTS)) as {
  groups: { rules: Rule[] }[];
};
const rules = groups.flatMap(({ rules }) => rules);
const dashboard = JSON.parse(Deno.readTextFileSync(path("contrib/grafana/leased.json")));
const panels: readonly Panel[] = dashboard.panels;
const PROMTOOL = new Deno.Command("sh", { args: ["-c", "command -v promtool"], stdout: "null" })
  .outputSync().success;
const WITHOUT_PROMTOOL = PROMTOOL ? "" : "; promtool (Debian's package prometheus) not installed";

Deno.test("every metric of alerts and dashboard is one of a server's", async () => {
  const folder = Deno.makeTempDirSync();
  const args = ["--admin", "0", "--state-dir", folder, "--db", `sqlite:${folder}/rows.db`];
  await using server = await ServerProcess.start({
    args: [...args, "-U", "-1", "--rows", "row:", "--verify", "1"],
    permissions: ["-A"],
  });
  using client = await server.connect();
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  const [origin] = /http:\/\/[^/]+/.exec(await server.line("metrics are at http://"))!;
  const families = parseExposition(await (await fetch(`${origin}/metrics`)).text());
  const expressions = [
    ...rules.map(({ alert, expr }) => ({ name: alert, expr })),
    ...panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ name: title, expr }))),
  ];
  const missing = expressions.flatMap(({ name, expr }) =>
    [...expr.matchAll(/\b(?:leased|memcached)_\w+/g)]
      .map(([metric]) => metric.replace(/_bucket$/, ""))
      .filter((metric) => !families.has(metric)).map((metric) => `${name}: ${metric}`)
  );
  assertEquals(missing, []);
  await server.stop();
  Deno.removeSync(folder, { recursive: true });
});

async function promtool(...args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await new Deno.Command("promtool", { args: [...args] }).output();
  assertEquals(code, 0, textOf(stdout) + textOf(stderr));
}

Deno.test(`promtool accepts the alerts and the expressions of the dashboard${WITHOUT_PROMTOOL}`, {
  ...needs("promtool", PROMTOOL),
}, async () => {
  const file = Deno.makeTempFileSync({ suffix: ".yml" });
  const expressions = panels.flatMap(({ targets }) => targets)
    .map(({ expr }) => expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$\w+/g, ".*"));
  const recorded = expressions.map((expr, at) => ({ record: `panel:${at}`, expr }));
  Deno.writeTextFileSync(file, JSON.stringify({ groups: [{ name: "panels", rules: recorded }] }));
  await promtool("check", "rules", ALERTS, file);
  Deno.removeSync(file);
});

Deno.test(
  `an alert fires for an old update token${WITHOUT_PROMTOOL}`,
  needs("promtool", PROMTOOL),
  async () => {
    const file = Deno.makeTempFileSync({ suffix: ".yml" });
    const test = `
rule_files: ["${ALERTS}"]
tests:
  - interval: 1m
    input_series:
      - series: leased_token_oldest_age_seconds{instance="a:1"}
        values: 0+60x10
    alert_rule_test:
      - { eval_time: 4m, alertname: LeasedTokenOld, exp_alerts: [] }
      - eval_time: 10m
        alertname: LeasedTokenOld
        exp_alerts:
          - exp_labels: { severity: warning, instance: "a:1" }
            exp_annotations:
              summary: "a:1: an update token is out for 10m 0s, its writer may be gone"
`;
    Deno.writeTextFileSync(file, test);
    await promtool("test", "rules", file);
    Deno.removeSync(file);
  },
);

Deno.test("panels have titles of their own, and no two overlap", () => {
  const places = dashboard.panels.map((panel: { gridPos: { x: number; y: number } }) =>
    `${panel.gridPos.x},${panel.gridPos.y}`
  );
  assertEquals(new Set(places).size, places.length);
  assertEquals(new Set(panels.map(({ title }) => title)).size, panels.length);
  assert(rules.length > 10);
});
