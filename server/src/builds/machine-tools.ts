import { execFile } from 'node:child_process'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'
import { findProgram } from '../platform/programs.ts'
import type { Detector, Tool } from './detectors/detector.ts'

/** Elixir and Java take a second to start on a busy machine. */
const timeoutMs = 10_000

const systemPath = SYSTEM_FOLDERS.join(':')

/**
 * Returns the programs that apps find on the machine. Checks each time, so that the next deployment finds a new
 * program.
 */
export async function installed(programs: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.all(
    programs.map(async (program) => ((await findProgram(program, systemPath)) === null ? [] : [program])),
  )
  return new Set(found.flat())
}

/**
 * Returns the versions of the machine's programs that report a version. An additional version of a program counts only
 * when it is complete.
 */
export async function versionsOf(tools: readonly Tool[]): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    tools.map(async (tool) => {
      const version = tool.isExtra === true && !(await isWhole(tool)) ? undefined : await versionOf(tool)
      return version === undefined ? [] : [[tool.program, version] as const]
    }),
  )
  return new Map(found.flat())
}

async function versionOf({ program, version }: Tool): Promise<string | undefined> {
  if (version === undefined) return undefined
  return version.pattern.exec((await outputOf(program, version.args)) ?? '')?.[1]
}

const isWhole = async ({ program, whole }: Tool): Promise<boolean> =>
  whole === undefined || (await outputOf(program, whole.args)) !== null

/**
 * Runs a program away from the sources and with an empty environment, so that the app cannot influence it. Returns its
 * output; null when it fails.
 */
function outputOf(program: string, args: readonly string[]): Promise<string | null> {
  const env = { PATH: systemPath, HOME: '/nonexistent', LANG: 'C.UTF-8' }
  return new Promise((done) => {
    execFile(program, args, { env, cwd: '/', timeout: timeoutMs }, (error, stdout, stderr) =>
      done(error === null ? `${stdout}\n${stderr}` : null),
    )
  })
}

export interface Language {
  readonly name: string
  readonly there: readonly string[]
  /** The missing programs, such as `bundle (Debian: bundler)`. */
  readonly missing: readonly string[]
}

/**
 * Lists the languages of detectors that need programs of the machine. A program counts when it runs and is complete.
 */
export async function languagesOf(detectors: readonly Detector[]): Promise<readonly Language[]> {
  const tools = detectors.flatMap((detector) => detector.tools)
  const programs = await installed(tools.map(({ program }) => program))
  const found = tools.filter(({ program }) => programs.has(program))
  const versions = await versionsOf(found)
  const whole = new Set((await Promise.all(found.map(async (tool) => ((await isWhole(tool)) ? [tool] : [])))).flat())
  const runs = (tool: Tool) => whole.has(tool) && (tool.version === undefined || versions.has(tool.program))
  const lack = (tool: Tool): string => {
    const { program, packages } = tool
    const part = programs.has(program) && !whole.has(tool) ? `${tool.whole?.part} of ${program}` : program
    const what = programs.has(program) && whole.has(tool) ? `${program} that runs` : part
    return packages === undefined ? what : `${what} (Debian: ${packages})`
  }
  return detectors
    .filter((detector) => detector.tools.length > 0)
    .map(({ name, tools: own }) => ({
      name,
      there: own
        .filter(runs)
        .map(({ program }) => [program, versions.get(program)].filter((word) => word !== undefined).join(' ')),
      missing: own.filter((tool) => !runs(tool) && (tool.isExtra !== true || programs.has(tool.program))).map(lack),
    }))
}
