import { expect, it } from 'vitest'
import { specificationOf } from '../../../server/src/runtimes/docker/containers/specification.ts'
import { networkOfContainer } from '../../../server/src/runtimes/docker/network/networks.ts'

it('a machine that runs out of memory ends a container before the server', () => {
  const specification = specificationOf({
    server: 's',
    release: {
      id: 'dep_1',
      appId: 'app_1',
      appNumber: 1,
      projectId: 'proj_1',
      internalName: null,
      limits: { memoryBytes: 1_000_000, cpus: 1, diskBytes: 8e9 },
      variables: {},
    },
    image: 'shop',
    config: null,
    command: { argv: ['serve'] },
    port: 8080,
    network: networkOfContainer('c'),
    labels: {},
    dialogue: null,
  })
  expect(specification).toMatchObject({ HostConfig: { OomScoreAdj: 500 } })
})
