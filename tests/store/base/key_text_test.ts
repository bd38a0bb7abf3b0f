import { assertEquals } from "@std/assert";
import {
  oneWord,
  percentDecoded,
  percentEncoded,
  printable,
} from "../../../store/base/key_text.ts";

Deno.test("percentEncoded() leaves letters, digits and -._~ as they are", () => {
  assertEquals(percentEncoded("azAZ09-._~"), "azAZ09-._~");
  assertEquals(percentEncoded("a%b/\x01\xff"), "a%25b%2F%01%FF");
});

Deno.test("printable() leaves what is printable in ASCII, but blanks and percent signs", () => {
  assertEquals(printable("user:1/~!"), "user:1/~!");
  assertEquals(printable("a b%\x01\x7f\xff"), "a%20b%25%01%7F%FF");
});

Deno.test("percentDecoded() reverses percentEncoded() and printable(), and refuses other texts", () => {
  const key = String.fromCharCode(...Array(256).keys());
  for (const encode of [percentEncoded, printable]) assertEquals(percentDecoded(encode(key)), key);
  for (const text of ["a b", "%", "%4", "%zz", "%ff", "\xe9", "a\n"]) {
    assertEquals(percentDecoded(text), null, text);
  }
});

Deno.test("oneWord() changes only what would end the word, and %", () => {
  assertEquals(oneWord("user:1/\xff"), "user:1/\xff");
  assertEquals(oneWord("a b\r%\x7f"), "a%20b%0D%25%7F");
});
