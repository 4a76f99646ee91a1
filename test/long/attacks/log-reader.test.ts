import { request } from 'node:http'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

const token = 'metrics-token-of-the-tests'

/** Sends a request without a key, whose log line is as long as its path. Rejects without a timely response. */
function send(url: string): Promise<number> {
  return new Promise((done, fail) => {
    const sent = request(url, { agent: false, timeout: 15_000 }, (response) => {
      response.resume().on('end', () => done(response.statusCode ?? 0))
    })
    sent.on('timeout', () => sent.destroy(new Error('the server does not answer'))).on('error', fail)
    sent.end()
  })
}

attacks({ settings: { FAIRLEAD_METRICS_TOKEN: token } }, (attack) => {
  attack(
    {
      id: 'log-reader',
      topic: 'Recovery',
      held: 'A reader of the log that stops reading stops neither the API nor apps, and lost lines are counted',
    },
    async ({ server, operator }) => {
      await using source = await repository(nodeApp('here'))
      const { url } = await deployAndSettle(operator.client, operator.project, { name: 'app', git_url: source.url })
      const { stdout } = server.child
      stdout?.pause()
      const path = `/v1/projects/${'x'.repeat(6_000)}`
      const lost = async () => {
        const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${token}` } })
        return Number(/^fairlead_log_lines_lost_total (\d+)$/m.exec(await response.text())?.[1])
      }
      // Pipe and buffer take a megabyte and a half.
      while ((await lost()) < 100) await Promise.all(Array.from({ length: 50 }, () => send(`${server.url}${path}`)))
      expect(await send(`${server.url}/healthz`)).toBe(200)
      expect((await operator.client.projects.list()).total).toBeGreaterThan(0)
      expect(await (await fetch(url)).text()).toBe('here')
      stdout?.resume()
      await server.waitForLog((line) => Number(line['lost']) >= 100)
    },
  )
})
