import { assertEquals } from "@std/assert";
import { oneWord, percentEncoded } from "../../../store/base/key_text.ts";

Deno.test("percentEncoded() leaves letters, digits and -._~ as they are", () => {
  assertEquals(percentEncoded("azAZ09-._~"), "azAZ09-._~");
  assertEquals(percentEncoded("a%b/\x01\xff"), "a%25b%2F%01%FF");
});

Deno.test("oneWord() changes only what would end the word, and %", () => {
  assertEquals(oneWord("user:1/\xff"), "user:1/\xff");
  assertEquals(oneWord("a b\r%\x7f"), "a%20b%0D%25%7F");
});
