// `deno task sbom`: prints the packages that an executable contains, as a CycloneDX 1.5 document.

import manifest from "../deno.json" with { type: "json" };

const LOCK = "../lib/databases/postgres/deno.lock";

interface LockFile {
  /** By name and version, with the peers behind an underscore: `pg@8.1.0_x@1.0.0`. */
  readonly npm: Readonly<Record<string, { readonly integrity: string }>>;
}

const lock: LockFile = JSON.parse(Deno.readTextFileSync(new URL(LOCK, import.meta.url)));
const components = Object.entries(lock.npm).map(([id, { integrity }]) => {
  const [, name, version] = /^(@?[^@]+)@([^_]+)/.exec(id)!;
  const [algorithm, digest] = integrity.split("-") as [string, string];
  const bytes = Uint8Array.fromBase64(digest);
  const purl = `pkg:npm/${name!.replace("@", "%40")}@${version}`;
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    purl,
    hashes: [{ alg: algorithm.replace("sha", "SHA-"), content: bytes.toHex() }],
  };
});
const purl = `pkg:generic/${manifest.name}@${manifest.version}`;
const { name, version } = manifest;
const runtime = { type: "platform", "bom-ref": "deno", name: "deno", version: Deno.version.deno };
const bom = {
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  version: 1,
  metadata: {
    component: {
      type: "application",
      "bom-ref": purl,
      name,
      version,
      purl,
      licenses: [{ license: { id: manifest.license } }],
    },
  },
  components: [runtime, ...components],
};
// deno-lint-ignore no-console -- the result of the run
console.log(JSON.stringify(bom, null, 2));
