import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { BodyOutput, QueryOutput, ResponseBody } from '../contract/operations.ts'
import type { ListName, OperationName, PathParam, routes } from '../contract/routes.ts'
import type { Transaction } from '../platform/database.ts'
import type { Page, PageRequest } from './page.ts'
import type { Principal, TenantProject } from './principal.ts'

/** What a handler is called with: checked, parsed and inside its tenant. */
export interface Call<Name extends OperationName> {
  readonly principal: Principal
  /** The project of the path, present exactly where the path has one. */
  readonly project: 'project_id' extends PathParam<Name> ? TenantProject : undefined
  readonly params: Readonly<Record<PathParam<Name>, string>>
  readonly query: QueryOutput<Name>
  readonly page: Name extends ListName ? PageRequest : undefined
  readonly body: BodyOutput<Name>
  /** Everything that the operation changes is changed in here, and holds when the answer is sent. */
  readonly transaction: Name extends ChangeName ? Transaction : undefined
  /** An upload writes its audit entry itself, in the transaction that makes the file. */
  readonly audit: Routes[Name] extends { upload: true }
    ? (transaction: Transaction, resourceId: string) => Promise<void>
    : undefined
  /** Does something once the change holds; not called when it was rolled back. */
  readonly afterCommit: (work: () => void) => void
  readonly request: RequestFacts
}

export interface RequestFacts {
  readonly id: string
  /** Of the client, as far as trusted proxies tell. */
  readonly address: string
  /** For operations whose body is not JSON. */
  readonly message: IncomingMessage
  /** Aborts when the client is gone before the answer is complete. */
  readonly signal: AbortSignal
  /** Whether the key or session still holds and may do this; for answers that go on for long. */
  readonly mayGoOn: () => Promise<boolean>
}

type Routes = typeof routes

/** The operations that change something by one transaction: all but reads and uploads. */
export type ChangeName = {
  [Name in OperationName]: Routes[Name] extends { method: 'GET' } | { upload: true } ? never : Name
}[OperationName]

/** An answer that is not JSON. */
export interface TextAnswer {
  /** The media type. */
  readonly type: string
  readonly body: string | Readable
}

type Result<Name extends OperationName> = Routes[Name] extends { text: true }
  ? TextAnswer
  : Name extends ListName
    ? Page<ResponseBody<Name>>
    : ResponseBody<Name>

/** One handler for each operation; what it returns is stripped to the declared response. */
export type Handlers<Name extends OperationName = OperationName> = {
  readonly [N in Name]: (call: Call<N>) => Promise<Result<N>>
}

/** The handlers of one group of operations. */
export type HandlersOf<Group extends string> = Handlers<Extract<OperationName, `${Group}.${string}`>>
