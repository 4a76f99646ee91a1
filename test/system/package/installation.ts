import { execFile, execFileSync } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../../harness/temporary.ts'

const run = promisify(execFile)
export const root: string = fileURLToPath(new URL('../../..', import.meta.url))

export interface Packages {
  readonly receiver: string
  readonly server: string
  readonly cli: string
}

/** Packs both packages into a folder, as a release does. */
export async function packInto(folder: string): Promise<Packages> {
  await run(process.execPath, ['scripts/pack.ts', folder], { cwd: root })
  const names = await readdir(folder)
  const path = (start: string) => join(folder, names.find((name) => name.startsWith(start)) ?? start)
  return { receiver: path('fairlead-receiver-'), server: path('fairlead-server-'), cli: path('fairlead-cli-') }
}

export interface Installation extends AsyncDisposable {
  readonly path: string
  /** The file that `npx fairlead` runs there. */
  readonly program: string
  /** Installs further packages. */
  add(packages: readonly string[]): Promise<void>
  /** Runs `npx` in the folder; resolves with its standard output. */
  npx(args: readonly string[], environment?: Readonly<Record<string, string>>): Promise<string>
}

/** Installs packages into an empty folder, as their users do. The checkout is out of reach. */
export async function install(packages: readonly string[]): Promise<Installation> {
  const directory = await temporaryDirectory()
  const path = join(directory.path, 'platform')
  await mkdir(path)
  await writeFile(join(path, 'package.json'), '{ "private": true }\n')
  const add: Installation['add'] = async (more) => {
    const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
    await run('npm', ['install', ...flags, ...more], { cwd: path, env: outside() })
  }
  await add(packages)
  return {
    path,
    program: join(path, 'node_modules/.bin/fairlead'),
    add,
    npx: async (args, environment = {}) =>
      (await run('npx', ['--no-install', ...args], { cwd: path, env: { ...outside(), ...environment } })).stdout,
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  }
}

/** The names of the files in a package. */
export const filesOf = (tarball: string): string[] =>
  execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).trim().split('\n')

/** The environment of the tests, without the variables that npm and vitest have set for programs in the checkout. */
function outside(): NodeJS.ProcessEnv {
  const mine = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_)|npm_config_local|VITEST|NODE_ENV$|INIT_CWD$)/.test(name),
  )
  return Object.fromEntries(mine)
}
