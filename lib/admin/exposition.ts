import type { Stat } from "../../protocol/stats/entry.ts";

/** The media type of `Exposition.text`: Prometheus's text format. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Labels of a sample: values by name. */
export type Labels = Readonly<Record<string, string>>;

/** The metric of a statistic. */
export interface Metric {
  readonly name: string;
  readonly labels: Labels;
  /** The meaning of a name that several statistics share. Undefined: the statistic has its own. */
  readonly help?: string | undefined;
}

/** Durations of one kind of work, for `Exposition.addHistogram`. */
interface Durations {
  /** Upper bounds of the buckets in milliseconds, ascending. */
  readonly boundsMs: readonly number[];
  /** Durations in each bucket, and in one above the last bound. */
  readonly counts: readonly number[];
  readonly sumMs: number;
}

type MetricType = "counter" | "gauge" | "histogram";

interface Family {
  readonly type: MetricType;
  readonly help: string;
  readonly lines: string[];
}

/** Factors from the units of statistics to Prometheus's base units. */
const SECONDS_IN: Readonly<Record<string, number>> = {
  seconds: 1,
  milliseconds: 1e-3,
  microseconds: 1e-6,
};

/** One page of metrics in Prometheus's text format 0.0.4, each family with HELP and TYPE. */
export class Exposition {
  readonly #families = new Map<string, Family>();

  /** Adds one sample. All samples of a name have the same type. */
  add(type: MetricType, { name, labels, help = "" }: Metric, value: number): void {
    this.#family(name, type, help).lines.push(sampleLine(name, labels, value));
  }

  /** Adds a statistic: numbers in base units, a text as a label of a sample that is 1. */
  addStat({ name, value, meaning }: Stat, metric: Metric): void {
    if (meaning === undefined) return;
    const { kind, unit } = meaning;
    if (kind === "info") {
      const labels = { ...metric.labels, [name]: `${value}` };
      this.add("gauge", { ...metric, labels, help: meaning.meaning }, 1);
      return;
    }
    const factor = SECONDS_IN[unit];
    const noun = factor === undefined ? unit : "seconds";
    const help = metric.help ?? (noun === "" ? meaning.meaning : `${noun}: ${meaning.meaning}`);
    this.add(kind, { ...metric, help }, scaled(Number(value), factor ?? 1));
  }

  addHistogram(metric: Metric, { boundsMs, counts, sumMs }: Durations): void {
    const { name, labels, help = "" } = metric;
    const { lines } = this.#family(name, "histogram", help);
    let count = 0;
    for (const [index, inBucket] of counts.entries()) {
      count += inBucket;
      const boundMs = boundsMs[index];
      const le = boundMs === undefined ? "+Inf" : `${boundMs / 1000}`;
      lines.push(sampleLine(`${name}_bucket`, { ...labels, le }, count));
    }
    lines.push(sampleLine(`${name}_sum`, labels, sumMs / 1000));
    lines.push(sampleLine(`${name}_count`, labels, count));
  }

  text(): string {
    let text = "";
    for (const [name, { type, help, lines }] of this.#families) {
      text += `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
    }
    return text;
  }

  #family(name: string, type: MetricType, help: string): Family {
    let family = this.#families.get(name);
    if (family === undefined) this.#families.set(name, family = { type, help, lines: [] });
    return family;
  }
}

/**
 * Returns the name of a metric of our own: the statistic's behind a prefix, with the base unit, and `_total` if it is a
 * counter.
 */
export function ownName(prefix: string, { name, meaning }: Stat): string {
  const unit = meaning?.unit ?? "";
  const base = unit in SECONDS_IN ? "seconds" : unit === "bytes" ? unit : "";
  let own = prefix + name.replace(/_[mu]s$/, "");
  if (base !== "" && !own.includes(base)) own += `_${base}`;
  return meaning?.kind === "counter" ? `${own}_total` : own;
}

/** Multiplies without the rounding errors of a factor like 1e-6. */
function scaled(value: number, factor: number): number {
  return factor === 1 ? value : value / Math.round(1 / factor);
}

function sampleLine(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
