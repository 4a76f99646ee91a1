import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { copyOnce, isReachable, reachableCopy } from '../../platform/machine/reach.ts'
import type { LesserUser } from '../../platform/machine/rights.ts'
import type { OsUser } from '../../platform/users.ts'

/** The unprivileged user of a gateway whose server is root, with what it needs to run as that user. */
export interface RunAs extends LesserUser {
  /** Node and the gateway's `main`, where the user can read them. */
  readonly node: string
  readonly program: string
}

/** Finds Node and the gateway's program where the user can read them. Copies them to `runtime` otherwise. */
export async function reachableGateway({
  runtime,
  user,
  version,
}: {
  readonly runtime: string
  readonly user: OsUser
  /** Of the gateway's program, which names the copy. */
  readonly version: string
}): Promise<Pick<RunAs, 'node' | 'program'>> {
  const copyTo = join(runtime, `node-${process.version}`)
  const node = await reachableCopy({ source: process.execPath, copyTo, user })
  const parts = partsOfProgram()
  const reachable = await Promise.all(parts.map(({ source }) => isReachable(source, user)))
  const isInPlace = reachable.every((each) => each)
  const root = isInPlace ? sources : join(runtime, `gateway-${version}`)
  if (!isInPlace) for (const { source, name } of parts) await copyOnce({ source, copyTo: join(root, name) })
  return { node, program: join(root, mainFile) }
}

const sources = fileURLToPath(new URL('../..', import.meta.url))
const mainFile = join('gateway', 'program', import.meta.url.endsWith('.ts') ? 'main.ts' : 'main.js')

/** Returns all that the program loads, each with its place in a copy. */
function partsOfProgram(): readonly { readonly source: string; readonly name: string }[] {
  const manifest = findPackageJSON(import.meta.url)
  const types = findPackageJSON('mrmime', import.meta.url)
  if (manifest === undefined || types === undefined) throw new Error('the package of the server is incomplete')
  return [
    { source: join(sources, 'gateway'), name: 'gateway' },
    { source: join(sources, 'platform'), name: 'platform' },
    { source: dirname(types), name: join('node_modules', 'mrmime') },
    { source: manifest, name: 'package.json' },
  ]
}
