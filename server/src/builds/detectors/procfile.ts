import { phpServerName } from '../../platform/toolchain.ts'
import { readPackageJson } from '../package-json.ts'
import { failed, quote, type Result, unreadable } from '../result.ts'
import type { SourceTree } from '../tree.ts'
import { type Detection, type Detector, type DetectorSource, shellLine } from './detector.ts'
import { findDevelopmentServer, lineInstead, refuseLine } from './development-servers.ts'
import { programsOf } from './shell-lines.ts'

/** A `start` in `fairlead.json` precedes the Procfile. */
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
    const { web, release, others } = read.value
    const planned = planWeb(web, app)
    const idle = others.filter((name) => (settings.processes?.[name]?.instances ?? 0) === 0)
    const notes = [...(planned.notes ?? []), ...(idle.length === 0 ? [] : [notRun(idle)])]
    return {
      ok: true,
      value: {
        ...planned,
        ...(notes.length === 0 ? {} : { notes }),
        uses: 'all',
        ...(release === undefined ? {} : { release: shellLine(release) }),
      },
    }
  },
}

/** Warns about processes that do not run. An app that needs a worker would otherwise fail silently. */
const notRun = (names: readonly string[]): string =>
  `Procfile: ${names.map(quote).join(', ')} will not run until asked for: set "instances" in "processes" of fairlead.json, ` +
  `or run fairlead scale <app> ${names[0]}=1.`

/** Plans the `web` line. A line for development gives way to production starts from other files. */
function planWeb(web: string, app: SourceTree): Pick<Detection, 'start' | 'refused' | 'notes' | 'always'> {
  const folder = phpFolderOf(web)
  if (folder !== undefined) {
    const notes = [`Procfile: PHP's own server takes the place of Heroku's, for ${folder}.`]
    return { start: { argv: [phpServerName, folder] }, notes }
  }
  const development = findDevelopmentServer(programsOf(web, readPackageJson(app)?.scripts ?? new Map()))
  if (development === undefined) return { start: shellLine(web) }
  const why = `The "web" line of the Procfile runs ${quote(development.tool)}, which is for development and not for the public.`
  const line = lineInstead(development, () => false)
  if (line !== null) return { start: shellLine(line), notes: [`${why} ${quote(line)} runs instead.`] }
  return {
    start: null,
    refused: refuseLine('The "web" line of the Procfile', development).failure,
    notes: [`${why} Other files say how the app runs in production.`],
    always: true,
  }
}

/** The processes of a Procfile, each as a shell line. */
interface Procfile {
  readonly web: string
  /** Runs once before the release gets the address, such as a migration. */
  readonly release: string | undefined
  readonly others: readonly string[]
}

function readProcfile(files: SourceTree): Result<Procfile> {
  const text = files.read('Procfile')
  if (text === undefined) return unreadable('Procfile')
  const processes = parseProcfile(text)
  const web = processes.get('web')
  if (web === undefined) {
    return failed('invalid_procfile', 'The Procfile has no "web" process: add a line such as "web: node server.js".')
  }
  const others = [...processes.keys()].filter((name) => name !== 'web' && name !== 'release').slice(0, 10)
  return { ok: true, value: { web, release: processes.get('release'), others } }
}

/** Returns the folder in a line for Heroku's PHP servers, such as `vendor/bin/heroku-php-apache2 public/`. */
function phpFolderOf(line: string): string | undefined {
  const pattern = /^(?:vendor\/bin\/)?heroku-php-(?:apache2|nginx)(?:\s+-\w\s+\S+)*(?:\s+([\w.][\w./-]*))?$/
  const [match, folder = '.'] = pattern.exec(line) ?? []
  return match === undefined ? undefined : folder.replace(/(?<=[^/])\/+$/, '')
}

/** Returns the first word of the owner's command, which is the name of the program to build. */
export function ownersProgram({ settings, app }: Pick<DetectorSource, 'settings' | 'app'>): string | undefined {
  if (settings.start !== undefined) return settings.start[0]
  const web = parseProcfile(app.read('Procfile') ?? '').get('web')
  return web === undefined ? undefined : /^(?:exec\s+|\w+=\S*\s+)*([^\s;&|]+)/.exec(web)?.[1]
}

/** Parses the command of each process. The last line counts if a name occurs twice. Skips invalid lines. */
export function parseProcfile(text: string): ReadonlyMap<string, string> {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return new Map(
    lines.flatMap((line) => {
      const [, name, command] = /^\s*([\w-]+)\s*:\s*(\S.*)$/.exec(line.trimEnd()) ?? []
      return name === undefined || command === undefined ? [] : [[name, command] as const]
    }),
  )
}
