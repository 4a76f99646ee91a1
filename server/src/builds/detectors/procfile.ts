import { failed, type Result, unreadable } from '../source/result.ts'
import type { SourceTree } from '../source/tree.ts'
import { type Detector, shellLine } from './detector.ts'

/** An app with a Procfile. A `start` in `fairlead.json` takes its place. */
export const procfile: Detector = {
  name: 'procfile',
  recognises: 'a Procfile with a "web:" line',
  files: ['Procfile'],
  tools: [],
  caches: {},
  detect({ settings, app }) {
    if (settings.start !== undefined || !app.has('Procfile')) return null
    const read = readProcfile(app)
    if (!read.ok) return read
    const { web, release } = read.value
    const start = shellLine(web)
    return {
      ok: true,
      value: { start, uses: 'all', ...(release === undefined ? {} : { release: shellLine(release) }) },
    }
  },
}

/** The processes of a Procfile that Fairlead runs, each a line for a shell. */
interface Procfile {
  readonly web: string
  /** Runs once before the release gets the address, such as a migration. */
  readonly release: string | undefined
}

function readProcfile(files: SourceTree): Result<Procfile> {
  const text = files.read('Procfile')
  if (text === undefined) return unreadable('Procfile')
  const processes = parseProcfile(text)
  const web = processes.get('web')
  if (web === undefined) {
    return failed('invalid_procfile', 'The Procfile has no "web" process: add a line such as "web: node server.js".')
  }
  return { ok: true, value: { web, release: processes.get('release') } }
}

/** Parses the command of each process; the last one where a name comes twice. Other lines are skipped. */
export function parseProcfile(text: string): ReadonlyMap<string, string> {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return new Map(
    lines.flatMap((line) => {
      const [, name, command] = /^\s*([\w-]+)\s*:\s*(\S.*?)\s*$/.exec(line) ?? []
      return name === undefined || command === undefined ? [] : [[name, command] as const]
    }),
  )
}
