import { TraceWriter } from "./trace.ts";
import { type Move, type Scenario, World } from "./world.ts";

export interface Exploration {
  /** Number of states, up to the first wrong one. */
  readonly states: number;
  readonly wrong?: Wrong;
}

/** The shortest path to a wrong state. */
export interface Wrong {
  readonly steps: number;
  readonly reason: string;
  /** A case of a transcript. */
  readonly transcript: string;
  /** The transcript alone reaches the state: no fault was injected, and clients caused every event. */
  readonly canBePlayed: boolean;
}

interface State {
  readonly before: State | undefined;
  readonly move: Move;
}

/**
 * Visits every state that the scenario can reach, breadth first. To reach a state it repeats all
 * steps to it from the beginning, which costs a few microseconds a command and needs no
 * copy of the store.
 */
export function explore(scenario: Scenario): Exploration {
  const world = new World(scenario);
  const seen = new Set<string>();
  const queue: State[] = [{ before: undefined, move: -1 }];
  world.start();
  seen.add(world.stateText());
  for (let next = 0; next < queue.length; next++) {
    const state = queue[next]!;
    const path = pathTo(state);
    replay(world, path);
    const moves = world.moves();
    for (const [index, move] of moves.entries()) {
      if (index > 0) replay(world, path);
      world.move(move);
      const text = world.stateText();
      if (seen.has(text)) continue;
      seen.add(text);
      const reason = world.violation();
      if (reason !== undefined) {
        return { states: seen.size, wrong: write(world, [...path, move], reason) };
      }
      queue.push({ before: state, move });
    }
  }
  return { states: seen.size };
}

function pathTo(state: State): Move[] {
  const path: Move[] = [];
  for (let at = state; at.before !== undefined; at = at.before) path.push(at.move);
  return path.reverse();
}

function replay(world: World, path: readonly Move[], trace?: TraceWriter): void {
  world.start(trace);
  for (const move of path) world.move(move);
}

function write(world: World, path: readonly Move[], reason: string): Wrong {
  const trace = new TraceWriter();
  replay(world, path, trace);
  trace.note(reason);
  world.look();
  return {
    steps: path.length,
    reason,
    transcript: trace.text(world.scenario.name),
    canBePlayed: trace.canBePlayed && world.scenario.mutation === undefined,
  };
}
