import type { Logger } from '../../../platform/logger.ts'
import { createInstance, type Engine, EngineError } from './engine.ts'

/**
 * Uses the operator's PostgreSQL server. It has one version, and connection strings have its address. The administrator
 * must be a superuser, or have the right to create roles and databases.
 *
 * @param options.url the administrator's address
 */
export function createExternalEngine(options: { readonly url: string; readonly logger: Logger }): Engine {
  const { url, logger } = options
  const { hostname, port } = new URL(url)
  const address = { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? 5432 : Number(port) }
  const instance = createInstance({ connectionString: url }, (error) =>
    logger.warn({ err: error }, "a connection to the server of users' databases was lost"),
  )
  let version: string | undefined

  const currentVersion = async (): Promise<string> => {
    try {
      version ??= String(await instance.statistics.majorVersion())
      return version
    } catch (error) {
      logger.error({ err: error }, 'the PostgreSQL server in FAIRLEAD_DATABASES_URL cannot be used')
      const message = "The server of users' databases cannot be reached; the operator finds the reason in the log."
      throw new EngineError('engine_unavailable', message, { cause: error })
    }
  }

  return {
    name: 'external',
    versions: async () => [await currentVersion()],
    addressOf: async () => address,
    async open(key, signal) {
      signal.throwIfAborted()
      const current = await currentVersion()
      if (Number(current) < Number(key.version)) {
        throw new EngineError('version_unavailable', `The server of users' databases is PostgreSQL ${current} by now.`)
      }
      return instance
    },
    instances: () => new Map([[version ?? 'unknown', instance]]),
    exists: async () => true,
    limitLocks: async () => [],
    limitLogins: async () => 0,
    authority: async () => null,
    renewCertificate: async () => undefined,
    close: () => instance.close(),
  }
}
