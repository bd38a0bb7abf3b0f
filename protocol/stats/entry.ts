/**
 * One line of statistics: the text protocol writes `STAT <name> <value>`, the binary one a packet. A null in a sequence
 * of entries marks where the mutex may be yielded.
 */
export type StatEntry = readonly [name: string, value: string | number];

// How settings are written.
export const yesNo = (value: boolean): string => value ? "yes" : "no";
export const onOff = (value: boolean): string => value ? "on" : "off";
