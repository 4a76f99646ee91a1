import type { Runtime } from '../../../server/src/runtimes/runtime.ts'
import { temporaryDirectory } from '../temporary.ts'
import { createExampleRuntime, type ExampleMachine } from './example.ts'
import { startInMemory } from './memory-process.ts'

/**
 * Makes the runtime of API tests: the apps' Node programs run in the process of the server. Builds and starts cost no process,
 * and isolate nothing.
 */
export async function memoryRuntime(): Promise<{ readonly runtime: Runtime } & AsyncDisposable> {
  const directory = await temporaryDirectory()
  const machine: ExampleMachine = { directory: directory.path, started: [] }
  return {
    runtime: createExampleRuntime(machine, { name: 'memory', start: startInMemory }),
    async [Symbol.asyncDispose]() {
      for (const { process } of machine.started) process.kill()
      await directory[Symbol.asyncDispose]()
    },
  }
}
