import { posix } from 'node:path'
import type { Command } from '../platform/command.ts'
import { folderRunnerName, staticServerName } from '../platform/toolchain.ts'
import { type BuildPlan, dockerfileKind, imagePlan, isOfImage, type ProcessPlan } from './build-plan.ts'
import { type Detection, type Detector, type DetectorSource, shellLine, type Tool } from './detectors/detector.ts'
import { parseProcfile } from './detectors/procfile.ts'
import {
  type AppSettings,
  type BuilderName,
  defaultDockerfile,
  type ProcessSettings,
  readSettings,
} from './fairlead-json.ts'
import { readPackageJson } from './package-json.ts'
import { failed, type PlanFailure, type PlanResult, quote, type Result } from './result.ts'
import { readSampleVariables } from './sample-variables.ts'
import { type SourceTree, within } from './tree.ts'

export interface PlanOptions {
  /** The folder of the app. It overrides `root` in `fairlead.json`. */
  readonly root?: string | null
  readonly programs: ReadonlySet<string>
  readonly versions?: ReadonlyMap<string, string>
  /** True for a whole repository, where an absent file does not exist. False for an extract. */
  readonly isWhole?: boolean
  readonly images?: boolean
  /** False when the server runs container images and cannot build Dockerfiles. True by default. */
  readonly canBuildImages?: boolean
  /** The kind of the previous release's plan; null for a new app. */
  readonly before?: string | null
}

interface Found {
  readonly detector: Detector
  readonly detection: Detection
}

interface Chosen extends Found {
  readonly detection: Detection & { readonly start: Command }
}

/** Returns the detectors that recognise the tree; the build may use their tools. */
export function recognising(
  files: SourceTree,
  detectors: readonly Detector[],
  options: PlanOptions,
): readonly Detector[] {
  const settings = readSettings(files, options.root)
  const all = settings.ok ? detectAll(files, settings.value, detectors, options) : settings
  return all.ok ? all.value.found.map(({ detector }) => detector) : []
}

/** Decides how a source tree is built and started. Pure; never throws. */
export function planBuild(files: SourceTree, detectors: readonly Detector[], options: PlanOptions): PlanResult {
  const read = readSettings(files, options.root)
  if (!read.ok) return read
  const settings = read.value
  if (settings.root !== '.' && !files.has(settings.root)) {
    if (typeof options.root === 'string') {
      return failed('unknown_root', `root: this repository has no folder ${quote(options.root)}.`)
    }
    return failed('invalid_fairlead_json', `In fairlead.json: "root" is not a folder of this repository.`)
  }
  const app = within(files, settings.root)
  const all = detectAll(files, settings, detectors, options)
  const chosen = all.ok ? all.value.found.find((each): each is Chosen => each.detection.start !== null) : undefined
  // A faulty file counts as detected, so that an app stays with its detector. A new app uses its Dockerfile.
  const detected = all.ok ? (chosen?.detector.name ?? null) : all.failure.code
  const { builder, note } = chooseBuilder(factsOf(app, settings, detected, options))
  if (builder === 'dockerfile') {
    return withNote(planDockerfile(app, settings, options.images === true), all.ok ? note : undefined)
  }
  if (!all.ok) return all
  if (chosen === undefined) return nothingStarts(all.value.found, detectors, options)
  const planned = withNote(assemble(chosen, all.value, { settings, app }, options), note)
  if (!planned.ok) return planned
  const makes =
    settings.build !== undefined || all.value.found.some(({ detection }) => (detection.build ?? []).length > 0)
  const missing = options.isWhole === true ? missingFile(app, chosen.detection.start, makes) : null
  if (missing !== null) return { ok: false, failure: missing }
  const samples = readSampleVariables(app)
  return samples === undefined ? planned : { ok: true, plan: { ...planned.plan, samples } }
}

export interface BuilderFacts {
  readonly asked: BuilderName | undefined
  /** `fairlead.json` has commands that build or start the app. */
  readonly namesCommands: boolean
  readonly hasDockerfile: boolean
  readonly images: boolean
  readonly canBuildImages: boolean
  /** The kind of the previous release's plan; null for a new app. */
  readonly before: string | null
  readonly detected: string | null
}

