import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { VersionDescription } from '../../server/src/platform/versions/versions.ts'

/**
 * Packs an archive of another version of the server, as an update sees it: a program that states its requirements.
 *
 * @param options.program replaces the text of the program
 */
export async function packedVersion(
  folder: string,
  description: VersionDescription,
  options: { readonly name?: string; readonly program?: string } = {},
): Promise<string> {
  const { name = '@fairlead/server', program } = options
  const above = join(folder, `source-${description.version}`)
  const source = join(above, 'package')
  await mkdir(join(source, 'bin'), { recursive: true })
  const manifest = { name, version: description.version, bin: { fairlead: 'bin/fairlead.js' } }
  await writeFile(join(source, 'package.json'), JSON.stringify(manifest))
  const says = `if (process.argv[2] !== 'self-check') process.exit(2)\nconsole.log(${JSON.stringify(JSON.stringify(description))})\n`
  await writeFile(join(source, 'bin', 'fairlead.js'), program ?? says)
  // The archive has the format of npm pack, which would take a second of CPU time for each.
  const archive = join(folder, `${name.replace('@', '').replace('/', '-')}-${description.version}.tgz`)
  await promisify(execFile)('tar', ['czf', archive, '-C', above, 'package'])
  return archive
}
