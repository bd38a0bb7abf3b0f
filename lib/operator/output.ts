/** Returns a text in which no character can control a terminal: others than printable ASCII become `?`. */
export function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?");
}

/** Returns `64.0 MiB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${unit === "B" ? value : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}
