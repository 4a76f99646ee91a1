import { readFileSync } from 'node:fs'
import { disagreements, notesOf } from './agreement.ts'

/**
 * Checks that tag, packages and changelog belong together: `node scripts/release/check.ts v1.2.3`. Prints the version's
 * section of the changelog, which is the text of the release.
 */

interface Manifest {
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
}

const [tag = ''] = process.argv.slice(2)
const manifests = [
  'receiver/package.json',
  'server/package.json',
  'server/dashboard/package.json',
  'action/package.json',
  'cli/package.json',
]
const read = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Manifest
const changelog = readFileSync('CHANGELOG.md', 'utf8')
const found = disagreements({
  tag,
  versions: Object.fromEntries(manifests.map((path) => [path, read(path).version])),
  receiver: read('server/package.json').dependencies?.['@fairlead/receiver'],
  changelog,
})
for (const problem of found) process.stderr.write(`${problem}\n`)
if (found.length > 0) process.exit(1)
process.stdout.write(`${notesOf(changelog, tag.slice(1))}\n`)
