import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { processesOf } from '../../harness/deployments.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { apps } from './sources.ts'

const restTimeoutMs = 120_000

/** Resolves with the problems that remain after enough time to settle. */
export async function untilRest(look: {
  readonly client: Client
  /** The number of processes of a running release. */
  readonly processesEach: number
  readonly projectId: string
  readonly dataDirectory: string
  readonly received: readonly { readonly event: string; readonly data: { readonly deployment_id: string } }[]
}): Promise<string[]> {
  const deadline = performance.now() + restTimeoutMs
  for (;;) {
    const problems = await problemsNow(look)
    if (problems.length === 0 || performance.now() > deadline) return problems
    await sleep(200)
  }
}

async function problemsNow(look: Parameters<typeof untilRest>[0]): Promise<string[]> {
  const { client, projectId } = look
  const { deployments } = await client.deployments.list({ params: { project_id: projectId } })
  const problems: string[] = []
  const folders = new Set((await releasesOnDisk(look.dataDirectory)).map((path) => String(path.split('/').at(-1))))
  const known = new Set(deployments.map(({ id }) => id))
  for (const id of folders) if (!known.has(id)) problems.push(`${id} has files and no deployment`)
  for (const { id, status } of deployments) {
    const processes = await processesOf(id)
    if (status === 'building') problems.push(`${id} is still building`)
    if (status === 'running' && processes.length !== look.processesEach) {
      problems.push(`${id} is running with ${processes.length} processes, not ${look.processesEach}`)
    }
    if (status !== 'running' && processes.length > 0) problems.push(`${id} is ${status} and has processes`)
    const expected = { running: 'succeeded', failed: 'failed', canceled: 'canceled' }[String(status)]
    const isAnnounced = look.received.some(
      ({ event, data }) => data.deployment_id === id && event === `deployment.${expected}`,
    )
    if (expected !== undefined && !isAnnounced) problems.push(`${id} is ${status}, and no event has said so`)
  }
  for (const name of apps) {
    const own = deployments.filter((deployment) => deployment.name === name)
    const running = own.filter(({ status }) => status === 'running')
    if (running.length > 1) problems.push(`${name} has ${running.length} running releases`)
    if (own[0] === undefined) continue
    const response = await fetch(own[0].url).catch(() => undefined)
    const text = await response?.text()
    if (response?.status === 200 && text !== name) problems.push(`at the address of ${name} is ${text}`)
    const seen = response?.headers.get('x-fairlead-deployment') ?? undefined
    if (seen !== running[0]?.id) problems.push(`at the address of ${name} is ${seen}, not ${running[0]?.id}`)
  }
  return problems
}
