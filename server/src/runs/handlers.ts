import { createHash, randomBytes } from 'node:crypto'
import { notFound } from '../contract/errors.ts'
import { connectPath } from '../contract/run-protocol.ts'
import type { HandlersOf } from '../http/call.ts'
import { isAuthorized } from '../http/principal.ts'
import { type Database, fromNow, type Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import type { Totals } from '../platform/plans/totals.ts'
import { auditedCommand, runView } from './presentation.ts'
import { cancelRun, countUnfinished, findRun, insertRun, pageOfRuns } from './rows.ts'

/** The time in which a client connects to the run that it has made. */
const ticketLifeMs = 60_000

/** Throws `not_found` unless the project has the app, which a transaction keeps from being deleted until it ends. */
export type AssertApp = (on: Database | Transaction, projectId: string, appId: string) => Promise<void>

export interface RunHandlerDependencies {
  readonly database: Database
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly assertApp: AssertApp
}

export function runHandlers({ database, totals, assertApp }: RunHandlerDependencies): HandlersOf<'runs'> {
  return {
    async 'runs.list'({ project, params, query, page }) {
      await assertApp(database, project.id, params.app_id)
      const { rows, next } = await pageOfRuns(database, params.app_id, query.schedule_id, page)
      return { body: { runs: rows.map(runView) }, next }
    },

    async 'runs.get'({ principal, project, params }) {
      await assertApp(database, project.id, params.app_id)
      const row = await findRun(database, params.app_id, params.id)
      if (row === undefined) throw notFound()
      const isOneOff = row.schedule_id === null && row.due_at === null
      // A command has the app's data at hand: a key that may not run one must not see its output either.
      const mayRead = !isOneOff || isAuthorized(principal, { access: 'runs:write' }, project.id)
      return { ...runView(row), output: mayRead ? row.output : null }
    },

    async 'runs.cancel'({ transaction, project, params }) {
      await assertApp(transaction, project.id, params.app_id)
      const row = await cancelRun(transaction, params.app_id, params.id)
      if (row === undefined) throw notFound()
      return runView(row)
    },

    async 'runs.create'({ transaction, principal, project, params, body, note }) {
      await assertApp(transaction, project.id, params.app_id)
      await totals.assertRoom(transaction, project.accountId, 'runs', () =>
        countUnfinished(transaction, project.accountId),
      )
      note({ app_id: params.app_id, command: auditedCommand(body.command) })
      const ticket = randomBytes(32).toString('base64url')
      const row = await insertRun(transaction, {
        id: newId('run'),
        app_id: params.app_id,
        project_id: project.id,
        account_id: project.accountId,
        command: JSON.stringify(body.command),
        terminal: body.terminal ? JSON.stringify(body.terminal) : null,
        status: 'waiting',
        begun_by: principal.credentialId,
        ticket_hash: hashTicket(ticket),
        ticket_expires_at: fromNow(ticketLifeMs),
      })
      const expires_at = (row.ticket_expires_at ?? row.created_at).toISOString()
      return { ...runView(row), connect: { path: connectPath, ticket, expires_at } }
    },
  }
}

export const hashTicket = (ticket: string): Buffer => createHash('sha256').update(ticket).digest()
