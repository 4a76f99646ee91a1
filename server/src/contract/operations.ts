import type { z } from 'zod'
import type { Declaration } from './declaration.ts'
import { accountOperations } from './resources/accounts.ts'
import { activityOperations, appOperations, releaseOperations } from './resources/apps.ts'
import { databaseOperations, snapshotOperations } from './resources/databases.ts'
import { deliveryOperations } from './resources/deliveries.ts'
import { deploymentOperations } from './resources/deployments.ts'
import { gitCredentialOperations } from './resources/git/credentials.ts'
import { certificateOperations } from './resources/hosts/certificates.ts'
import { domainOperations } from './resources/hosts/domains.ts'
import { registryOperations } from './resources/images/registries.ts'
import { volumeOperations } from './resources/images/volumes.ts'
import { linkOperations } from './resources/links.ts'
import { logOperations } from './resources/logs.ts'
import { metricsOperations } from './resources/metrics.ts'
import { processOperations } from './resources/processes.ts'
import { projectOperations } from './resources/projects.ts'
import { runOperations } from './resources/runs.ts'
import { scheduleOperations } from './resources/schedules.ts'
import { sourceOperations } from './resources/sources.ts'
import { storageOperations } from './resources/storage.ts'
import { trustOperations } from './resources/trust.ts'
import { variableOperations } from './resources/variables.ts'
import { webhookOperations } from './resources/webhooks.ts'
import { type OperationName, type Route, routes } from './routes.ts'

const declarations = {
  ...projectOperations,
  ...deploymentOperations,
  ...logOperations,
  ...activityOperations,
  ...appOperations,
  ...processOperations,
  ...volumeOperations,
  ...metricsOperations,
  ...releaseOperations,
  ...variableOperations,
  ...linkOperations,
  ...gitCredentialOperations,
  ...registryOperations,
  ...domainOperations,
  ...certificateOperations,
  ...runOperations,
  ...scheduleOperations,
  ...sourceOperations,
  ...storageOperations,
  ...databaseOperations,
  ...snapshotOperations,
  ...webhookOperations,
  ...accountOperations,
  ...deliveryOperations,
  ...trustOperations,
} as const satisfies Record<OperationName, Declaration>

type Declared = typeof declarations

type InputOf<Name extends OperationName, Part extends string> =
  Declared[Name] extends Record<Part, infer Schema extends z.ZodType> ? z.input<Schema> : undefined

type OutputOf<Name extends OperationName, Part extends string> =
  Declared[Name] extends Record<Part, infer Schema extends z.ZodType> ? z.output<Schema> : undefined

/** The body that a client sends. */
export type BodyInput<Name extends OperationName> = InputOf<Name, 'body'>
/** The parsed body that the handler gets. */
export type BodyOutput<Name extends OperationName> = OutputOf<Name, 'body'>
/** The query parameters that a client sends, besides those of lists. */
export type QueryInput<Name extends OperationName> = InputOf<Name, 'query'>
/** The parsed query parameters that the handler gets. */
export type QueryOutput<Name extends OperationName> = OutputOf<Name, 'query'>
/** The body of the answer. */
export type ResponseBody<Name extends OperationName> = OutputOf<Name, 'response'>

export type Operation = Route & Declaration & { readonly name: OperationName }

/** The whole API, one entry for each operation. */
export const operations: readonly Operation[] = (Object.keys(routes) as OperationName[]).map((name) => ({
  name,
  ...routes[name],
  ...declarations[name],
}))
