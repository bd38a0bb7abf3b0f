import { assertEquals } from "@std/assert";
import { TraceWriter } from "./trace.ts";

/** An event's number. It means something to its world only. */
export type Move = number;

/**
 * Something whose events can be tried in every order: caches and clients (world.ts), or whatever else
 * takes part in the protocols. `start` puts everything back, and the same moves lead to the same
 * state.
 */
export interface ExploredWorld {
  readonly name: string;
  /** Clients alone can do to a server what they do here: no fault is planted in between. */
  readonly canBePlayed: boolean;
  /** How many servers there are. */
  readonly servers: number;
  /** Starts again. @param trace Records the events from here on. */
  start(trace?: TraceWriter): void;
  /** Returns the events that can happen next. */
  moves(): Move[];
  move(move: Move): void;
  /**
   * Returns the state as a text. States with equal texts have equal futures, so the text holds the
   * order of ids, the time left to each deadline, and the knowledge of actors with the same role in
   * any order.
   */
  stateText(): string;
  /** Returns why the last move, or the state, is wrong, or undefined. */
  wrong(): string | undefined;
  /** Like `wrong`, and looks as a client does: the world may be another one afterwards. */
  wrongToClients(): string | undefined;
  /** Looks as anybody would, for the trace. */
  look(): void;
}

export interface Exploration {
  /** Number of states, up to the first wrong one. */
  readonly states: number;
  readonly wrong?: Wrong;
}

/** The shortest path to a wrong state. */
export interface Wrong {
  readonly steps: number;
  readonly reason: string;
  /** A case of a transcript, for a reader. */
  readonly transcript: string;
  /** The requests that each server sees, as a case; empty when clients alone cannot cause it. */
  readonly playable: readonly string[];
}

interface State {
  readonly before: State | undefined;
  readonly move: Move;
  readonly text: string;
}

/**
 * Visits every state that the world can reach, breadth first. To reach a state it repeats all
 * steps to it from the beginning, which costs a few microseconds a command and needs no
 * copy of the store.
 */
export function explore(world: ExploredWorld): Exploration {
  const seen = new Set<string>();
  world.start();
  const queue: State[] = [{ before: undefined, move: -1, text: world.stateText() }];
  seen.add(queue[0]!.text);
  for (let next = 0; next < queue.length; next++) {
    const state = queue[next]!;
    const path = pathTo(state);
    replay(world, path);
    assertEquals(world.stateText(), state.text, `${world.name}: the same moves, another state`);
    const moves = world.moves();
    for (const [index, move] of moves.entries()) {
      if (index > 0) replay(world, path);
      world.move(move);
      const text = world.stateText();
      const isNew = !seen.has(text);
      if (isNew) seen.add(text);
      const reason = isNew ? world.wrongToClients() : world.wrong();
      if (reason !== undefined) {
        return { states: seen.size, wrong: write(world, [...path, move], reason) };
      }
      if (isNew) queue.push({ before: state, move, text });
    }
  }
  return { states: seen.size };
}

/**
 * Goes random ways to their ends, one after the other. It finds less than `explore` does, in worlds
 * that are too large for it.
 *
 * @param steps How many, on all ways together.
 * @param random Gives numbers in 0..1.
 * @returns The wrong state that ended it; it is not the nearest one.
 */
export function walk(
  world: ExploredWorld,
  steps: number,
  random: () => number,
): Wrong | undefined {
  let path: Move[] = [];
  world.start();
  for (let step = 0; step < steps; step++) {
    const moves = world.moves();
    if (moves.length === 0) {
      path = [];
      world.start();
      continue;
    }
    const move = moves[Math.floor(random() * moves.length)]!;
    path.push(move);
    world.move(move);
    const reason = world.wrong();
    if (reason !== undefined) return write(world, path, reason);
  }
  return undefined;
}

function pathTo(state: State): Move[] {
  const path: Move[] = [];
  for (let at = state; at.before !== undefined; at = at.before) path.push(at.move);
  return path.reverse();
}

function replay(world: ExploredWorld, path: readonly Move[], trace?: TraceWriter): void {
  world.start(trace);
  for (const move of path) world.move(move);
}

function write(world: ExploredWorld, path: readonly Move[], reason: string): Wrong {
  const trace = new TraceWriter();
  replay(world, path, trace);
  trace.note(reason);
  world.look();
  const servers = trace.canBePlayed && world.canBePlayed ? world.servers : 0;
  return {
    steps: path.length,
    reason,
    transcript: trace.text(world.name),
    playable: Array.from({ length: servers }, (_, index) => {
      const title = world.servers > 1 ? `${world.name}, cache ${index + 1}` : world.name;
      return trace.textOf(index, title);
    }),
  };
}
