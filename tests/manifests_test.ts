import { validateWorkflow } from "npm:@action-validator/core@0.6.0";
import * as yaml from "npm:js-yaml@5.5.0";
import { Deployment } from "npm:kubernetes-models@4.5.1/apps/v1/Deployment";
import { StatefulSet } from "npm:kubernetes-models@4.5.1/apps/v1/StatefulSet";
import { PodDisruptionBudget } from "npm:kubernetes-models@4.5.1/policy/v1/PodDisruptionBudget";
import { Service } from "npm:kubernetes-models@4.5.1/v1/Service";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { needNow } from "./support/needs/needs.ts";
import { hasProgram } from "./support/servers/peers.ts";
import { path } from "./support/servers/server_process.ts";
import { serverOptions } from "./support/command_line.ts";
import { textOf } from "./support/sessions/side.ts";

const config = JSON.parse(Deno.readTextFileSync(path("deno.json")));

// contrib/kubernetes/, .github/workflows/ and the bill of materials. No cluster and no runner is here: schemas are.

const KINDS = { Deployment, PodDisruptionBudget, Service, StatefulSet };

interface Manifest {
  readonly kind: keyof typeof KINDS;
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

function manifestsOf(file: string): Manifest[] {
  return yaml.loadAll(Deno.readTextFileSync(path(`contrib/kubernetes/${file}`))) as Manifest[];
}

/** Validates a manifest. @returns Paths of members of its spec that the schema did not ask for: misspelt ones. */
function unknownMembers(manifest: Manifest): string[] {
  const seen = new Set<unknown>();
  const observed = (value: unknown, at: string): unknown => {
    if (typeof value !== "object" || value === null) return value;
    return new Proxy(value, {
      get(target, name): unknown {
        const place = `${at}/${String(name)}`;
        seen.add(place);
        return observed(Reflect.get(target, name), place);
      },
    });
  };
  // The constructor copies the members of the manifest itself.
  const model = new KINDS[manifest.kind](manifest as never);
  Object.assign(model, { spec: observed(manifest.spec, "/spec") });
  model.validate();
  const places = (value: unknown, at: string): string[] =>
    typeof value !== "object" || value === null
      ? []
      : Object.entries(value).flatMap(([name, member]) => [
        `${at}/${name}`,
        ...places(member, `${at}/${name}`),
      ]);
  return places(manifest.spec, "/spec").filter((place) => !seen.has(place));
}

for (const file of ["nodes.yaml", "origin.yaml"]) {
  Deno.test(`contrib/kubernetes/${file} has the schema of Kubernetes, and options of this server`, () => {
    for (const manifest of manifestsOf(file)) {
      assertEquals(unknownMembers(manifest), [], manifest.kind);
      const text = JSON.stringify(manifest);
      const [, args] = /"args":(\[[^\]]*\])/.exec(text) ?? [];
      if (args === undefined) continue;
      serverOptions(...JSON.parse(args.replace("$(DATABASE_URL)", "postgres://u@h/d")));
      assertStringIncludes(text, '"prometheus.io/port":"9150"');
      assertStringIncludes(text, '"readinessProbe"');
      assertStringIncludes(text, `"image":"leased:${config.version}"`);
    }
  });
}

Deno.test("a misspelt member and a wrong type of a manifest are found", () => {
  const [, , set] = manifestsOf("nodes.yaml");
  const misspelt = JSON.parse(JSON.stringify(set).replace('"httpGet"', '"httpget"'));
  assertEquals(
    unknownMembers(misspelt)[0],
    "/spec/template/spec/containers/0/startupProbe/httpget",
  );
  let message = "";
  try {
    unknownMembers({ ...set!, spec: { ...set!.spec, replicas: "three" } });
  } catch (error) {
    message = (error as Error).message;
  }
  assertStringIncludes(message, "replicas must be integer");
});

function workflow(name: string): string {
  return Deno.readTextFileSync(path(`.github/workflows/${name}.yml`));
}

for (const name of ["test", "release"]) {
  Deno.test(`.github/workflows/${name}.yml has the schema of workflows, and its tasks exist`, () => {
    // The validator's schema is older than this permission.
    const text = workflow(name).replaceAll(/,?\s+attestations: write/g, "");
    assertEquals(validateWorkflow(text).errors, []);
    const broken = validateWorkflow(text.replaceAll("runs-on:", "run-on:"));
    assert(broken.errors.length > 0);
    for (const [, task] of text.matchAll(/deno task ([\w:]+)/g)) {
      assert(task! in config.tasks, task);
    }
  });
}

Deno.test("the release compiles deno task compile's program for five targets", () => {
  const { jobs } = yaml.load(workflow("release")) as {
    jobs: { executables: { steps: { name?: string; run?: string }[] } };
  };
  const { run } = jobs.executables.steps.find(({ name }) => name === "compile")!;
  const folder = Deno.makeTempDirSync();
  const { command } = config.tasks.compile;
  Deno.writeTextFileSync(`${folder}/deno`, '#!/bin/sh\necho "deno $*"\n', { mode: 0o755 });
  Deno.writeTextFileSync(`${folder}/jq`, '#!/bin/sh\necho "$COMMAND"\n', { mode: 0o755 });
  needNow("bash", hasProgram("bash"));
  const { code, stdout, stderr } = new Deno.Command("bash", {
    args: ["-euo", "pipefail", "-c", run!],
    cwd: folder,
    env: { PATH: `${folder}:${Deno.env.get("PATH")}`, COMMAND: command },
  }).outputSync();
  assertEquals(code, 0, textOf(stderr));
  const lines = textOf(stdout).trim().split("\n");
  assertEquals(lines.length, 5);
  for (const line of lines) {
    const [, target] = / --target (\S+) /.exec(line)!;
    assertEquals(
      line,
      command.replace("--output leased", `--target ${target} --output dist/leased-${target}`),
    );
  }
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("deno task sbom names each package that an executable contains, with its digest", () => {
  const { stdout } = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-read=.", "contrib/sbom.ts"],
    cwd: path(""),
  }).outputSync();
  const { bomFormat, specVersion, components } = JSON.parse(textOf(stdout));
  assertEquals([bomFormat, specVersion], ["CycloneDX", "1.5"]);
  const lock = JSON.parse(Deno.readTextFileSync(path("lib/databases/postgres/deno.lock")));
  const libraries = components.filter(({ type }: { type: string }) => type === "library");
  assertEquals(libraries.length, Object.keys(lock.npm).length);
  for (const { purl, hashes: [{ alg, content }] } of libraries) {
    assert(/^pkg:npm\/[\w%./-]+@\d+\.\d+\.\d+$/.test(purl), purl);
    assertEquals([alg, content.length], ["SHA-512", 128]);
  }
});
