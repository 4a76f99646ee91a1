import { failed, type Result, unreadable } from './result.ts'
import type { SourceTree } from './tree.ts'

/** The processes of a Procfile that Fairlead runs, each a line for a shell. */
export interface Procfile {
  readonly web: string
  /** Runs once before the release gets the address, such as a migration. */
  readonly release: string | undefined
}

export function readProcfile(files: SourceTree): Result<Procfile> {
  const text = files.read('Procfile')
  if (text === undefined) return unreadable('Procfile')
  const processes = parseProcfile(text)
  const web = processes.get('web')
  if (web === undefined) {
    return failed('invalid_procfile', 'The Procfile has no "web" process: add a line such as "web: node server.js".')
  }
  return { ok: true, value: { web, release: processes.get('release') } }
}

/** The command of each process; the last one where a name comes twice. Lines of no known form are skipped. */
export function parseProcfile(text: string): ReadonlyMap<string, string> {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return new Map(
    lines.flatMap((line) => {
      const [, name, command] = /^\s*([\w-]+)\s*:\s*(\S.*?)\s*$/.exec(line) ?? []
      return name === undefined || command === undefined ? [] : [[name, command] as const]
    }),
  )
}
