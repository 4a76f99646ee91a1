import { type FoundApp, findApps, namesIn } from './advice/find-apps.ts'
import { describeSeen } from './advice/seen.ts'
import { isLibrary, isWorkspace, libraryFiles } from './advice/workspace.ts'
import { planDirectory } from './plan-directory.ts'
import type { PlanRequest } from './plan-request.ts'
import { readSettings } from './source/fairlead-json.ts'
import { readSourceTree } from './source/read-tree.ts'
import type { PlanFailure, PlanResult } from './source/result.ts'
import { within } from './source/tree.ts'

/**
 * Decides how the source tree in a folder is built and started. When nothing in the app's folder says so, the failure says
 * what is there, and suggests the folders below in which an app was found.
 *
 * @param request.root a folder in it
 */
export async function planSource(directory: string, request: PlanRequest): Promise<PlanResult> {
  const { root: givenRoot, images } = request
  const planned = await planDirectory(directory, request)
  const isSite = planned.ok && planned.plan.kind === 'static'
  if (planned.ok ? !isSite : !['no_start', 'not_recognised'].includes(planned.failure.code)) return planned
  const files = await readSourceTree(directory, ['package.json'], givenRoot)
  const settings = readSettings(files, givenRoot)
  if (!settings.ok) return planned
  const { root, build } = settings.value
  // A workspace has a build, but its output is no site at the top.
  const misses = isSite && root === '.' && build === undefined && isWorkspace(files) && !files.has('index.html')
  if (planned.ok && !misses) return planned
  const found = await findApps(directory, root, (folder) => planDirectory(directory, { ...request, root: folder }))
  const apps = await withoutLibraries(directory, found)
  if (planned.ok && apps.length === 0) return planned
  const failure = planned.ok ? workspaceFailure : planned.failure
  return { ok: false, failure: advise(failure, describeSeen(await namesIn(directory, root), images), apps) }
}

const workspaceFailure: PlanFailure = {
  code: 'no_start',
  message: 'The top of this repository is a workspace of several packages, and nothing there says how it starts.',
}

/** Adds to a failure what was seen, and which folders hold apps. */
function advise({ code, message }: PlanFailure, seen: string, apps: readonly FoundApp[]): PlanFailure {
  if (apps.length === 0) {
    const next = code === 'not_recognised' ? ' A Procfile or a fairlead.json can say how anything else starts.' : ''
    return { code, message: `${message} ${seen}${next}` }
  }
  const named = apps.map(({ root, kind }) => `${root} (${kind})`).join(', ')
  const advice = `Set root to ${apps.length === 1 ? '' : 'one of '}${named}: in the request, with --root of fairlead deploy, or in fairlead.json.`
  return { code, message: `${message} ${seen} ${advice}`, suggestions: apps }
}

/** Leaves out packages that nobody starts, unless there are no others; sites come after programs. */
async function withoutLibraries(directory: string, apps: readonly FoundApp[]): Promise<FoundApp[]> {
  const marked = await Promise.all(
    apps.map(async (app) => ({ app, isLibrary: await isLibraryIn(directory, app.root) })),
  )
  const started = marked.filter(({ isLibrary }) => !isLibrary)
  const kept = (started.length === 0 ? marked : started).map(({ app }) => app)
  return kept.toSorted((a, b) => Number(a.kind === 'static') - Number(b.kind === 'static'))
}

async function isLibraryIn(directory: string, root: string): Promise<boolean> {
  return isLibrary(within(await readSourceTree(directory, libraryFiles, root), root))
}
