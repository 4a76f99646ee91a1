import { readFile } from 'node:fs/promises'
import { createClient } from '@fairlead/server/client'
import { deployAndSettle, processesOf } from '../../harness/deployments.ts'
import { freePort } from '../../harness/ports.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { steadyApp } from './app.ts'
import { startFollowers } from './followers.ts'
import { packVersion } from './next-version.ts'
import { type Expectation, runPhases } from './phases.ts'
import { startRequests } from './requests.ts'
import { createServed } from './servers.ts'
import { startSockets } from './sockets.ts'

/*
 * `npm run continuity`: ten apps under load, with WebSockets, log followers, requests to the API and uploads, while the
 * server is restarted, updated, rolled back and killed, and its gateway is replaced. Prints the losses of each phase,
 * and ends with 1 after a forbidden loss.
 */

const appCount = 10
const requestsPerSecond = 200
const apiPerSecond = 20
const socketsEach = 5
const followerCount = 20

const lastLines = 20

process.exitCode = await main()

async function main(): Promise<number> {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const next = await packVersion(directory.path, { version: '0.1.1-next.1' })
  const nextGateway = await packVersion(directory.path, {
    version: '0.1.1-next.2',
    edits: { 'dist/programs/gateway.mjs': (text) => `${text}// Another program.\n` },
  })
  const port = await freePort()
  const served = createServed(directory.path, port)
  cleanup.defer(async () => {
    await served.command('stop')
    const output = await readFile(served.output, 'utf8')
    if (process.exitCode !== 0) console.error(output.split('\n').slice(-lastLines).join('\n'))
  })
  process.exitCode = 1
  await served.start()
  const apiKey = (await served.command('keys', 'create', '--new', '--name', 'continuity')).trim()
  const baseUrl = `http://127.0.0.1:${port}/v1`
  const client = createClient({ baseUrl, apiKey })

  const source = cleanup.use(await repository(await steadyApp()))
  const project = await client.projects.create({ body: { name: 'continuity', plan: 'enterprise' } })
  const deployments = await Promise.all(
    Array.from({ length: appCount }, (_, at) =>
      deployAndSettle(client, project.id, { name: `app ${at}`, git_url: source.url }),
    ),
  )
  for (const { id, status } of deployments) if (status !== 'running') throw new Error(`${id} is ${status}`)
  const urls = deployments.map(({ url }) => url)
  const pids = async () => (await Promise.all(deployments.map(({ id }) => processesOf(id)))).flat().sort()

  const projectUrl = `${baseUrl}/projects/${project.id}`
  const logs = Array.from({ length: followerCount }, (_, at) => {
    return `${projectUrl}/deployments/${deployments[at % appCount]?.id}/logs?tail=1`
  })
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const loads = {
    apps: startRequests(requestsPerSecond, (index) => ({
      url: String(urls[index % appCount]),
      method: 'GET',
      status: 200,
    })),
    api: startRequests(apiPerSecond, (index) =>
      index % 4 === 0
        ? {
            url: `${baseUrl}/projects`,
            method: 'POST',
            headers,
            body: JSON.stringify({ name: `p ${index}` }),
            status: 201,
          }
        : { url: projectUrl, method: 'GET', headers, status: 200 },
    ),
    sockets: await startSockets(urls, socketsEach),
    followers: startFollowers(logs, apiKey),
  }
  cleanup.defer(async () => {
    loads.sockets.stop()
    await Promise.all([loads.apps.stop(), loads.api.stop(), loads.followers.stop()])
  })

  const planned: Expectation = { api: true, upload: true, sockets: true }
  return await runPhases({ loads, pids, storage: `${projectUrl}/storage`, apiKey }, [
    { name: 'nothing', expects: planned, run: async () => undefined },
    {
      name: 'restart',
      expects: { api: false, upload: true, sockets: true },
      run: async () => {
        await served.end('SIGTERM')
        await served.start()
      },
    },
    { name: 'handover', expects: planned, run: async () => void (await served.command('reload')) },
    { name: 'update', expects: planned, run: async () => void (await served.command('update', ...next)) },
    { name: 'update --back', expects: planned, run: async () => void (await served.command('update', '--back')) },
    {
      name: 'update of the gateway',
      // The previous gateway lets them continue until the drain limit.
      expects: { ...planned, sockets: false },
      run: async () => void (await served.command('update', ...nextGateway)),
    },
    {
      name: 'kill -9',
      expects: { api: false, upload: false, sockets: true },
      run: async () => {
        await served.end('SIGKILL')
        await served.start()
      },
    },
  ])
}
