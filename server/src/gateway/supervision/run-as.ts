import { join } from 'node:path'
import { programFile } from '../../platform/machine/own-files.ts'
import { reachableCopy } from '../../platform/machine/reach.ts'
import type { LesserUser } from '../../platform/machine/rights.ts'
import type { OsUser } from '../../platform/users.ts'

/** The unprivileged user of a gateway whose server is root, with what it needs to run as that user. */
export interface RunAs extends LesserUser {
  /** Node and the gateway's program, where the user can read them. */
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
  const [node, program] = await Promise.all([
    reachableCopy({ source: process.execPath, copyTo: join(runtime, `node-${process.version}`), user }),
    // By its name a module: no package.json is beside the copy.
    reachableCopy({ source: programFile('gateway'), copyTo: join(runtime, `gateway-${version}.mjs`), user }),
  ])
  return { node, program }
}
