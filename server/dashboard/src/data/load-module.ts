import { answers, noteUnreachable, untilAnswered } from './reachability.ts'

/** Loads a part of the dashboard. Waits while the server is away: a failed import would fail for ever. */
export async function loadModule<Module>(load: () => Promise<Module>): Promise<Module> {
  return load().catch(() => loadAgain(load))
}

async function loadAgain<Module>(load: () => Promise<Module>): Promise<Module> {
  for (;;) {
    // The server answered with an error: it has another version of the dashboard, which the router loads.
    if (await answers()) return load()
    noteUnreachable()
    await untilAnswered()
  }
}
