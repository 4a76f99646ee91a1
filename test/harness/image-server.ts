import type { BodyInput } from '@fairlead/server/client'
import { deployAndSettle } from './deployments.ts'
import { ownServerWithProject } from './project.ts'
import type { ExampleMachine } from './runtimes/example.ts'
import { createExampleImages, type ExampleRegistry } from './runtimes/example-images.ts'
import { temporaryDirectory } from './temporary.ts'

export type ServerWithImages = Awaited<ReturnType<typeof serverWithImages>>

/** Starts a server with one project, whose images come from a registry in the memory of the test. */
export async function serverWithImages(settings: Readonly<Record<string, string>> = {}) {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const machine: ExampleMachine = { directory: directory.path, started: [] }
  cleanup.defer(() => {
    for (const { process } of machine.started) process.kill()
  })
  const registry: ExampleRegistry = { commands: new Map(), tags: new Map(), credentials: null, pulls: [] }
  const moreRuntimes = [createExampleImages(machine, registry)]
  const given = cleanup.use(await ownServerWithProject(settings, { moreRuntimes }))
  const owned = cleanup.move()
  return {
    ...given,
    registry,
    /** Deploys an app with this name, and waits until the deployment is settled. */
    release: (app: string, body: Omit<BodyInput<'deployments.create'>, 'name'>) =>
      deployAndSettle(given.client, given.projectId, { name: app, ...body }),
    logOf: async (id: string) => (await given.client.deployments.logs(given.paramsOf(id))).text(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
