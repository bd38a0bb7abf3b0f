import type { ExploredWorld, Move } from "./explore.ts";
import type { TraceWriter } from "./trace.ts";

/** The part of a scenario that all these worlds read. */
interface Planned {
  readonly name: string;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Record<string, number | undefined>>;
  /** A rule that is broken on purpose. */
  readonly fault?: string;
}

type EventOf<Scenario extends Planned> = keyof NonNullable<Scenario["events"]> & string;

export type Act = () => void;

/** A world of a scenario, in which each event happens a limited number of times. */
export abstract class ScenarioWorld<Scenario extends Planned> implements ExploredWorld {
  readonly canBePlayed = false;
  readonly servers = 0;
  protected readonly scenario: Scenario;
  /** Records what is noted. */
  protected trace: TraceWriter | undefined;
  #budget = new Map<string, number>();

  constructor(scenario: Scenario) {
    this.scenario = scenario;
  }

  get name(): string {
    return this.scenario.name;
  }

  abstract start(trace?: TraceWriter): void;
  abstract moves(): Move[];
  abstract move(move: Move): void;
  abstract stateText(): string;
  abstract wrong(): string | undefined;
  abstract wrongToClients(): string | undefined;
  abstract look(): void;

  /** Lets every event happen as often as the scenario says. */
  protected refill(): void {
    this.#budget = new Map(Object.entries(this.scenario.events ?? {}) as [string, number][]);
  }

  /** How often each event can still happen. */
  protected get budget(): number[] {
    return [...this.#budget.values()];
  }

  /** Whether this fault is planted. */
  protected has(fault: NonNullable<Scenario["fault"]>): boolean {
    return this.scenario.fault === fault;
  }

  protected may(event: EventOf<Scenario>): boolean {
    return (this.#budget.get(event) ?? 0) > 0;
  }

  protected spend(event: EventOf<Scenario>, text: string): void {
    this.#budget.set(event, this.#budget.get(event)! - 1);
    this.note(text);
  }

  protected note(text: string): void {
    this.trace?.note(text);
  }
}

/** A world whose moves are the places of what can be done next. */
export abstract class ActingWorld<Scenario extends Planned> extends ScenarioWorld<Scenario> {
  protected abstract acts(): Act[];

  moves(): Move[] {
    return [...this.acts().keys()];
  }

  move(move: Move): void {
    this.acts()[move]!();
  }
}
