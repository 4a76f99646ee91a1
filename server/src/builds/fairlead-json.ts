import { createRequire } from 'node:module'
import { posix } from 'node:path'
import type { z } from 'zod'
import { volumeProblem } from '../contract/volume-rules.ts'
import { fiveFields } from '../platform/five-fields.ts'
import type { CronSettings } from './build-plan.ts'
import { readJson } from './json.ts'
import { failed, quote, type Result, unreadable } from './result.ts'
import type { SourceTree } from './tree.ts'

type FairleadJson = ReturnType<typeof makeSchema>

let schema: FairleadJson | undefined

/**
 * Returns the schema of `fairlead.json`: the owner's settings for build and start, at the top of the repository. A
 * function with lazy loading, because few repositories have the file, and loading zod takes longer than a plan.
 */
export function fairleadJson(): FairleadJson {
  schema ??= makeSchema((createRequire(import.meta.url)('zod') as typeof import('zod')).z)
  return schema
}

export interface AppSettings {
  /** Relative to the top of the repository; `.` for the top. */
  readonly root: string
  readonly build?: readonly [string, ...string[]] | undefined
  readonly start?: readonly [string, ...string[]] | undefined
  readonly health?: string | undefined
  readonly processes?: Readonly<Record<string, ProcessSettings>> | undefined
  readonly cron?: readonly CronSettings[] | undefined
  readonly builder?: BuilderName | undefined
  readonly dockerfile?: { readonly path: string; readonly target: string | undefined } | undefined
  /** The app does not write to the files of its container image. */
  readonly readOnly?: boolean | undefined
  readonly volumes?: Readonly<Record<string, string>> | undefined
}

export interface ProcessSettings {
  readonly command?: readonly [string, ...string[]] | undefined
  readonly instances?: number | undefined
  readonly memoryMb?: number | undefined
  readonly cpus?: number | undefined
  readonly sticky?: boolean | undefined
}

/**
 * Reads `fairlead.json` of the repository; without the file all settings are absent.
 *
 * @param givenRoot overrides `root`; if `root` names another folder, the other settings are then absent
 */
export function readSettings(files: SourceTree, givenRoot: string | null = null): Result<AppSettings> {
  if (!files.has('fairlead.json')) return { ok: true, value: { root: givenRoot ?? '.' } }
  const content = files.read('fairlead.json')
  if (content === undefined) return unreadable('fairlead.json')
  const json = readJson('fairlead.json', content)
  if (!json.ok) return failed('invalid_fairlead_json', json.message)
  const parsed = fairleadJson().safeParse(json.value)
  if (!parsed.success) return failed('invalid_fairlead_json', describe(parsed.error.issues))
  const { root = '.', build, health } = parsed.data
  const processes = processSettings(parsed.data.processes)
  const start = processes?.['web']?.command ?? command(parsed.data.start)
  if (givenRoot !== null && givenRoot !== tidy(root)) return { ok: true, value: { root: givenRoot } }
  const cron = cronSettings(parsed.data.cron)
  const { builder, read_only: readOnly, dockerfile: named, volumes } = parsed.data
  const dockerfile = named && { path: tidy(named.path ?? defaultDockerfile), target: named.target }
  const settings = { root: tidy(root), build: command(build), start, health, processes, cron }
  return { ok: true, value: { ...settings, builder, dockerfile, readOnly, volumes } }
}

