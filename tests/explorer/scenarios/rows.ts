import type { ExploredWorld } from "../explore.ts";
import { FollowWorld } from "../follow/follow_world.ts";
import { NodeWorld } from "../nodes/node_world.ts";
import { OriginWorld } from "../origins/origin_world.ts";
import { RightWorld } from "../origins/right_world.ts";
import { RoomWorld } from "../room/room_world.ts";
import { SavedWorld } from "../saved/saved_world.ts";
import { BucketWorld } from "../versions/bucket_world.ts";
import { World } from "../world.ts";
import type { Row } from "../scenario.ts";
import { BUCKETS } from "./buckets.ts";
import { CLIENT } from "./client.ts";
import { FAULTS } from "./faults.ts";
import { LARGE } from "./large.ts";
import { FOLLOW, LARGE_FOLLOW } from "./follow.ts";
import { LARGE_NODES, NODES } from "./nodes.ts";
import { LARGE_ORIGINS, ORIGINS } from "./origins.ts";
import { CLIENT_CACHES } from "./client_caches.ts";
import { RIGHTS } from "./rights.ts";
import { ROOM } from "./room.ts";
import { SAVED } from "./saved.ts";
import { SNAPSHOTS } from "./snapshots.ts";
import { TOKENS } from "./tokens.ts";
import { DIRTY_WINDOWS, FILLS, FLOWS, MEETINGS } from "./leases.ts";

/** A scenario in its world, with the expected result. */
export interface Explored extends Pick<Row, "name" | "wrongAfter" | "why"> {
  world(): ExploredWorld;
}

function explored<Scenario extends Pick<Row, "name" | "wrongAfter" | "why">>(
  scenarios: readonly Scenario[],
  world: (scenario: Scenario) => ExploredWorld,
): Explored[] {
  return scenarios.map((each) => ({ ...each, world: () => world(each) }));
}

const CACHES: readonly Row[] = [
  ...FLOWS,
  ...MEETINGS,
  ...DIRTY_WINDOWS,
  ...FILLS,
  ...TOKENS,
  ...CLIENT_CACHES,
  ...FAULTS,
  ...SNAPSHOTS,
  ...CLIENT,
];

/** All scenarios of the test. */
export const EXPLORED: readonly Explored[] = [
  ...explored(CACHES, (row) => new World(row)),
  ...explored(BUCKETS, (scenario) => new BucketWorld(scenario)),
  ...explored(ORIGINS, (scenario) => new OriginWorld(scenario)),
  ...explored(RIGHTS, (scenario) => new RightWorld(scenario)),
  ...explored(ROOM, (scenario) => new RoomWorld(scenario)),
  ...explored(NODES, (scenario) => new NodeWorld(scenario)),
  ...explored(FOLLOW, (scenario) => new FollowWorld(scenario)),
  ...explored(SAVED, (scenario) => new SavedWorld(scenario)),
];

/** Larger ones, which only `deno task explore` runs. */
export const LARGE_EXPLORED: readonly Explored[] = [
  ...explored(LARGE, (row) => new World(row)),
  ...explored(LARGE_ORIGINS, (scenario) => new OriginWorld(scenario)),
  ...explored(LARGE_NODES, (scenario) => new NodeWorld(scenario)),
  ...explored(LARGE_FOLLOW, (scenario) => new FollowWorld(scenario)),
];
