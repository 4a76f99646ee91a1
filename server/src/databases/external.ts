import type { Logger } from '../platform/logger.ts'
import { type Engine, EngineError } from './engine.ts'
import { createInstance } from './instance.ts'

/**
 * An operator's PostgreSQL server. Its one version is what it is; its address is what databases are reached by. The
 * administrator must be a superuser, or may make roles and databases.
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

  const versionNow = async (): Promise<string> => {
    try {
      version ??= String(await instance.majorVersion())
      return version
    } catch (error) {
      logger.error({ err: error }, 'the PostgreSQL server in FAIRLEAD_DATABASES_URL cannot be used')
      const message = "The server of users' databases cannot be reached; the operator finds the reason in the log."
      throw new EngineError('engine_unavailable', message, { cause: error })
    }
  }

  return {
    name: 'external',
    versions: async () => [await versionNow()],
    addressOf: async () => address,
    async open(asked, signal) {
      signal.throwIfAborted()
      const now = await versionNow()
      if (Number(now) < Number(asked)) {
        throw new EngineError('version_unavailable', `The server of users' databases is PostgreSQL ${now} by now.`)
      }
      return instance
    },
    exists: async () => true,
    running: () => instance,
    close: () => instance.close(),
  }
}
