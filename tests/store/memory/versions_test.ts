import { assert, assertEquals } from "@std/assert";
import { NO_GROUP, versionBytesNeeded, Versions } from "../../../store/memory/versions.ts";

const create = (isOn = true): Versions =>
  new Versions(new SharedArrayBuffer(versionBytesNeeded(isOn)));

Deno.test("a version is odd during a change, and another one after it", () => {
  const versions = create();
  const begun = versions.begin(77);
  assertEquals(versions.words[77], 1);
  versions.end(begun);
  assertEquals(versions.words[77], 2);
});

Deno.test("changes of a version nest, and only the outermost ends it", () => {
  const versions = create();
  const outer = versions.begin(77);
  versions.end(versions.begin(77));
  const other = versions.begin(78);
  assertEquals([versions.words[77], versions.words[78]], [1, 1]);
  versions.end(other);
  versions.end(outer);
  assertEquals([versions.words[77], versions.words[78]], [2, 2]);
});

Deno.test("a hash has the version of its lowest bits, whatever its sign", () => {
  const versions = create();
  const { mask } = versions;
  for (const hash of [5, mask + 1 + 5, -mask - 1 + 5, 0x40000000 + 5]) {
    versions.end(versions.begin(hash));
  }
  assertEquals(versions.words[5], 8);
});

Deno.test("versions wrap and stay even", () => {
  const versions = create();
  versions.words[78] = 0x7fffffff - 1;
  versions.end(versions.begin(78));
  assertEquals(versions.words[78], -0x80000000);
});

Deno.test("a change of everything changes every version", () => {
  const versions = create();
  versions.beginAll();
  assert(versions.words.every((version) => version === 1));
  versions.endAll();
  assert(versions.words.every((version) => version === 2));
});

Deno.test("without readers that rely on them there are no versions", () => {
  const versions = create(false);
  assertEquals(versions.isOn, false);
  assertEquals(versions.begin(77), NO_GROUP);
  versions.end(NO_GROUP);
  versions.beginAll();
  versions.endAll();
  assertEquals(versions.words.length, 0);
});
