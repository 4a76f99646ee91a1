import { randomUUID } from 'node:crypto'
import { commandLabel, waiterLabel } from '../names.ts'
import type { Containers } from './containers.ts'

/** Tells containers that somebody waits for from those that are left over: one-off commands, and those that only hold files. */
export interface Waiters {
  /** Calls `use` with the labels of a container that is needed until that settles. `purpose` is the value of `commandLabel`. */
  during<T>(purpose: string, use: (labels: Readonly<Record<string, string>>) => Promise<T>): Promise<T>
  /**
   * Removes the containers that nobody waits for: their server was killed, or their engine was away when they were to be removed.
   */
  removeLeft(): Promise<void>
}

export function createWaiters(containers: Pick<Containers, 'list' | 'remove'>): Waiters {
  const waiting = new Set<string>()
  return {
    async during(purpose, use) {
      const waiter = randomUUID()
      waiting.add(waiter)
      try {
        return await use({ [commandLabel]: purpose, [waiterLabel]: waiter })
      } finally {
        waiting.delete(waiter)
      }
    },

    async removeLeft() {
      const listed = await containers.list({ [commandLabel]: null })
      const left = listed.filter(({ Labels }) => Labels[commandLabel] !== '' && !waiting.has(Labels[waiterLabel] ?? ''))
      for (const { Id } of left) await containers.remove(Id)
    },
  }
}
