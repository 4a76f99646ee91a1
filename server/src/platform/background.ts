import type { Logger } from './logger.ts'

/** Work that nobody awaits: its errors are logged, and the shutdown can wait for it. */
export interface Background {
  add(work: Promise<unknown>, about: Readonly<Record<string, string>>): void
  /** Resolves when all work has ended, or after `timeoutMs`. */
  settle(timeoutMs: number): Promise<void>
}

export function createBackground({ logger }: { logger: Logger }): Background {
  const running = new Set<Promise<unknown>>()
  return {
    add(work, about) {
      const tracked = work
        .catch((error: unknown) => logger.error({ err: error, ...about }, 'background work failed'))
        .finally(() => running.delete(tracked))
      running.add(tracked)
    },
    async settle(timeoutMs) {
      const deadline = performance.now() + timeoutMs
      while (running.size > 0 && performance.now() < deadline) {
        let timer: NodeJS.Timeout | undefined
        const timeout = new Promise<void>((done) => {
          timer = setTimeout(done, Math.max(0, deadline - performance.now()))
        })
        await Promise.race([Promise.all(running), timeout])
        clearTimeout(timer)
      }
    },
  }
}
