import type { z } from 'zod'
import { accountOperations } from './accounts.ts'
import { activityOperations, appOperations, releaseOperations } from './apps.ts'
import { certificateOperations } from './certificates.ts'
import { databaseOperations, snapshotOperations } from './databases.ts'
import type { Declaration } from './declaration.ts'
import { deploymentOperations } from './deployments.ts'
import { domainOperations } from './domains.ts'
import { gitCredentialOperations } from './git-credentials.ts'
import { linkOperations } from './links.ts'
import { logOperations } from './logs.ts'
import { metricsOperations } from './metrics.ts'
import { processOperations } from './processes.ts'
import { projectOperations } from './projects.ts'
import { registryOperations } from './registries.ts'
import { type OperationName, type Route, routes } from './routes.ts'
import { sourceOperations } from './sources.ts'
import { storageOperations } from './storage.ts'
import { runOperations, scheduleOperations } from './tasks.ts'
import { trustOperations } from './trust.ts'
import { variableOperations } from './variables.ts'
import { volumeOperations } from './volumes.ts'
import { deliveryOperations, webhookOperations } from './webhooks.ts'

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

export type BodyInput<Name extends OperationName> = InputOf<Name, 'body'>
export type BodyOutput<Name extends OperationName> = OutputOf<Name, 'body'>
export type QueryInput<Name extends OperationName> = InputOf<Name, 'query'>
export type QueryOutput<Name extends OperationName> = OutputOf<Name, 'query'>
export type ResponseBody<Name extends OperationName> = OutputOf<Name, 'response'>

export type Operation = Route & Declaration & { readonly name: OperationName }

export const operations: readonly Operation[] = (Object.keys(routes) as OperationName[]).map((name) => ({
  name,
  ...routes[name],
  ...declarations[name],
}))
