/** Histories of the key "k", and the violation that the judge finds; "": none. `judge_test.ts` has their form. */
// deno-fmt-ignore
export const HISTORIES: readonly (readonly [name: string, history: string, found: string])[] = [
  ["reads before, while and after a write", `
    A get absent 0..1
    B set a      2..5
    A get absent 3..4
    A get a      5..6
    A get a      7..8`, ""],
  ["a stale read", `
    A set a 0..1
    A set b 2..3
    B get a 4..5`, `
    "a", then "b", then "a" again
    A set a 0..1
    A set b 2..3
    B get a 4..5`],
  ["a stale read of an absence", `
    A set a      0..1
    B get absent 2..3`, `
    absent, then "a", then absent as before all
    A set a      0..1
    B get absent 2..3`],
  ["a read that ends when the next write starts may come before it", `
    A set a 0..1
    A set b 2..4
    B get a 3..4
    B get a 4..6
    B get b 4..7`, ""],
  ["new, then old, though the write has not ended: its effect is one moment", `
    A set a 0..1
    A set b 2..9
    B get b 3..4
    C get a 5..6`, `
    "a", then "b", then "a" again
    A set a 0..1
    B get b 3..4
    C get a 5..6`],
  ["two readers that disagree about the order of two writes", `
    A set a 0..9
    B set b 0..9
    C get a 1..2
    C get b 3..4
    D get b 1..2
    D get a 3..4`, `
    "a" before "b", "b" before "a"
    C get a 1..2
    C get b 3..4
    D get b 1..2
    D get a 3..4`],
  ["two readers beside two writes, in one order", `
    A set a 0..9
    B set b 0..9
    C get a 1..2
    C get b 3..6
    D get a 1..4
    D get b 5..6`, ""],
  ["a lost write: nobody has read it, and the state before is still there", `
    A set a 0..1
    B set b 2..3
    A get a 4..5
    A get a 6..7`, `
    "a", then "b", then "a" again
    A set a 0..1
    B set b 2..3
    A get a 6..7`],
  ["a write that nobody has read, beside another one, may have come first", `
    A set a 0..4
    B set b 0..4
    A get a 5..6`, ""],
  ["a value that comes back", `
    A set a 0..1
    B get a 2..3
    A set b 4..5
    B get b 6..7
    B get a 8..9`, `
    "a", then "b", then "a" again
    A set a 0..1
    A set b 4..5
    B get a 8..9`],
  ["a write of unknown outcome takes effect late", `
    A set a 0..1
    B set b 2.. unknown
    A get a 3..4
    A set c 5..6
    A get c 7..8
    A get b 9..10
    A get b 11..12`, ""],
  ["a write of unknown outcome takes effect once", `
    B set b 0..1 unknown
    A get b 3..4
    A set c 5..6
    A get b 9..10`, `
    "b", then "c", then "b" again
    A get b 3..4
    A set c 5..6
    A get b 9..10`],
  ["a write of unknown outcome that has had no effect", `
    A set a 0..1
    B set b 2..3 unknown
    A get a 4..5`, ""],
  ["a failed write that was read", `
    A set a 0..1 failed
    B get a 2..3`, `
    what was read is of a write that has failed
    A set a 0..1 failed
    B get a 2..3`],
  ["a value that nobody wrote", `
    A set a 0..1
    B get x 2..3`, `
    nobody has written what was read
    B get x 2..3`],
  ["a read before the write of its value", `
    B get a 0..1
    A set a 2..3 unknown`, `
    a read has ended before the write of its value began
    B get a 0..1
    A set a 2..3 unknown`],
  ["reads that never ended, and that failed, say nothing", `
    A set a 0..1
    A set b 2..3
    B get a 4..  unknown
    C get x 4..5 failed`, ""],
  ["a deletion, and absences told apart by their versions", `
    A set    a         0..1   1
    A delete absent    2..3   2
    B get    absent    4..5   2
    A set    b         6..7   3
    A delete absent    8..9   4
    B get    absent    8..9   4
    C get    absent    10..11
    B get    absent    10..11 4`, ""],
  ["a stale absence, told by its version", `
    A set    a         0..1   1
    A delete absent    2..3   2
    A set    b         4..5   3
    A delete absent    6..7   4
    B get    absent    8..9   2`, `
    absent, then "b", then absent again
    A delete absent    2..3   2
    A set    b         4..5   3
    B get    absent    8..9   2`],
  ["a lost deletion", `
    A set    a      0..1 1
    A delete absent 2..3
    B get    a      4..5 1`, `
    "a", then absent, then "a" again
    A set    a      0..1 1
    A delete absent 2..3
    B get    a      4..5 1`],
  ["an absence of some version, beside a deletion that may have made it", `
    A set    a      0..1 1
    A delete absent 2..3
    B get    absent 4..5 2
    B get    absent 6..7`, ""],
  ["a deletion that is told without a version, and reads of its absence with one", `
    A set    a      0..1 1
    A delete absent 2..3
    A set    b      4..5 3
    B get    b      6..7 3
    B get    absent 8..9 2`, ""],
  ["an absence that comes back, after a deletion that is told without a version", `
    A set    a      0..1 1
    A delete absent 2..3
    B get    absent 4..5 2
    A set    b      6..7 3
    B get    absent 8..9 2`, `
    absent, then "b", then absent again
    B get    absent 4..5 2
    A set    b      6..7 3
    B get    absent 8..9 2`],
  ["more absences than deletions", `
    A delete absent 0..1
    B get    absent 2..3 1
    B get    absent 4..5 2`, `
    nobody has made the absence that was read
    B get    absent 4..5 2`],
  ["an absence without a version, in the time of a value", `
    A delete absent 0..1 1
    A set    a      2..3 2
    B get    absent 4..5
    B get    a      6..7`, `
    "a", then absent, then "a" again
    A set    a      2..3 2
    B get    absent 4..5
    B get    a      6..7`],
  ["an absence without a version, in the time of an absence, and beside a value", `
    A delete absent 0..1 1
    B get    absent 2..3
    B get    absent 4..5 1
    A set    a      4..7 2
    B get    absent 6..9
    B get    a      8..9`, ""],
  ["an absence that no deletion can have made", `
    A set    a      0..1 1
    A delete absent 2..3 2
    B get    absent 4..5 7`, `
    nobody has made the absence that was read
    B get    absent 4..5 7`],
  ["two deletions of unknown outcome, each seen", `
    A delete absent 0..  unknown
    B delete absent 5..  unknown
    C get    absent 2..3 1
    C set    a      4..4 2
    C get    absent 6..7 3
    C get    absent 8..9 3`, ""],
  ["two deletions of unknown outcome, the second of which is too late for what was seen", `
    A delete absent 0..  unknown
    B delete absent 8..  unknown
    C get    absent 2..3 1
    C set    a      4..4 2
    C get    absent 6..7 3`, `
    a read has ended before the write of its value began
    C get    absent 6..7 3
    B delete absent 8..  unknown`],
  ["a read that began before its deletion, which began after another state", `
    A set    a      1..3   1
    B delete absent 5..    unknown
    C get    absent 0..8   2
    A get    a      10..11 1`, `
    "a" before absent, absent before "a"
    A set    a      1..3   1
    B delete absent 5..    unknown
    C get    absent 0..8   2
    A get    a      10..11 1`],
  ["a write that was applied twice", `
    A set a 0..1
    B get a 2..3 1
    B get a 4..5 2`, `
    one state has two versions
    B get a 2..3 1
    B get a 4..5 2`],
  ["one version of two writes", `
    A set a 0..1 1
    A set b 2..3 1`, `
    two states have one version
    A set a 0..1 1
    A set b 2..3 1`],
];
