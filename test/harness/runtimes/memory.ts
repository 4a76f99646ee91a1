import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { planSource } from '../../../server/src/builds/plan-source.ts'
import { noCapabilities } from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import type { Runtime } from '../../../server/src/runtimes/runtime.ts'
import type { ServerOptions } from '../../../server/src/server.ts'
import { createExampleRuntime, type ExampleMachine } from './example.ts'
import { startInMemory } from './memory-process.ts'

/**
 * Options of servers whose apps run in their memory. The servers skip sandboxes, control groups and networks of this
 * machine, and start no process to plan a build. This saves about a fifth of the CPU time of a whole run of API tests.
 */
export const memoryOptions: Pick<ServerOptions, 'host' | 'buildPlans'> = {
  host: noCapabilities,
  buildPlans: {
    begin: () => ({
      finish: (directory, request) => planSource(directory, request),
      end() {},
    }),
  },
}

/**
 * Makes the runtime of API tests: the apps' Node programs run in the server's process. Builds and starts cost no
 * process, and isolate nothing. The files of releases are in a folder of the server's data directory, where
 * `releasesOnDisk` finds them.
 */
export async function memoryRuntime(dataDirectory: string): Promise<{ readonly runtime: Runtime } & AsyncDisposable> {
  const directory = join(dataDirectory, 'memory')
  await mkdir(directory, { recursive: true })
  const machine: ExampleMachine = { directory, started: [] }
  return {
    runtime: createExampleRuntime(machine, { name: 'memory', start: startInMemory }),
    async [Symbol.asyncDispose]() {
      for (const { process } of machine.started) process.kill()
    },
  }
}
