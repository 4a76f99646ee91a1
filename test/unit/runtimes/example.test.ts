import { describeRuntime } from '../../harness/runtimes/conformance.ts'
import { createExampleRuntime, type ExampleMachine } from '../../harness/runtimes/example.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

describeRuntime('of the example', async () => {
  const directory = await temporaryDirectory()
  const machine: ExampleMachine = { directory: directory.path, started: [] }
  return {
    newRuntime: () => createExampleRuntime(machine),
    async [Symbol.asyncDispose]() {
      for (const { process } of machine.started) process.kill()
      await directory[Symbol.asyncDispose]()
    },
  }
})
