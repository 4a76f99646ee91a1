import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Import, scan } from '../../../scripts/rooms/scan.ts'

const root = join(import.meta.dirname, '../../..')

/** Returns the packages that a file loads before it runs, directly and by other files. */
function packagesOf(start: string): string[] {
  const packages = new Set<string>()
  const files = new Set([start])
  for (const file of files) {
    for (const { path, specifier } of scan(file, readFileSync(join(root, file), 'utf8')).imports.filter(isLoaded)) {
      if (path !== undefined) files.add(path)
      else if (!specifier.startsWith('node:')) packages.add(specifier)
    }
  }
  return [...packages]
}

const isLoaded = ({ call, clause }: Import): boolean => call === undefined && !/^type\b/.test(clause ?? '')

it('the help of the command loads only its parser', () => {
  expect(packagesOf('server/src/cli.ts')).toEqual(['commander'])
})
