import type { Command } from '../platform/command.ts'
import type { BuildPlan, ProcessPlan } from './build-plan.ts'
import { shellLine } from './detectors/detector.ts'
import { parseProcfile } from './detectors/procfile.ts'
import type { AppSettings, ProcessSettings } from './source/fairlead-json.ts'
import { failed, quote, type Result } from './source/result.ts'
import type { SourceTree } from './source/tree.ts'

/** Lines of a Procfile with a meaning of their own. */
const notTypes = new Set(['web', 'release'])
const typePattern = /^[a-z][a-z0-9_-]{0,29}$/
/** The plan is read with its release, again and again, and no app needs as many. */
const mostTypes = 50

/**
 * Returns the process types of an app, from its Procfile and its fairlead.json, which wins. Nothing for an app that has `web`
 * alone, without settings.
 *
 * @param prepare makes a command of the owner one that runs as the app's start does
 */
export function planProcesses(
  app: SourceTree,
  { processes: given = {} }: Pick<AppSettings, 'processes'>,
  prepare: (command: Command) => Command,
): Result<Pick<BuildPlan, 'processes'>> {
  const lines = parseProcfile(app.read('Procfile') ?? '')
  const ofProcfile = [...lines].filter(([type]) => !notTypes.has(type) && typePattern.test(type))
  if (ofProcfile.length > mostTypes) return failed('invalid_procfile', tooMany('The Procfile', ofProcfile.length))
  const planned = new Map<string, ProcessPlan>()
  for (const [type, line] of ofProcfile) planned.set(type, { command: prepare(shellLine(line)) })
  for (const [type, settings] of Object.entries(given)) {
    const { command } = settings
    const own = command === undefined || type === 'web' ? planned.get(type) : { command: prepare({ argv: command }) }
    if (own === undefined && type !== 'web') {
      return failed(
        'invalid_fairlead_json',
        `In fairlead.json: ${quote(`processes.${type}`)} has no "command", and the Procfile has no such line.`,
      )
    }
    if (settings.sticky !== undefined && type !== 'web') {
      return failed(
        'invalid_fairlead_json',
        `In fairlead.json: ${quote(`processes.${type}.sticky`)} is for "web" alone, which takes requests.`,
      )
    }
    planned.set(type, { ...own, ...sizesOf(settings), ...(settings.sticky === true && { sticky: true }) })
  }
  const count = planned.size
  if (count > mostTypes) return failed('invalid_fairlead_json', tooMany('With those of fairlead.json, the app', count))
  return { ok: true, value: count === 0 ? {} : { processes: Object.fromEntries(planned) } }
}

const tooMany = (subject: string, count: number): string =>
  `${subject} has ${count} process types, and an app may have ${mostTypes}: remove those that never run.`

const sizesOf = ({ instances, memoryMb, cpus }: ProcessSettings): ProcessPlan => ({
  ...(instances === undefined ? {} : { instances }),
  ...(memoryMb === undefined ? {} : { memoryMb }),
  ...(cpus === undefined ? {} : { cpus }),
})
