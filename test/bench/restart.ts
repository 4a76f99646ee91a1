import { setTimeout as sleep } from 'node:timers/promises'
import { inTime } from './deadline.ts'
import type { Platform } from './platform.ts'

/** Restarts an app; resolves to the milliseconds until it runs. */
export async function restartMs(
  { platform: { client, projectId }, id }: { readonly platform: Platform; readonly id: string },
  signal: AbortSignal,
): Promise<number> {
  const params = { project_id: projectId, id }
  const begun = performance.now()
  await client.deployments.restart({ params })
  const over = async () => {
    while ((await client.deployments.get({ params })).status === 'building') await sleep(5, undefined, { signal })
  }
  await inTime('end of a restart', signal, over())
  return performance.now() - begun
}
