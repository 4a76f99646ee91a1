import type { Client, ResponseBody } from '@fairlead/server/client'
import { isGone } from './answers.ts'

type Listed = ResponseBody<'deployments.list'>['deployments'][number]

/**
 * Removes an app with all its deployments and returns their number; 0 when there is no app of this name. Tries again
 * with deployments that change during the removal, such as a build that has just become a running app. Rejects with the
 * client's errors.
 */
export async function removeApp(options: {
  readonly client: Client
  readonly projectId: string
  readonly name: string
  readonly signal: AbortSignal
}): Promise<number> {
  const { client, signal } = options
  let removed = 0
  for (let round = 1; ; round++) {
    const remaining = await deploymentsOf(options)
    if (remaining.length === 0) return removed
    for (const { id, status } of remaining) {
      const call = { params: { project_id: options.projectId, id }, signal }
      try {
        if (status === 'building') await client.deployments.cancel(call)
        if (status === 'running') await client.deployments.stop(call)
        await client.deployments.delete(call)
        removed++
      } catch (error) {
        if (!isGone(error) && round >= maximumRounds) throw error
      }
    }
  }
}

const maximumRounds = 3

async function deploymentsOf({
  client,
  projectId,
  name,
  signal,
}: Parameters<typeof removeApp>[0]): Promise<readonly Listed[]> {
  const found: Listed[] = []
  for await (const { deployments } of client.deployments.list.pages({ params: { project_id: projectId }, signal })) {
    found.push(...deployments.filter((deployment) => deployment.name === name))
  }
  return found
}
