import { setTimeout as sleep } from 'node:timers/promises'
import type { BodyInput, Client, ResponseBody } from '@fairlead/server/client'
import { findProcesses } from '../../server/src/platform/processes.ts'

type Detail = ResponseBody<'deployments.get'>

/** Asks for a deployment until it is no longer building. */
export async function settled(client: Client, projectId: string, id: string): Promise<Detail> {
  for (;;) {
    const deployment = await client.deployments.get({ params: { project_id: projectId, id } })
    if (deployment.status !== 'building') return deployment
    await sleep(50)
  }
}

/** Creates a deployment and waits for what becomes of it. */
export async function deployAndSettle(
  client: Client,
  projectId: string,
  body: BodyInput<'deployments.create'>,
): Promise<Detail> {
  const { id } = await client.deployments.create({ params: { project_id: projectId }, body })
  return settled(client, projectId, id)
}

/** The processes of a release. */
export function processesOf(id: string): Promise<number[]> {
  return findProcesses({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: id })
}

/** A repository whose build, or whose app, hangs until it is ended. */
export const hangingBuild = {
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': "console.log('building'); setInterval(() => {}, 1000)",
  'server.js': '',
}

export const hangingStart = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': "process.on('SIGTERM', () => {}); console.log('starting'); setInterval(() => {}, 1000)",
}
