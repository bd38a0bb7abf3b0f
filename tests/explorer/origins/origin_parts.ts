import type { Flows } from "../../../lib/rows/flows/flows.ts";
import type { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import type { FlowStep, RowFlow, StepKind, StepResults } from "../../../lib/rows/flows/steps.ts";
import type { RequestSlot } from "../../../store/rows/row_requests.ts";
import type { RecordingStates } from "../client_caches/recording_states.ts";
import type { Answer } from "../steps.ts";
import type { Client } from "./origin_scenario.ts";
import type { OriginStore } from "./origin_store.ts";

export interface Actor {
  readonly client: Client;
  readonly name: string;
  /** The event that it waits for, or its result; text of its state. */
  state: "idle" | "waiting" | "ended";
  /** Requests that it waits for. */
  slots: (RequestSlot | undefined)[];
  /** The version that was committed when it asked. */
  before: number;
  versions: number[];
}

export interface Core {
  readonly flows: Flows;
  readonly states: RecordingStates;
  readonly store: OriginStore;
  /** Names of those whose requests are queued. */
  queue: string[];
  writes: RowWrite[];
  isWriting: boolean;
}

export interface Running {
  readonly core: Core;
  readonly label: () => string;
  readonly seen: Answer[];
  /** Undefined: nobody waits for the step, which may still take place. */
  readonly flow: RowFlow<unknown> | undefined;
  readonly done: (result: unknown) => void;
  step: FlowStep;
  end: { readonly result: StepResults[StepKind] } | undefined;
}
