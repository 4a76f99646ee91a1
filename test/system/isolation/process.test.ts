import {
  closeGroups,
  detectCapabilities,
  noCapabilities,
} from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import { noReach, testNetwork } from '../../harness/networks.ts'
import { silentLogger } from '../../harness/platform/fixtures/silent-logger.ts'
import { releasePorts } from '../../harness/ports.ts'
import { describeRuntime } from '../../harness/runtimes/conformance.ts'
import { createBench, identities } from '../../harness/runtimes/support.ts'

for (const { name, uids } of identities) {
  describeRuntime(
    `of processes as ${name}, without anything that confines them`,
    async () => {
      const bench = await createBench()
      return {
        newRuntime: () => bench.newRuntime({ uids, host: noCapabilities }),
        [Symbol.asyncDispose]: () => bench.dispose(),
      }
    },
    { volumes: true },
  )
}

describeRuntime(
  'of processes with all that this machine has',
  async () => {
    const bench = await createBench()
    const host = await detectCapabilities({
      cgroups: 'top',
      path: process.env['PATH'] ?? '',
      directory: bench.directory,
      isRoot: process.getuid?.() === 0,
      programs: bench.programs,
      network: { range: testNetwork, reach: noReach, ports: releasePorts },
      leavesCore: () => false,
      logger: silentLogger,
    })
    return {
      newRuntime: () => bench.newRuntime({ uids: identities[0]?.uids ?? null, host }),
      async [Symbol.asyncDispose]() {
        await bench.dispose()
        await closeGroups(host)
        await host.networks?.close()
      },
    }
  },
  { volumes: true },
)
