/** Counts the connections of a group, such as a port or a peer. */
export interface Gate {
  /** Admits one more connection; false when it must be closed at once. */
  enter(): boolean
  leave(): void
}

/**
 * Returns a function that makes a gate for each group of a process that can have `most` connections. A group may have
 * as many connections as are still free: a flood takes half of all connections, and leaves the rest to other groups. A
 * `shared` group stands for many others, as a proxy does for its clients, and may take all free connections.
 */
export function createGates(most: number): (group?: { readonly shared: boolean }) => Gate {
  let all = 0
  return ({ shared } = { shared: false }) => {
    let own = 0
    return {
      enter() {
        if ((shared ? 0 : own) >= most - all) return false
        own += 1
        all += 1
        return true
      },
      leave() {
        own -= 1
        all -= 1
      },
    }
  }
}
