import { answers, noteUnreachable, untilAnswered } from './reachability.ts'

/** Loads a part of the dashboard. While the server is away it waits, in place of an error for ever. */
export async function loadModule<Module>(load: () => Promise<Module>): Promise<Module> {
  return load().catch(() => loadAgain(load))
}

async function loadAgain<Module>(load: () => Promise<Module>): Promise<Module> {
  for (;;) {
    // An error with an answer: another version of the dashboard, which the router loads.
    if (await answers()) return load()
    noteUnreachable()
    await untilAnswered()
  }
}
