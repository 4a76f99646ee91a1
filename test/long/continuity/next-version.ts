import { execFile } from 'node:child_process'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const repositoryRoot = fileURLToPath(new URL('../../../', import.meta.url))

/** The copy's difference from the version of this repository. */
export interface Difference {
  readonly version: string
  /** Changes files of the built server, by path below its package. */
  readonly edits?: Readonly<Record<string, (text: string) => string>>
}

/** Packs server and receiver as another version, and returns the paths of the two packages for `fairlead update`. */
export async function packVersion(directory: string, { version, edits = {} }: Difference): Promise<string[]> {
  const packed: string[] = []
  for (const name of ['receiver', 'server']) {
    const copy = join(directory, version, name)
    await cp(join(repositoryRoot, name), copy, {
      recursive: true,
      filter: (path) => !/\/(node_modules|src)(\/|$)/.test(path.slice(repositoryRoot.length - 1)),
    })
    const file = join(copy, 'package.json')
    const manifest = JSON.parse(await readFile(file, 'utf8'))
    manifest.version = version
    if (manifest.dependencies?.['@fairlead/receiver']) manifest.dependencies['@fairlead/receiver'] = version
    await writeFile(file, JSON.stringify(manifest))
    if (name === 'server') {
      for (const [path, edit] of Object.entries(edits)) {
        await writeFile(join(copy, path), edit(await readFile(join(copy, path), 'utf8')))
      }
    }
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', directory], {
      cwd: copy,
    })
    packed.push(join(directory, (JSON.parse(stdout) as [{ filename: string }])[0].filename))
  }
  return packed
}
