import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import type { AccountSpace } from '../../server/src/features/storage/reservations.ts'
import { type Plan, shippedPlans } from '../../server/src/platform/plans.ts'
import { temporaryDirectory } from './temporary.ts'

type Content = string | Uint8Array<ArrayBuffer>

/** Returns a form with one file. */
export function form(name: string, content: Content, type = 'text/plain'): FormData {
  const body = new FormData()
  body.append('file', new Blob([content], { type }), name)
  return body
}

export function upload(client: Client, projectId: string, name: string, content: Content, type?: string) {
  return client.storage.upload({ params: { project_id: projectId }, body: form(name, content, type) })
}

/** Returns the names of all files in the store of a data directory, unfinished files (`.part`) included. */
export async function filesOnDisk(dataDirectory: string): Promise<string[]> {
  const entries = await readdir(join(dataDirectory, 'files'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** Writes a file for `FAIRLEAD_PLANS_FILE` with these limits in every plan. */
export async function plansFile(limits: Partial<Plan>) {
  const directory = await temporaryDirectory()
  const path = join(directory.path, 'plans.json')
  const plans = Object.entries(shippedPlans).map(([name, plan]) => [name, { ...plan, ...limits }])
  await writeFile(path, JSON.stringify(Object.fromEntries(plans)))
  return { path, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() }
}

/** The space of an account with one project, limited only by the project. */
export const onlyProject = (projectId: string) => async (): Promise<AccountSpace> => ({
  projectIds: [projectId],
  quotaBytes: Number.POSITIVE_INFINITY,
  uploads: Number.POSITIVE_INFINITY,
})
