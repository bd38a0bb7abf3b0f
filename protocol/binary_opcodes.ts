/** The opcodes of the binary protocol: memcached's, and from 0x40 on yrmcds's. The names are those of `stats ops`. */
// deno-fmt-ignore
export const OPCODES = [
  // name          opcode
  ["Get",          0x00],
  ["Set",          0x01],
  ["Add",          0x02],
  ["Replace",      0x03],
  ["Delete",       0x04],
  ["Increment",    0x05],
  ["Decrement",    0x06],
  ["Quit",         0x07],
  ["Flush",        0x08],
  ["GetQ",         0x09],
  ["Noop",         0x0a],
  ["Version",      0x0b],
  ["GetK",         0x0c],
  ["GetKQ",        0x0d],
  ["Append",       0x0e],
  ["Prepend",      0x0f],
  ["Stat",         0x10],
  ["SetQ",         0x11],
  ["AddQ",         0x12],
  ["ReplaceQ",     0x13],
  ["DeleteQ",      0x14],
  ["IncrementQ",   0x15],
  ["DecrementQ",   0x16],
  ["QuitQ",        0x17],
  ["FlushQ",       0x18],
  ["AppendQ",      0x19],
  ["PrependQ",     0x1a],
  ["Touch",        0x1c],
  ["GaT",          0x1d],
  ["GaTQ",         0x1e],
  ["GaTK",         0x23],
  ["GaTKQ",        0x24],
  ["Lock",         0x40],
  ["LockQ",        0x41],
  ["Unlock",       0x42],
  ["UnlockQ",      0x43],
  ["UnlockAll",    0x44],
  ["UnlockAllQ",   0x45],
  ["LaG",          0x46],
  ["LaGQ",         0x47],
  ["LaGK",         0x48],
  ["LaGKQ",        0x49],
  ["RaU",          0x4a],
  ["RaUQ",         0x4b],
  ["Keys",         0x50],
] as const;

export const OPCODE = Object.fromEntries(OPCODES) as {
  readonly [Name in typeof OPCODES[number][0]]: Extract<
    typeof OPCODES[number],
    readonly [Name, number]
  >[1];
};
