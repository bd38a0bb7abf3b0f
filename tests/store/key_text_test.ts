import { assertEquals } from "@std/assert";
import { ByteRegion } from "../../store/bytes.ts";
import { keyText, oneWord, percentEncoded } from "../../store/key_text.ts";

Deno.test("keyText() gives a character for every byte", () => {
  const region = new ByteRegion(new ArrayBuffer(8));
  region.bytes.set([0x61, 0x00, 0xff, 0x7f], 2);
  assertEquals(keyText(region, 2, 4), "a\x00\xff\x7f");
  assertEquals(keyText(region, 2, 0), "");
});

Deno.test("percentEncoded() leaves letters, digits and -._~ as they are", () => {
  assertEquals(percentEncoded("azAZ09-._~"), "azAZ09-._~");
  assertEquals(percentEncoded("a%b/\x01\xff"), "a%25b%2F%01%FF");
});

Deno.test("oneWord() changes only what would end the word, and %", () => {
  assertEquals(oneWord("user:1/\xff"), "user:1/\xff");
  assertEquals(oneWord("a b\r%\x7f"), "a%20b%0D%25%7F");
});