/** The note tells that another builder was possible. */
export interface ChosenBuilder {
  readonly builder: BuilderName
  readonly note?: string
}

/**
 * Chooses between the Dockerfile of an app and the detected commands. `fairlead.json` decides; otherwise an app keeps
 * its previous builder; a new app uses its Dockerfile if the server can build it.
 */
export function chooseBuilder(facts: BuilderFacts): ChosenBuilder {
  const { asked, namesCommands, hasDockerfile, images, canBuildImages, before, detected } = facts
  if (asked !== undefined) return { builder: asked }
  if (!hasDockerfile || !images) return { builder: 'detected' }
  if (detected === null) return { builder: 'dockerfile' }
  if (namesCommands) return leftOut('fairlead.json says how the app is built or started')
  if (before !== null && !isOfImage({ kind: before }))
    return leftOut(`the release before was not made of it (${before})`)
  if (before === null && !canBuildImages) {
    return { builder: 'detected', note: 'The Dockerfile is not used: this server builds none.' }
  }
  const note = `The Dockerfile builds the app. With "builder": "detected" in fairlead.json, Fairlead does, as ${detected}.`
  return { builder: 'dockerfile', note }
}

function factsOf(
  app: SourceTree,
  { builder, build, start, dockerfile }: AppSettings,
  detected: string | null,
  { images = false, canBuildImages = true, before = null }: PlanOptions,
): BuilderFacts {
  return {
    asked: builder ?? (dockerfile === undefined ? undefined : 'dockerfile'),
    namesCommands: build !== undefined || start !== undefined,
    hasDockerfile: app.has(defaultDockerfile),
    images,
    canBuildImages,
    before,
    detected,
  }
}

function withNote(planned: PlanResult, note: string | undefined): PlanResult {
  if (!planned.ok || note === undefined) return planned
  return { ok: true, plan: { ...planned.plan, notes: [note, ...(planned.plan.notes ?? [])] } }
}

function detectAll(
  files: SourceTree,
  settings: AppSettings,
  detectors: readonly Detector[],
  { versions = new Map() }: PlanOptions,
): Result<{ readonly found: readonly Found[]; readonly builds: boolean }> {
  const found: Found[] = []
  let builds = settings.build !== undefined
  let isRefused = false
  for (const detector of detectors) {
    const source: DetectorSource = {
      settings,
      repository: files,
      app: within(files, settings.root),
      builds,
      isRefused,
      versions,
    }
    const result = detector.detect(source)
    if (result === null) continue
    if (!result.ok) return result
    found.push({ detector, detection: result.value })
    isRefused ||= result.value.refused !== undefined
    builds ||= detector.makesSites === true && (result.value.build ?? []).length > 0
  }
  return { ok: true, value: { found, builds } }
}

function nothingStarts(
  found: readonly Found[],
  detectors: readonly Detector[],
  { images = false }: PlanOptions,
): PlanResult {
  const refused = found.map(({ detection }) => detection.refused).find((failure) => failure !== undefined)
  if (refused !== undefined) return { ok: false, failure: refused }
  const advice = found.map(({ detection }) => detection.advice).find((text) => text !== undefined)
  if (advice !== undefined) return failed('no_start', advice)
  const recognised = [...detectors.map(({ recognises }) => recognises), ...(images ? ['a Dockerfile'] : [])]
  return failed('not_recognised', `Nothing here can be started. Fairlead recognises: ${recognised.join('; ')}.`)
}

