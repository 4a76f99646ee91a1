import { detectors } from '../../../server/src/builds/detectors/index.ts'
import { planBuild } from '../../../server/src/builds/plan.ts'
import type { PlanFailure, PlanResult } from '../../../server/src/builds/result.ts'
import type { SourceTree } from '../../../server/src/builds/tree.ts'

export type Files = Record<string, string | object | null>

const allPrograms: ReadonlySet<string> = new Set(detectors.flatMap(({ tools }) => tools.map(({ program }) => program)))

const server = { programs: allPrograms, versions: new Map([['python3', '3.11.2']]) }

/** Makes a tree of these files. An object becomes JSON; `null` is an unreadable file. */
export function tree(files: Files): SourceTree {
  return {
    has: (path) => Object.keys(files).some((name) => name === path || name.startsWith(`${path}/`)),
    list: (folder) => {
      const prefix = folder === '.' ? '' : `${folder}/`
      const inside = Object.keys(files).filter((name) => name.startsWith(prefix))
      return [...new Set(inside.map((name) => name.slice(prefix.length).split('/')[0] ?? ''))].sort()
    },
    read: (path) => {
      const content = Object.hasOwn(files, path) ? files[path] : undefined
      return typeof content === 'object' && content !== null ? JSON.stringify(content) : (content ?? undefined)
    },
  }
}

/** The plan of these files on a server with all languages. */
export function planOf(files: Files, options: Partial<typeof server> = {}): PlanResult {
  return planBuild(tree(files), detectors, { ...server, ...options })
}

/** Returns the commands of the build plan. Throws without a plan. */
export function planned(files: Files) {
  const result = planOf(files)
  if (!result.ok) throw new Error(`${result.failure.code}: ${result.failure.message}`)
  const { kind, build, start } = result.plan
  return { kind, build: build.map(({ argv }) => argv.join(' ')), start: start.argv }
}

export function failure(files: Files): PlanFailure | null {
  const result = planOf(files)
  return result.ok ? null : result.failure
}

/** Returns a package.json with this start script and more scripts. */
export const start = (script: string, more: object = {}) => ({ scripts: { start: script, ...more } })