function makeSchema(zod: typeof z) {
  const text = (error: string) =>
    zod
      .string({ error })
      .min(1, error)
      .max(4096, 'must be at most 4096 characters')
      .regex(/^[^\0]*$/, 'must not contain a NUL character')

  const word = zod
    .string({ error: 'must be a string' })
    .regex(/^[^\0]*$/, 'must not contain a NUL character')
    .refine((given) => given.isWellFormed(), 'must be well-formed Unicode')
  const words = zod
    .array(word, { error: 'must be a list of words, such as ["node", "server.js"]' })
    .min(1, 'must have at least one word')
    .max(1000, 'must have at most 1000 words')

  return zod
    .strictObject({
      $schema: zod
        .string({ error: 'must be a string' })
        .optional()
        .describe('The address of this schema, for editors.'),
      root: text('must be a path inside the repository')
        .refine(isInside, 'must be a path inside the repository')
        .optional()
        .describe('The folder of the app, from the top of the repository. Everything else counts from there.'),
      build: words
        .optional()
        .describe('The command that builds, in words; no shell reads it. Takes the place of the "build" script.'),
      start: words
        .optional()
        .describe(
          'The command that runs the app, in words; no shell reads it. Takes the place of the Procfile and others.',
        ),
      health: text('must be a path such as "/health"')
        .regex(/^\/(?!\/)[\x21-\x7e]*$/, 'must be a path such as "/health"')
        .optional()
        .describe(
          'Asked before a release gets the address, and as long as an instance lives; any status from 200 to 399 is healthy.',
        ),
      processes: processesSchema(zod, words),
      cron: cronSchema(zod, words),
      builder: zod
        .enum(builders, { error: 'must be "dockerfile" or "detected"' })
        .optional()
        .describe('What builds the app: its Dockerfile, or the commands that Fairlead detects.'),
      dockerfile: dockerfileSchema(zod).optional().describe('The Dockerfile that builds the app.'),
      read_only: zod
        .boolean({ error: 'must be true or false' })
        .optional()
        .describe('True when the app, in a container, does not write to the files of its image.'),
      volumes: volumesSchema(zod)
        .optional()
        .describe('Folders that are kept over releases: the absolute path at which the app sees each, by its name.'),
    })
    .meta({ title: 'fairlead.json', description: 'How Fairlead builds and runs an app.' })
}

/** A program could read a path with a hyphen in front as an option. */
const dockerfilePath = /^(?!-)[^\p{Cc}\\]{1,1000}$/u
const stageName = /^[A-Za-z0-9][\w.-]{0,127}$/

function dockerfileSchema(zod: typeof z) {
  return zod.strictObject({
    path: zod
      .string({ error: 'must be a string' })
      .regex(dockerfilePath, 'must be a path inside the folder of the app')
      .refine(isFileInside, 'must be a path inside the folder of the app')
      .optional()
      .describe('From the folder of the app; "Dockerfile" unless given.'),
    target: zod
      .string({ error: 'must be a string' })
      .regex(stageName, 'must be the name of a stage')
      .optional()
      .describe('The stage to build; the last one unless given.'),
  })
}

function volumesSchema(zod: typeof z) {
  return zod
    .record(zod.string(), zod.string({ error: 'must be an absolute path' }), {
      error: 'must be paths by names, such as { "uploads": "/var/lib/uploads" }',
    })
    .superRefine((volumes, context) => {
      const problem = volumeProblem(volumes)
      if (problem === null) return
      context.addIssue({ code: 'custom', message: problem.message, path: problem.name === null ? [] : [problem.name] })
    })
}

function processesSchema<Words extends z.ZodType>(zod: typeof z, words: Words) {
  return zod
    .record(
      zod
        .string()
        .regex(/^(?!release$)[a-z][a-z0-9_-]{0,29}$/, 'must be a name in lower-case letters, and not "release"'),
      zod.strictObject({
        command: words
          .optional()
          .describe('The command that runs it, in words. For "web" it takes the place of "start".'),
        instances: zod
          .int('must be a whole number')
          .min(0, 'must not be negative')
          .max(1000, 'must be at most 1000')
          .optional()
          .describe('How many of them run: 1 for "web" and 0 for others unless it says so here, or the owner does.'),
        memory_mb: zod
          .number('must be a number')
          .min(64, 'must be at least 64')
          .optional()
          .describe('The most memory of each, in 10⁶ bytes; never more than the plan allows.'),
        cpus: zod
          .number('must be a number')
          .positive('must be more than 0')
          .optional()
          .describe('The most CPU time of each; never more than the plan allows.'),
        sticky: zod
          .boolean('must be true or false')
          .optional()
          .describe('For "web" alone: a client stays at the instance that it has reached, by a cookie.'),
      }),
    )
    .optional()
    .describe('The process types of the app, in addition to its Procfile: "web" has its address.')
}

