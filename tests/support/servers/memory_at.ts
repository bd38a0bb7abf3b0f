/** Returns the memory at an address, for as long as its owner lives. */
export function memoryAt(address: number | bigint, length: number): Uint8Array {
  const pointer = Deno.UnsafePointer.create(BigInt(address) as Deno.PointerValue & bigint)!;
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, length));
}
