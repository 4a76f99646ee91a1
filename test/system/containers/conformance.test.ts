import { describe } from 'vitest'
import { noDocker } from '../../harness/docker.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { describeRuntime } from '../../harness/runtimes/conformance.ts'
import { createDockerBench } from '../../harness/runtimes/docker/support.ts'

const why = await noDocker()
if (why !== null) skipped('the runtime of containers', why)

describe.skipIf(why !== null)('with an engine', () => {
  describeRuntime(
    'of containers',
    async () => {
      const bench = await createDockerBench()
      return {
        newRuntime: () => bench.newRuntime().runtime,
        makeImage: bench.makeImage,
        [Symbol.asyncDispose]: () => bench[Symbol.asyncDispose](),
      }
    },
    { volumes: true },
  )
})
