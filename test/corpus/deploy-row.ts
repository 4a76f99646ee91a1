import { existsSync } from 'node:fs'
import { cp, readdir } from 'node:fs/promises'
import { basename, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from '@fairlead/server/client'
import { installed } from '../../server/src/builds/machine-tools.ts'
import { createdDatabase } from '../harness/databases.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { repository } from '../harness/repository.ts'
import type { Row } from './row.ts'

const apps = fileURLToPath(new URL('apps/', import.meta.url))

/** Folders that generators leave behind and no repository holds. */
const leftBehind: ReadonlySet<string> = new Set(['node_modules', '.git'])

export interface Outcome {
  /** From the request until the deployment was settled. */
  readonly seconds: number
  /** `running`, or the code of the failure. */
  readonly status: string
  /** True when all pages have their required texts. */
  readonly isShown: boolean
  /** Descriptions of the faults; empty without faults. */
  readonly problems: readonly string[]
}

/** Deploys an application from a separate repository, on the plan `free`, and requests its pages. */
export async function deployRow(client: Client, row: Row): Promise<Outcome> {
  await using source = await repository({})
  await cp(join(apps, row.name), source.path, { recursive: true, filter: (path) => !leftBehind.has(basename(path)) })
  await source.commit({})
  const project = await client.projects.create({ body: { name: row.name, plan: 'free' } })
  let database: Awaited<ReturnType<typeof createdDatabase>> | undefined
  try {
    database = row.hasDatabase === true ? await createdDatabase(client, project.id) : undefined
    const begin = performance.now()
    const own = database === undefined ? {} : { DATABASE_URL: database.connection_string }
    const body = { name: 'web', git_url: source.url, env_vars: { ...row.variables, ...own } }
    const { status, failure, url } = await deployAndSettle(client, project.id, body)
    const seconds = (performance.now() - begin) / 1000
    if (failure !== null) {
      return { seconds, status: failure.code, isShown: false, problems: [`${failure.stage}: ${failure.message}`] }
    }
    const problems = await wrongPages(url, { '/': row.page, ...row.pages })
    return { seconds, status, isShown: problems.length === 0, problems }
  } finally {
    if (database !== undefined) {
      await client.databases.delete({ params: { project_id: project.id, id: database.id } })
    }
    await client.projects.delete({ params: { project_id: project.id } })
  }
}

/** Returns a line for each page without its text. */
async function wrongPages(url: string, pages: Readonly<Record<string, string>>): Promise<string[]> {
  const problems: string[] = []
  for (const [path, text] of Object.entries(pages)) {
    const answer = await ask(`${url}${path}`)
    if (answer.status !== 200) problems.push(`${path} answers with the status ${answer.status}`)
    else if (!answer.text.includes(text)) problems.push(`${path} does not have "${text}": ${answer.text.slice(0, 200)}`)
  }
  return problems
}

/** Sends the requests of a browser. Some servers generate a page slowly on its first request. */
async function ask(url: string): Promise<{ readonly status: number; readonly text: string }> {
  try {
    const answer = await fetch(url, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(60_000) })
    return { status: answer.status, text: await answer.text() }
  } catch (error) {
    return { status: 0, text: String(error) }
  }
}

/** Returns the names of the folders with applications. */
export const appFolders = (): Promise<string[]> => readdir(apps)

/** True when the machine has all of the programs and paths. */
export async function hasAll(needs: readonly string[]): Promise<boolean> {
  const programs = needs.filter((need) => !isAbsolute(need))
  return (
    needs.filter(isAbsolute).every((path) => existsSync(path)) && (await installed(programs)).size === programs.length
  )
}
