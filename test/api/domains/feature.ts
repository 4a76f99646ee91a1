import { pino } from 'pino'
import type { BodyOutput, ResponseBody } from '../../../server/src/contract/operations.ts'
import { createAppStore } from '../../../server/src/features/apps/apps.ts'
import { createRunCheck, type LookAtDns } from '../../../server/src/features/domains/checker.ts'
import { type DomainHandlerDependencies, domainHandlers } from '../../../server/src/features/domains/domains.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { testDatabase } from '../../harness/database.ts'

export type Domain = ResponseBody<'domains.get'>

/** An account with a project and apps, by their ids. */
export interface Owner {
  readonly account: string
  readonly project: string
  readonly apps: readonly string[]
}

export type DomainsOnDatabase = Awaited<ReturnType<typeof domainsOnDatabase>>

/**
 * Makes the feature on a separate database, without a server: `look` replaces DNS, every name is accepted, and limits
 * are far away.
 */
export async function domainsOnDatabase(look: LookAtDns) {
  await using cleanup = new AsyncDisposableStack()
  const { url } = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: url, max: 8 }, pino({ level: 'silent' }))
  cleanup.defer(() => handle.close())
  const database = handle.db
  const config = { mode: 'ports', publicHost: 'localhost', ports: { from: 20000, to: 29999 } } as const
  const apps = createAppStore({ database, isPortFree: async () => true, config })
  const dependencies: DomainHandlerDependencies = {
    database,
    findApp: apps.find,
    holdApp: apps.hold,
    totals: { assertRoom: async () => undefined },
    plans: { free: { ...shippedPlans.free, domains: 1000 } },
    names: {
      refusal: null,
      parse: (name) => ({ ok: true, name }),
      unicodeOf: (name) => name,
      urlOf: (name) => `https://${name}`,
      recordsOf: async (_, all) =>
        new Map(
          all.map(({ id, name, token }) => [
            id,
            token === null
              ? []
              : [{ type: 'TXT', name: `_fairlead-challenge.${name}`, value: token, purpose: 'ownership' } as const],
          ]),
        ),
    },
    runCheck: createRunCheck({ database, lockApp: apps.lock, look }),
    certificatesOf: async () => new Map(),
  }
  const { pool } = handle
  const owned = cleanup.move()
  return {
    database,
    runCheck: dependencies.runCheck,
    ...operationsOf(database, dependencies),
    /** Makes an account with a project and this many apps. */
    async owner(count: number): Promise<Owner> {
      const [account, project] = [newId('account'), newId('project')]
      await pool.query('insert into accounts (id, name, plan) values ($1, $1, $2)', [account, 'free'])
      await pool.query(
        "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')",
        [project, account],
      )
      const ids = Array.from({ length: count }, () => newId('app'))
      for (const [index, id] of ids.entries()) {
        const values = [id, project, `app-${index}`, `${id}.apps.test`]
        await pool.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $3, $4)', values)
      }
      return { account, project, apps: ids }
    },
    async query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
      return (await pool.query<Row>(text, [...values])).rows
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** The operations as a request calls them: each change in a separate transaction. */
function operationsOf(database: Database, dependencies: DomainHandlerDependencies) {
  const handlers = domainHandlers(dependencies)
  const request = { signal: new AbortController().signal }
  const callOf = ({ account, project }: Owner, params: object, more: object) =>
    ({
      project: { id: project, accountId: account, plan: 'free' },
      params,
      note: () => undefined,
      audit: async () => undefined,
      request,
      ...more,
    }) as never
  const change = <Result>(run: (transaction: object) => Promise<Result>): Promise<Result> =>
    database.transaction().execute((transaction) => run({ transaction }))
  return {
    add: (owner: Owner, app_id: string, body: BodyOutput<'domains.create'>): Promise<Domain> =>
      change((more) => handlers['domains.create'](callOf(owner, { app_id }, { ...more, body }))),
    update: (owner: Owner, { app_id, id }: Domain, body: BodyOutput<'domains.update'>): Promise<Domain> =>
      change((more) => handlers['domains.update'](callOf(owner, { app_id, id }, { ...more, body }))),
    remove: (owner: Owner, { app_id, id }: Pick<Domain, 'app_id' | 'id'>): Promise<unknown> =>
      change((more) => handlers['domains.delete'](callOf(owner, { app_id, id }, more))),
    get: (owner: Owner, { app_id, id }: Pick<Domain, 'app_id' | 'id'>): Promise<Domain> =>
      handlers['domains.get'](callOf(owner, { app_id, id }, {})),
    /** As a request of its owner. */
    check: (owner: Owner, { app_id, id }: Pick<Domain, 'app_id' | 'id'>): Promise<Domain> =>
      handlers['domains.check'](callOf(owner, { app_id, id }, {})),
  }
}
