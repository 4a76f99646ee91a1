import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { PlanResult } from '../source/result.ts'
import type { Names } from './seen.ts'

/** A folder of the repository that holds an app. */
export interface FoundApp {
  readonly root: string
  readonly kind: string
}

/** Folders that hold no app of their own: packages, output, tests, documents. */
const skipped =
  /^(\..*|_.*|node_modules|bower_components|vendor|venv|env|dist|build|out|target|coverage|tmp|temp|logs?|tests?|__tests__|spec|e2e|cypress|fixtures|mocks?|docs?|static|assets|public|styles|images?|img|css|js|migrations|locales?)$/i
const deepest = 3
const mostFolders = 150
const mostTried = 40
/** A deployment that fails anyway does not keep others waiting; on a busy machine little of the time is its own. */
const mostCpuMs = 5_000
const mostMs = 30_000
const mostApps = 20

/**
 * Finds the folders below one that hold an app: breadth first, a bounded number, links not followed. What lies below an app
 * belongs to it.
 *
 * @param directory the absolute path of the repository
 * @param below a folder of it, `.` for its top
 * @param plan plans the app in a folder
 */
export async function findApps(
  directory: string,
  below: string,
  plan: (root: string) => Promise<PlanResult>,
): Promise<FoundApp[]> {
  const apps: FoundApp[] = []
  const isLate = createDeadline()
  let level = await foldersIn(directory, below)
  let [seen, tried] = [0, 0]
  for (let depth = 1; depth <= deepest && level.length > 0; depth += 1) {
    const next: string[] = []
    for (const root of level) {
      seen += 1
      const isEnough = seen > mostFolders || tried >= mostTried || apps.length >= mostApps
      if (isEnough || isLate()) return apps
      const { files } = await namesIn(directory, root)
      if (files.length > 0) tried += 1
      const planned = files.length === 0 ? null : await plan(root)
      if (planned?.ok === true) apps.push({ root, kind: planned.plan.kind })
      else for (const folder of await foldersIn(directory, root)) next.push(folder)
    }
    level = next
  }
  return apps
}

function createDeadline(): () => boolean {
  const begun = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000 > mostCpuMs || performance.now() - begun > mostMs
  }
}

async function foldersIn(directory: string, folder: string): Promise<string[]> {
  const { folders } = await namesIn(directory, folder)
  const kept = folders.filter((name) => !skipped.test(name) && name.length <= 100 && !/[\p{C}\\]/u.test(name))
  return kept.map((name) => (folder === '.' ? name : `${folder}/${name}`))
}

/** Returns the names in a folder of the repository, sorted; none when it cannot be read. */
export async function namesIn(directory: string, folder: string): Promise<Names> {
  const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(() => [])
  const named = (only: typeof entries) => only.map(({ name }) => name).sort()
  return {
    files: named(entries.filter((entry) => !entry.isDirectory())),
    folders: named(entries.filter((entry) => entry.isDirectory() && entry.name !== '.git')),
  }
}
