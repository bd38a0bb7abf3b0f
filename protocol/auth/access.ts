/** The rights of a peer. Every level includes the ones before it. */
export const Access = {
  /** Nothing: it has not authenticated. */
  NONE: 0,
  /** Read values and statistics. */
  READ: 1,
  /** Also change values, and take leases, locks and update tokens. */
  WRITE: 2,
  /** Also be a node of this origin. */
  NODE: 3,
  /** Also administer: flush, list keys, locks, leases and update tokens, watch, tune, stop. */
  ADMIN: 4,
} as const;

export type Access = typeof Access[keyof typeof Access];

/** The access that a command needs: always the same, or as `conversation.thread.request` says. */
export type AccessRule<Conversation> = Access | ((conversation: Conversation) => Access);
