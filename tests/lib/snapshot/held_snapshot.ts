// Starts the server with the arguments given. The first sync of its snapshot does not return, and the server says so.

const { FsFile } = Deno;

FsFile.prototype.sync = () => {
  Deno.stderr.writeSync(new TextEncoder().encode("the snapshot is held\n"));
  return new Promise(() => {});
};
await import("../../../main.ts");
