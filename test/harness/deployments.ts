import { setTimeout as sleep } from 'node:timers/promises'
import type { BodyInput, Client, ResponseBody } from '@fairlead/server/client'
import { inject } from 'vitest'
import { findProcesses } from '../../server/src/platform/processes.ts'

type Detail = ResponseBody<'deployments.get'>

const pauses = { firstMs: 25, factor: 1.25, mostMs: 250 }

/** Polls a deployment until it is no longer building. The pauses grow, because each request takes time from the build. */
export async function settled(client: Client, projectId: string, id: string): Promise<Detail> {
  for (let pauseMs = pauses.firstMs; ; pauseMs = Math.min(pauseMs * pauses.factor, pauses.mostMs)) {
    const deployment = await client.deployments.get({ params: { project_id: projectId, id } })
    if (deployment.status !== 'building') return deployment
    await sleep(pauseMs)
  }
}

/** Creates a deployment and resolves when it is settled. */
export async function deployAndSettle(
  client: Client,
  projectId: string,
  body: BodyInput<'deployments.create'>,
): Promise<Detail> {
  const { id } = await client.deployments.create({ params: { project_id: projectId }, body })
  return settled(client, projectId, id)
}

/**
 * Returns the ids of a release's processes. In API tests apps have no processes, so a check on processes would prove
 * nothing there.
 */
export async function processesOf(id: string): Promise<number[]> {
  if (process.env['VITEST'] !== undefined && inject('sharedServer') !== null)
    throw new Error('apps of API tests have no processes')
  return findProcesses({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: id })
}

/** The files of an app whose build prints `building` and never ends by itself. */
export const hangingBuild = {
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': "console.log('building'); setInterval(() => {}, 1000)",
  'server.js': '',
}

/** The files of an app that prints `starting`, never listens and ignores SIGTERM. */
export const hangingStart = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': "process.on('SIGTERM', () => {}); console.log('starting'); setInterval(() => {}, 1000)",
}
