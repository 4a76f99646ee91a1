import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemEntries } from '../../server/src/platform/sandbox/arguments.ts'
import { systemImage } from '../../server/src/runtimes/docker/base-images.ts'
import { nameImage } from '../../server/src/runtimes/docker/images.ts'
import type { TestDockerd } from './docker.ts'

/* A small base image from the system of this machine. A server's image of all programs has gigabytes. */

const run = promisify(execFile)

/** The name of the image that `importSystem` makes. */
export const systemBase = 'fairlead-test/system:latest'

const programs = ['dash', 'env', 'sleep', 'cat', 'echo', 'ls', 'id', 'dirname', 'basename', 'uname', 'sed']

/** Imports a few programs of this machine, Python and their libraries, as the base of containers. */
export async function importSystem({ engine }: TestDockerd): Promise<void> {
  const paths = await systemPaths()
  // The folders of the system have the same links as on this machine.
  const links = (await systemEntries()).filter(({ path, link }) => link !== null && !path.startsWith('/etc/'))
  const entries = async () => [...links, ...paths.map((path) => ({ path, link: null }))]
  const progress = { say: async () => undefined, signal: new AbortController().signal }
  const parts = { engine, server: 'test', source: { entries, hidden: '/nowhere' }, fence: () => undefined }
  await nameImage(engine, await systemImage(parts, progress), systemBase)
}

async function systemPaths(): Promise<string[]> {
  const python = await realpath('/usr/bin/python3')
  const modules = join('/usr/lib', python.slice(python.lastIndexOf('/') + 1))
  const found = ['/usr/bin/sh', '/usr/bin/python3', python, modules, '/usr/lib/os-release']
  for (const name of programs) if (await isProgram(`/usr/bin/${name}`)) found.push(`/usr/bin/${name}`)
  const needed = new Set<string>()
  for (const program of [process.execPath, python, ...found.filter((path) => path.startsWith('/usr/bin/'))]) {
    for (const library of await librariesOf(program)) needed.add(library)
  }
  return [...new Set([...found, ...needed])]
}

const isProgram = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  )

/** Returns the shared libraries of a program and its loader: the names that the program uses, and the files. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program]).catch(() => ({ stdout: '' }))
  const names = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, library = '']) => library)
  const inUsr = await Promise.all(
    names.map(async (name) => {
      const folder = await realpath(join(name, '..'))
      return [join(folder, name.slice(name.lastIndexOf('/') + 1)), await realpath(name)]
    }),
  )
  return inUsr.flat()
}
