import { posix } from 'node:path'
import type { Command } from '../platform/command.ts'
import { staticServerName } from '../platform/toolchain.ts'
import { readPackageJson } from './source/package-json.ts'
import { type PlanFailure, quote } from './source/result.ts'
import type { SourceTree } from './source/tree.ts'

const interpreters = /^(?:node|bun|deno|ruby|php|python3?)$/
const sources = /^[\w@%+=:,./-]+\.(?:[cm]?[jt]sx?|py|rb|php)$/
/** Scripts of package.json that may make files while packages are installed. */
const makers = ['preinstall', 'install', 'postinstall', 'prepare']

/**
 * Returns why a start that is known to the last word cannot work: its file or folder is not in the repository, and nothing
 * makes it. Null wherever that is not certain.
 *
 * @param app the folder of the app
 * @param builds true when the build may make files
 */
export function missingFile(app: SourceTree, { argv }: Command, builds: boolean): PlanFailure | null {
  const scripts = readPackageJson(app)?.scripts
  if (builds || makers.some((name) => scripts?.has(name))) return null
  const [program, ...words] = argv
  if (program === staticServerName) {
    const folder = words.at(-1) ?? '.'
    return isMissing(app, folder)
      ? refuse(`The folder ${quote(folder)}, which is to be served as a site,`, 'Add a build that makes it')
      : null
  }
  const [file = ''] = words[0] === 'run' ? words.slice(1) : words
  if (!interpreters.test(program) || !sources.test(file) || !isMissing(app, file)) return null
  return refuse(`The file ${quote(file)}, with which the app starts,`, 'Add it, or a build that makes it')
}

const refuse = (what: string, advice: string): PlanFailure => ({
  code: 'no_start',
  message: `${what} is not in the repository, and nothing builds it. ${advice}, or name another start.`,
})

/** True for a path of which its folder is known not to hold it. */
function isMissing(app: SourceTree, given: string): boolean {
  const path = posix.normalize(given).replace(/\/$/, '')
  if (path === '.' || path.startsWith('/') || path.split('/')[0] === '..' || app.has(path)) return false
  const [top = ''] = path.split('/')
  if (!app.has(top)) return true
  return app.list(posix.dirname(path)).length > 0
}