/** Combines the commands of the chosen detector and of the detectors that it uses into one plan. */
function assemble(
  { detector, detection }: Chosen,
  { found, builds }: { readonly found: readonly Found[]; readonly builds: boolean },
  { settings: given, app }: { readonly settings: AppSettings; readonly app: SourceTree },
  options: PlanOptions,
): PlanResult {
  const { root, build, health, cron, volumes } = given
  const { uses } = detection
  const { used, leftOut } = chooseUsed(detection, found, options.programs)
  const missing = used.map((each) => missingTool(each, options.programs)).find((tool) => tool !== undefined)
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
  // An owner's command may need the variables of every language; a language's start has its own.
  const isOwners = uses === 'all' && detection.env === undefined
  const start = isOwners ? withEnv(detection.start, env) : detection.start
  const caches = Object.assign({}, ...used.map((each) => each.detector.caches))
  const settings = Object.assign({}, ...used.map((each) => each.detector.settings))
  const limited = (command: Command): Command => ({
    ...command,
    ...unlessEmpty('settings', { ...settings, ...command.settings }),
  })
  const inBuild = (command: Command): Command => limited({ ...command, ...unlessEmpty('caches', caches) })
  const release = used.map((each) => each.detection.release).find((command) => command !== undefined)
  const notes = [...used.flatMap((each) => each.detection.notes ?? []), ...leftOut]
  const toolchain = used.flatMap((each) => each.detection.toolchain ?? [])
  const processes = planProcesses(app, given, (command) => limited(inFolder(root, withEnv(command, env))))
  if (!processes.ok) return processes
  const plan: BuildPlan = {
    kind: detector.name,
    build: [...installs, ...own.map((command) => inFolder(root, command))].map(inBuild),
    ...(release === undefined ? {} : { release: inBuild(inFolder(root, withEnv(release, env))) }),
    start: limited(inFolder(root, start)),
    ...(detection.outputs === undefined
      ? {}
      : {
          outputs: detection.outputs.map(({ paths, start: each, moves, ...more }) => ({
            ...more,
            paths: paths.map((path) => posix.join(root, path)),
            ...(moves === undefined ? {} : { moves: { ...moves, folder: posix.join(root, moves.folder), root } }),
            start: limited(inFolder(root, each)),
          })),
        }),
    ...(health === undefined ? {} : { health }),
    ...processes.value,
    ...(cron === undefined ? {} : { cron }),
    ...(volumes === undefined ? {} : { volumes }),
    ...(toolchain.length === 0 ? {} : { toolchain }),
    ...(notes.length === 0 ? {} : { notes }),
  }
  return { ok: true, plan }
}

/**
 * Returns the languages that the build uses. An owner's command may need all of them. But a file that a language needs
 * only for tools, such as a Gemfile next to a package.json, requires no additional program.
 */
function chooseUsed(
  { uses }: Detection,
  found: readonly Found[],
  programs: ReadonlySet<string>,
): { readonly used: readonly Found[]; readonly leftOut: readonly string[] } {
  if (uses !== 'all') {
    const isUsed = ({ detector, detection }: Found) => uses.includes(detector.name) || detection.always === true
    return { used: found.filter(isUsed), leftOut: [] }
  }
  const languages = found.filter(({ detection }) => detection.install !== undefined)
  const certain = languages.some(({ detection }) => detection.start !== null)
  const isLeftOut = (each: Found) =>
    certain && each.detection.start === null && missingTool(each, programs) !== undefined
  const leftOut = found
    .filter(isLeftOut)
    .map(({ detector }) => `Not built: the part in ${detector.name}, which this server lacks.`)
  return { used: found.filter((each) => !isLeftOut(each)), leftOut }
}

const missingTool = ({ detector, detection }: Found, programs: ReadonlySet<string>): Tool | undefined =>
  detector.tools.find(({ program }) => (detection.programs?.includes(program) ?? true) && !programs.has(program))

const unlessEmpty = (key: 'caches' | 'settings', values: Readonly<Record<string, string>>) =>
  Object.keys(values).length === 0 ? {} : { [key]: values }

const withEnv = (command: Command, env: NonNullable<Command['env']>): Command => ({
  ...command,
  env: { ...env, ...command.env },
})

function inFolder(folder: string, command: Command): Command {
  if (folder === '.') return command
  const { argv, unlocked, ...rest } = command
  const there = (words: Command['argv']): Command['argv'] => [folderRunnerName, folder, ...words]
  return { ...rest, argv: there(argv), ...(unlocked === undefined ? {} : { unlocked: there(unlocked) }) }
}

const leftOut = (why: string): ChosenBuilder => ({
  builder: 'detected',
  note: `The Dockerfile is not used: ${why}. "builder": "dockerfile" in fairlead.json changes that.`,
})

/** Tells users what the operator must do for containers. */
const turnOnDocker =
  'Its operator turns Docker on: FAIRLEAD_RUNTIME=process,docker, see docs/configuration.md of Fairlead.'

/**
 * Returns the plan of an app with a Dockerfile. Process types come only from `fairlead.json`, because a Procfile is for
 * machines without the image.
 */
