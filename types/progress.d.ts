/** Types of npm's `progress`, which carries none, as this project uses it. */
declare module "progress" {
  export interface ProgressBarOptions {
    /** Ticks until it is complete. */
    total: number;
    /** Characters of the bar. */
    width?: number;
    /** A terminal; nothing is drawn elsewhere. */
    stream?: unknown;
    /** Whether the bar is removed at the end. */
    clear?: boolean;
  }
  export default class ProgressBar {
    total: number;
    curr: number;
    constructor(format: string, options: ProgressBarOptions);
    tick(count: number): void;
    /** Writes a line above the bar. */
    interrupt(line: string): void;
    terminate(): void;
  }
}
