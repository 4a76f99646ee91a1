import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Sends requests at an even pace over kept connections, and resolves with their times in milliseconds. A request begins
 * at its time, whatever the outcome of earlier requests, so a slow response does not delay later ones. Rejects when a
 * request fails.
 */
export async function timesAtPace(
  url: string,
  { perSecond, seconds, signal }: { perSecond: number; seconds: number; signal: AbortSignal },
): Promise<number[]> {
  const agent = new Agent({ keepAlive: true })
  const everyMs = 1_000 / perSecond
  const begun = performance.now()
  const times: Promise<number>[] = []
  try {
    for (let at = 0; at < perSecond * seconds; at++) {
      await sleep(Math.max(0, begun + at * everyMs - performance.now()), undefined, { signal })
      times.push(timed(url, agent))
    }
    return await Promise.all(times)
  } finally {
    agent.destroy()
    await Promise.allSettled(times)
  }
}

function timed(url: string, agent: Agent): Promise<number> {
  const begun = performance.now()
  return new Promise((resolve, reject) => {
    const request = get(url, { agent }, (response) => {
      response.resume()
      response.on('end', () => {
        if (response.statusCode === 200) resolve(performance.now() - begun)
        else reject(new Error(`${url} answered ${response.statusCode}`))
      })
      response.on('error', reject)
    })
    request.on('error', reject)
  })
}
