import { createEmbeddedEngine } from '../databases/embedded.ts'
import type { Engine } from '../databases/engine.ts'
import { createExternalEngine } from '../databases/external.ts'
import { createBinariesStore } from '../platform/postgres/install.ts'
import { binariesReleases } from '../platform/postgres/releases.ts'
import { databasesUser } from '../platform/startup/state.ts'

import type { Composition } from './composition.ts'
/** Where users' databases lie: in clusters of the server's own, or in the operator's PostgreSQL. */
export async function databaseEngine({ config, logger, state, stack }: Composition): Promise<Engine> {
  const { url, ports, registryEnvironment } = config.databases
  const { databases: directory, runtime, binaries } = state.directory
  const engine =
    url === undefined
      ? createEmbeddedEngine({
          directory,
          runtimeDirectory: runtime,
          user: databasesUser(config),
          ports,
          binaries: await createBinariesStore({
            directory: binaries,
            releases: binariesReleases,
            environment: registryEnvironment,
            logger,
          }),
          database: state.db,
          logger,
        })
      : createExternalEngine({ url, logger })
  stack.defer('database engines', () => engine.close())
  return engine
}
