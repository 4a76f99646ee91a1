import type { Detector, Tool } from './detectors/detector.ts'
import { installed, isWhole, versionsOf } from './machine-tools.ts'

/** A language that apps can be written in, besides those that the server brings, and its programs on this machine. */
export interface Language {
  readonly name: string
  /** Such as `ruby 3.1.7`. */
  readonly there: readonly string[]
  /** Such as `bundle (Debian: bundler)`. */
  readonly missing: readonly string[]
}

/** Lists the languages of the detectors that need programs of the machine. A program is there when it runs, and is whole. */
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
