import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Runtime } from '../../../server/src/runtimes/runtime.ts'
import { createExampleRuntime, type ExampleMachine } from './example.ts'
import { startInMemory } from './memory-process.ts'

/** The settings of servers whose apps run in their memory: to look after networks of apps takes a dozen programs at each start. */
export const memorySettings = { FAIRLEAD_APP_NETWORK: 'none' }

/**
 * Makes the runtime of API tests: the apps' Node programs run in the process of the server. Builds and starts cost no process,
 * and isolate nothing. The files of releases are in a folder of the server's data directory, where `releasesOnDisk` finds them.
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