function planDockerfile(app: SourceTree, settings: AppSettings, images: boolean): PlanResult {
  const { root, build, start, health, cron, dockerfile, volumes } = settings
  const path = dockerfile?.path ?? defaultDockerfile
  if (!images) {
    return failed(
      'no_docker',
      `fairlead.json asks for a build by its Dockerfile, and this server has none. ${turnOnDocker}`,
    )
  }
  if (isMissingFolder(app, path))
    return failed('no_dockerfile', `The file ${quote(path)} is not in ${folderName(root)}.`)
  if (build !== undefined) {
    return failed('invalid_fairlead_json', 'In fairlead.json: "build" is not for apps that a Dockerfile builds.')
  }
  const prepare = (command: Command): Command => (settings.readOnly === true ? { ...command, readOnly: true } : command)
  const processes = planProcesses({ ...app, read: () => undefined }, settings, prepare)
  if (!processes.ok) return processes
  const plan: BuildPlan = {
    kind: dockerfileKind,
    build: [],
    image: { path: posix.join(root, path), target: dockerfile?.target ?? null, context: root },
    start: prepare(start === undefined ? imagePlan.start : { argv: start }),
    ...(health === undefined ? {} : { health }),
    ...processes.value,
    ...(cron === undefined ? {} : { cron }),
    ...(volumes === undefined ? {} : { volumes }),
  }
  return { ok: true, plan }
}

/** True for a file that is certainly missing. Folders deep inside a repository are unknown. */
const isMissingFolder = (app: SourceTree, path: string): boolean =>
  !app.has(path) && app.list(posix.dirname(path)).length > 0

const folderName = (root: string): string => (root === '.' ? 'the repository' : `the folder ${quote(root)}`)

/** Lines of a Procfile with a special meaning. */
const notTypes = new Set(['web', 'release'])
const typePattern = /^[a-z][a-z0-9_-]{0,29}$/
/** A limit, because the plan is read often with its release. No app needs as many types. */
const mostTypes = 50

/**
 * Returns the process types from the Procfile and from fairlead.json, which takes precedence. Nothing for an app with
 * only `web` and without settings.
 *
 * @param prepare turns an owner's command into a command that runs like the start of the app
 */
function planProcesses(
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
  if (count > mostTypes) return failed('invalid_fairlead_json', tooMany('Together with fairlead.json, the app', count))
  return { ok: true, value: count === 0 ? {} : { processes: Object.fromEntries(planned) } }
}

const tooMany = (subject: string, count: number): string =>
  `${subject} has ${count} process types, and an app may have ${mostTypes}: remove those that never run.`

const sizesOf = ({ instances, memoryMb, cpus }: ProcessSettings): ProcessPlan => ({
  ...(instances === undefined ? {} : { instances }),
  ...(memoryMb === undefined ? {} : { memoryMb }),
  ...(cpus === undefined ? {} : { cpus }),
})

const interpreters = /^(?:node|bun|deno|ruby|php|python3?)$/
const sources = /^[\w@%+=:,./-]+\.(?:[cm]?[jt]sx?|py|rb|php)$/
/** These scripts may create files during the installation of packages. */
const makers = ['preinstall', 'install', 'postinstall', 'prepare']

/**
 * Returns why a known start cannot work: its file or folder is missing, and nothing creates it. Null when that is not
 * certain.
 *
 * @param app the folder of the app
 * @param builds true when the build may create files
 */
export function missingFile(app: SourceTree, { argv }: Command, builds: boolean): PlanFailure | null {
  const scripts = readPackageJson(app)?.scripts
  if (builds || makers.some((name) => scripts?.has(name))) return null
  const [program, ...words] = argv
  if (program === staticServerName) {
    const folder = words.at(-1) ?? '.'
    return isMissing(app, folder)
      ? refuse(`The folder ${quote(folder)}, which the app serves as a site,`, 'Add a build that makes it')
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

function isMissing(app: SourceTree, given: string): boolean {
  const path = posix.normalize(given).replace(/\/$/, '')
  if (path === '.' || path.startsWith('/') || path.split('/')[0] === '..' || app.has(path)) return false
  const [top = ''] = path.split('/')
  if (!app.has(top)) return true
  return app.list(posix.dirname(path)).length > 0
}
