import { answers, noteUnreachable, untilAnswered } from './reachability.ts'
import { sleep } from './sleep.ts'

/** A network that comes or goes may take several requests away, one soon after the other. */
const pausesMs = [0, 300, 1_000]

/**
 * Loads a part of the dashboard. While the server is away it waits, in place of an error for ever.
 *
 * @param isBack resolves when the server answers
 */
export async function loadModule<Module>(load: () => Promise<Module>, isBack = untilReachable): Promise<Module> {
  return load().catch((error) => loadAgain(load, isBack, error))
}

async function loadAgain<Module>(
  load: () => Promise<Module>,
  isBack: () => Promise<void>,
  first: unknown,
): Promise<Module> {
  let last = first
  for (const pauseMs of pausesMs) {
    await sleep(pauseMs)
    await isBack()
    try {
      return await load()
    } catch (error) {
      last = error
    }
  }
  // An error with an answer: another version of the dashboard, which the router loads.
  throw last
}

async function untilReachable(): Promise<void> {
  if (await answers()) return
  noteUnreachable()
  await untilAnswered()
}
