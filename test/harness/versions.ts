import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { VersionDescription } from '../../server/src/platform/versions/description.ts'

const npm = join(createRequire(import.meta.url).resolve('npm/package.json'), '..', 'bin', 'npm-cli.js')

/**
 * Packs an archive of another version of the server, as far as an update sees it: a program that says what it needs.
 *
 * @param options.program the text of the program instead
 */
export async function packedVersion(
  folder: string,
  description: VersionDescription,
  options: { readonly name?: string; readonly program?: string } = {},
): Promise<string> {
  const { name = '@fairlead/server', program } = options
  const source = join(folder, `source-${description.version}`)
  await mkdir(join(source, 'bin'), { recursive: true })
  const manifest = { name, version: description.version, bin: { fairlead: 'bin/fairlead.js' } }
  await writeFile(join(source, 'package.json'), JSON.stringify(manifest))
  const says = `if (process.argv[2] !== 'self-check') process.exit(2)\nconsole.log(${JSON.stringify(JSON.stringify(description))})\n`
  await writeFile(join(source, 'bin', 'fairlead.js'), program ?? says)
  const { stdout } = await promisify(execFile)(process.execPath, [
    npm,
    'pack',
    '--silent',
    `--pack-destination=${folder}`,
    source,
  ])
  return join(folder, stdout.trim())
}
