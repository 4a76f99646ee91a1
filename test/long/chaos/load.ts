import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import type { AppName, Sources } from './sources.ts'

/** Sends some requests of every kind. The kill interrupts a few of them. */
export async function putUnderLoad(load: {
  /** The client of any server; with several servers, a different one each time. */
  readonly client: () => Client
  readonly projectId: string
  readonly sources: Sources
  readonly random: () => number
}): Promise<void> {
  const { client, projectId, sources, random } = load
  const params = { project_id: projectId }
  const any = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const create = (name: AppName, source: Parameters<Sources['url']>[0]) =>
    client().deployments.create({
      params,
      body: { name, git_url: sources.url(source) },
      signal: AbortSignal.timeout(5_000),
    })
  const sendRequests = async () => {
    await create('right', 'right')
    await create('left', any(['left', 'left', 'building', 'broken', 'hanging'] as const))
    const { deployments } = await client().deployments.list({ params, signal: AbortSignal.timeout(5_000) })
    for (let change = 0; change < 3; change++) {
      await sleep(random() * 400)
      const at = { params: { ...params, id: any(deployments.slice(0, 12)).id }, signal: AbortSignal.timeout(5_000) }
      const verb = any(['cancel', 'rollback', 'restart', 'stop'] as const)
      // Some are refused, because the deployment's state does not allow them.
      await client()
        .deployments[verb](at)
        .catch(() => undefined)
    }
    await create('right', 'right')
  }
  // The server disappears in the middle of the request.
  await sendRequests().catch(() => undefined)
}
