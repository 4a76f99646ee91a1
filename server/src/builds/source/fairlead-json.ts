import { posix } from 'node:path'
import { z } from 'zod'
import { readJson } from './package-json.ts'
import { failed, quote, type Result, unreadable } from './result.ts'
import type { SourceTree } from './tree.ts'

const text = (error: string) =>
  z
    .string({ error })
    .min(1, error)
    .max(4096, 'must be at most 4096 characters')
    .regex(/^[^\0]*$/, 'must not contain a NUL character')

const words = z
  .array(z.string({ error: 'must be a string' }).regex(/^[^\0]*$/, 'must not contain a NUL character'), {
    error: 'must be a list of words, such as ["node", "server.js"]',
  })
  .min(1, 'must have at least one word')
  .max(1000, 'must have at most 1000 words')

/** `fairlead.json` at the top of a repository: its owner's settings for how it is built and run. */
export const fairleadJson = z
  .strictObject({
    $schema: z.string({ error: 'must be a string' }).optional().describe('The address of this schema, for editors.'),
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
      .describe('Asked before a release gets the address; any status from 200 to 399 is healthy.'),
  })
  .meta({ title: 'fairlead.json', description: 'How Fairlead builds and runs an app.' })

export interface AppSettings {
  /** A folder from the top of the repository, `.` for the top itself. */
  readonly root: string
  readonly build?: readonly [string, ...string[]] | undefined
  readonly start?: readonly [string, ...string[]] | undefined
  readonly health?: string | undefined
}

/** Reads the repository's `fairlead.json`; without one all settings are absent. */
export function readSettings(files: SourceTree): Result<AppSettings> {
  if (!files.has('fairlead.json')) return { ok: true, value: { root: '.' } }
  const content = files.read('fairlead.json')
  if (content === undefined) return unreadable('fairlead.json')
  const json = readJson('fairlead.json', content)
  if (!json.ok) return failed('invalid_fairlead_json', json.message)
  const parsed = fairleadJson.safeParse(json.value)
  if (!parsed.success) return failed('invalid_fairlead_json', describe(parsed.error.issues))
  const { root = '.', build, start, health } = parsed.data
  return { ok: true, value: { root: tidy(root), build: command(build), start: command(start), health } }
}

/** Describes all problems, each with its key. */
function describe(issues: readonly z.core.$ZodIssue[]): string {
  const [first] = issues
  if (first?.path.length === 0 && first.code !== 'unrecognized_keys') return 'fairlead.json must hold a JSON object.'
  const complaints = issues.map((issue) => {
    if (issue.code !== 'unrecognized_keys') return `${quote(issue.path.join('.'))} ${issue.message}`
    const known = Object.keys(fairleadJson.shape).join(', ')
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

/** Removes `./` and a slash at the end. */
function tidy(path: string): string {
  const normal = posix.normalize(path)
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal
}
