import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { BodyOutput, QueryOutput, ResponseBody } from '../contract/operations.ts'
import type { ListName, OperationName, PathParam, routes } from '../contract/routes.ts'
import type { Transaction } from '../platform/database.ts'
import type { Page, PageRequest } from './page.ts'
import type { Principal, TenantProject } from './principal.ts'

/** The input of a handler, after all checks: permissions, request, and the project within the account. */
export interface Call<Name extends OperationName> {
  readonly principal: Principal
  /** Present when the path has a `:project_id`. */
  readonly project: 'project_id' extends PathParam<Name> ? TenantProject : undefined
  readonly params: Readonly<Record<PathParam<Name>, string>>
  readonly query: QueryOutput<Name>
  readonly page: Name extends ListName ? PageRequest : undefined
  readonly body: BodyOutput<Name>
  /** All changes of the operation are made in this transaction, which is committed before the answer. */
  readonly transaction: Name extends ChangeName ? Transaction : undefined
  /** Operations without a transaction write their audit entry in the transaction of their changes. */
  readonly audit: Routes[Name] extends { upload: string } | { waits: true }
    ? (transaction: Transaction, resourceId: string) => Promise<void>
    : undefined
  /** Adds facts to the audit entry; nothing secret. */
  readonly note: (facts: Readonly<Record<string, unknown>>) => void
  /**
   * Registers a callback that runs after the transaction was committed, and never if it was rolled back. The answer
   * waits for it. No transaction is open then.
   */
  readonly afterCommit: (callback: () => void | Promise<void>) => void
  readonly request: RequestFacts
}

export interface RequestFacts {
  readonly id: string
  /** The client's address. Behind trusted proxies, the address that they report. */
  readonly address: string
  readonly message: IncomingMessage
  /** Aborts when the client disconnects before the answer is complete. */
  readonly signal: AbortSignal
  /** Resolves to true while the key or session is valid and has the permission; for answers that are streamed. */
  readonly mayGoOn: () => Promise<boolean>
}

type Routes = typeof routes

/** Operations that make their changes in one transaction. */
export type ChangeName = {
  [Name in OperationName]: Routes[Name] extends { method: 'GET' } | { upload: string } | { waits: true } ? never : Name
}[OperationName]

export interface TextAnswer {
  readonly type: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Readable
}

type Result<Name extends OperationName> = Routes[Name] extends { text: true }
  ? TextAnswer
  : Name extends ListName
    ? Page<ResponseBody<Name>>
    : ResponseBody<Name>

/** One handler for each operation. Its result is stripped to the declared response. */
export type Handlers<Name extends OperationName = OperationName> = {
  readonly [N in Name]: (call: Call<N>) => Promise<Result<N>>
}

export type HandlersOf<Group extends string> = Handlers<Extract<OperationName, `${Group}.${string}`>>

/** `operation` is a name of the contract. Bodies are left out, because they may hold secrets. */
export interface AuditEntry {
  readonly accountId: string
  readonly actor: {
    readonly type: 'key' | 'user' | 'command' | 'workflow'
    readonly id: string | null
    readonly name: string | null
  }
  /** The client's network address; `null` for the command line. */
  readonly address: string | null
  readonly requestId: string | null
  readonly operation: string
  readonly projectId: string | null
  readonly resourceId: string | null
  /** Facts that are not in the other fields; nothing secret. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** Writes an entry in the transaction of the change, so that neither exists without the other. */
export type Audit = (transaction: Transaction, entry: AuditEntry) => Promise<void>
