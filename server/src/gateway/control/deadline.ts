/** The time in which a process reads what has come while it was stopped. */
const readingMs = 1_000

/**
 * Calls `expire` after some time. Timers come before messages when a process goes on that was stopped, such as by SIGSTOP, so
 * it gets another moment to read. Returns a function that ends the waiting. Keeps no process running.
 */
export function startDeadline(ms: number, expire: () => void): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(expire, readingMs)
    timer.unref()
  }, ms)
  timer.unref()
  return () => clearTimeout(timer)
}