export const defaultDockerfile = 'Dockerfile'

function processSettings(
  given: z.output<FairleadJson>['processes'],
): Readonly<Record<string, ProcessSettings>> | undefined {
  if (given === undefined) return undefined
  return Object.fromEntries(
    Object.entries(given).map(([type, { command: words, instances, memory_mb, cpus, sticky }]) => [
      type,
      { command: command(words), instances, memoryMb: memory_mb, cpus, sticky },
    ]),
  )
}

function describe(issues: readonly z.core.$ZodIssue[]): string {
  const [first] = issues
  if (first?.path.length === 0 && first.code !== 'unrecognized_keys') return 'fairlead.json must hold a JSON object.'
  const complaints = issues.map((issue) => {
    if (issue.code !== 'unrecognized_keys') return `${quote(issue.path.join('.'))} ${issue.message}`
    const known = Object.keys(fairleadJson().shape).join(', ')
    return `${issue.keys.slice(0, 5).map(quote).join(', ')} is not known (known are ${known})`
  })
  return `In fairlead.json: ${complaints.slice(0, 5).join('; ')}.`
}

const command = ([program, ...more]: readonly string[] = []): readonly [string, ...string[]] | undefined =>
  program === undefined ? undefined : [program, ...more]

function isInside(path: string): boolean {
  const tidied = tidy(path)
  return !tidied.startsWith('/') && tidied.split('/')[0] !== '..'
}

const isFileInside = (path: string): boolean => isInside(path) && !['.', ''].includes(tidy(path))

function tidy(path: string): string {
  const normal = posix.normalize(path)
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal
}

// As in the API, because each scheduled run stores its command.
const mostWords = 200
const mostCharacters = 32_768
const lengthOf = (words: readonly string[]): number => words.reduce((sum, { length }) => sum + length, 0)

/** Returns the schema of schedules; `words` is the schema of a command. */
function cronSchema(zod: typeof z, words: z.ZodType<string[]>) {
  return zod
    .array(
      zod.strictObject({
        name: zod
          .string({ error: 'must be a name' })
          .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens, at most 63'),
        schedule: zod
          .string({ error: 'must be five fields, such as "30 4 * * 1-5"' })
          .regex(fiveFields, 'must be five fields, such as "30 4 * * 1-5"')
          .max(100, 'must be at most 100 characters')
          .describe('Minute, hour, day of the month, month, day of the week, as in crontab.'),
        timezone: zod
          .string({ error: 'must be the name of a time zone' })
          .max(64, 'must be at most 64 characters')
          .optional()
          .describe('Such as "Europe/Berlin"; UTC unless it says so here.'),
        command: words
          .refine((given) => given[0] !== '', 'must name a program')
          .refine((given) => given.length <= mostWords, `must have at most ${mostWords} words`)
          .refine((given) => lengthOf(given) <= mostCharacters, `must have at most ${mostCharacters} characters`)
          .describe('The command, in words; no shell reads it.'),
        overlap: zod
          .enum(['forbid', 'allow', 'replace'], { error: 'must be one of: forbid, allow, replace' })
          .optional()
          .describe(
            'At a time when the earlier run has not ended: skips it, begins another one, or ends the earlier one.',
          ),
      }),
      { error: 'must be a list' },
    )
    .max(20, 'must have at most 20 schedules')
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'must have no name twice')
    .optional()
    .describe('Commands that run at times, beside the app.')
}

function cronSettings(given: z.output<ReturnType<typeof cronSchema>>): readonly CronSettings[] | undefined {
  return given?.map(({ command, timezone = 'UTC', overlap = 'forbid', ...rest }) => ({
    ...rest,
    timezone,
    overlap,
    command: command as [string, ...string[]],
  }))
}

/** The values of `builder`: the app's Dockerfile builds the release, or the detected commands do. */
const builders = ['dockerfile', 'detected'] as const
export type BuilderName = (typeof builders)[number]
