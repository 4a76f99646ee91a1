import type { Command } from '../platform/command.ts'
import { folderRunnerName } from '../platform/toolchain.ts'
import type { BuildPlan } from './build-plan.ts'
import type { Detection, Detector, DetectorSource } from './detectors/detector.ts'
import { type AppSettings, readSettings } from './source/fairlead-json.ts'
import { failed, type PlanResult, type Result } from './source/result.ts'
import { type SourceTree, within } from './source/tree.ts'

/** Facts about the server that a plan depends on. */
export interface PlanOptions {
  /** The version of the Node that apps run on, as in `process.versions.node`. */
  readonly nodeVersion: string
  /** The programs that the machine has, of those that detectors name as tools. */
  readonly programs: ReadonlySet<string>
}

/** A detector that recognised the tree. */
interface Found {
  readonly detector: Detector
  readonly detection: Detection
}

/** A detector that says how the app starts. */
interface Chosen extends Found {
  readonly detection: Detection & { readonly start: Command }
}

/** Decides how a source tree is built and started. Pure; never throws. */
export function planBuild(files: SourceTree, detectors: readonly Detector[], options: PlanOptions): PlanResult {
  const read = readSettings(files)
  if (!read.ok) return read
  const settings = read.value
  if (settings.root !== '.' && !files.has(settings.root)) {
    return failed('invalid_fairlead_json', `In fairlead.json: "root" is no folder of this repository.`)
  }
  const all = detectAll(files, settings, detectors, options)
  if (!all.ok) return all
  const chosen = all.value.found.find((each): each is Chosen => each.detection.start !== null)
  if (chosen === undefined) return nothingStarts(all.value.found, detectors)
  return assemble(chosen, all.value, settings, options)
}

function detectAll(
  files: SourceTree,
  settings: AppSettings,
  detectors: readonly Detector[],
  { nodeVersion }: PlanOptions,
): Result<{ readonly found: readonly Found[]; readonly builds: boolean }> {
  const found: Found[] = []
  let builds = settings.build !== undefined
  for (const detector of detectors) {
    const source: DetectorSource = {
      settings,
      repository: files,
      app: within(files, settings.root),
      builds,
      nodeVersion,
    }
    const result = detector.detect(source)
    if (result === null) continue
    if (!result.ok) return result
    found.push({ detector, detection: result.value })
    builds ||= (result.value.build ?? []).length > 0
  }
  return { ok: true, value: { found, builds } }
}

function nothingStarts(found: readonly Found[], detectors: readonly Detector[]): PlanResult {
  const advice = found.map(({ detection }) => detection.advice).find((text) => text !== undefined)
  if (advice !== undefined) return failed('no_start', advice)
  const recognised = detectors.map(({ recognises }) => recognises).join('; ')
  return failed('not_recognised', `Nothing here can be started. Fairlead recognises: ${recognised}.`)
}

/** Puts the commands of the chosen detector and of those that it uses into one plan. */
function assemble(
  { detector, detection }: Chosen,
  { found, builds }: { readonly found: readonly Found[]; readonly builds: boolean },
  { root, build, health }: AppSettings,
  options: PlanOptions,
): PlanResult {
  const { uses } = detection
  const used = found.filter((each) => uses === 'all' || uses.includes(each.detector.name))
  const missing = used.flatMap((each) => each.detector.tools).find(({ program }) => !options.programs.has(program))
  if (missing !== undefined) return { ok: false, failure: missing.missing }

  const installs: Command[] = []
  for (const each of used) {
    const planned = each.detection.install?.({ builds }) ?? { ok: true, value: [] }
    if (!planned.ok) return planned
    for (const { command, folder = root } of planned.value) installs.push(inFolder(folder, command))
  }
  const env = Object.assign({}, ...used.map((each) => each.detection.env ?? {}))
  const builders = used.flatMap((each) => each.detection.build ?? [])
  const own = build === undefined ? builders : [{ argv: build, env }]
  // A command that the owner wrote may need the variables of every language; a start of the language itself has its own.
  const isOwners = uses === 'all' && detection.env === undefined
  const start = isOwners ? withEnv(detection.start, env) : detection.start
  const caches = Object.assign({}, ...used.map((each) => each.detector.caches))
  const inBuild = (command: Command): Command => (Object.keys(caches).length === 0 ? command : { ...command, caches })
  const { release } = detection
  const plan: BuildPlan = {
    kind: detector.name,
    build: [...installs, ...own.map((command) => inFolder(root, command))].map(inBuild),
    ...(release === undefined ? {} : { release: inBuild(inFolder(root, withEnv(release, env))) }),
    start: inFolder(root, start),
    ...(health === undefined ? {} : { health }),
  }
  return { ok: true, plan }
}

const withEnv = (command: Command, env: NonNullable<Command['env']>): Command => ({
  ...command,
  env: { ...env, ...command.env },
})

/** Wraps a command so that it runs in a folder of the repository. */
const inFolder = (folder: string, command: Command): Command =>
  folder === '.' ? command : { ...command, argv: [folderRunnerName, folder, ...command.argv] }
