import { afterAll, beforeAll, describe, it } from 'vitest'
import { noNetworks, noPasta } from '../networks.ts'
import { noBubblewrap, noOrdinaryUser, skipped } from '../ordinary-user.ts'
import { isRoot } from '../temporary.ts'
import { type Claim, type Mode, modes, names } from './claim.ts'
import { type HostileOptions, type HostileServer, hostileServer } from './server.ts'

/*
 * Attacks by a tenant who has a key, an app and a database, against servers of several modes. A test file calls
 * `attacks` and lists what its tenant tries:
 *
 *   attacks({ settings: {} }, (attack) => {
 *     attack({ id: 'file-source', topic: 'Files', held: 'A deployment reads no file of the server' }, async (server) => {
 *       // attacks, and expects that the attack fails
 *     })
 *   })
 *
 * `npm run hostile` runs all attacks, prints how many were tried and held, and compares the table of docs/attacks.md
 * with the outcomes.
 */

declare module 'vitest' {
  interface TaskMeta {
    attack?: { readonly claim: Claim; readonly mode: Mode }
  }
}

type Attack = (claim: Claim, body: (server: HostileServer) => Promise<void>) => void

const noUser = isRoot ? await noOrdinaryUser() : null
const noMode: Readonly<Record<Mode, string | null>> = {
  root: isRoot ? null : 'the tests do not run as root',
  user: noUser ?? (await noBubblewrap()),
}

const noNetworksIn: Readonly<Record<Mode, string | null>> = {
  root: noMode.root ?? (await noNetworks()),
  user: noMode.user ?? (await noPasta()),
}

/** `npm run hostile` sets this. Other runs try each attack in one mode, because both modes take a tenth longer. */
const triesAllModes = process.env['HOSTILE_MODES'] === 'all'

/** Returns the modes in which an attack is tried: all modes that hold it, or the first one that this machine has. */
function modesOf({ modes: possible = modes, notHeld = {}, needsNetworks }: Claim): readonly Mode[] {
  const held = possible.filter((mode) => notHeld[mode] === undefined)
  const here = held.filter((mode) => (needsNetworks === true ? noNetworksIn : noMode)[mode] === null)
  return triesAllModes || here.length === 0 ? held : here.slice(0, 1)
}

/** Declares the attacks of a file. The attacks share one server per mode. */
export function attacks(options: HostileOptions, declare: (attack: Attack) => void): void {
  for (const mode of modes) {
    const declared: Parameters<Attack>[] = []
    declare((claim, body) => {
      if (modesOf(claim).includes(mode)) declared.push([claim, body])
    })
    if (declared.length === 0) continue
    const why = noMode[mode]
    if (why !== null) skipped(`attacks on a server that runs ${names[mode]}`, why)
    describe.skipIf(why !== null)(names[mode], () => {
      let server: HostileServer
      beforeAll(async () => {
        server = await hostileServer(mode, options)
      })
      afterAll(() => server?.[Symbol.asyncDispose]())
      for (const [claim, body] of declared) {
        const noNetwork = claim.needsNetworks === undefined || why !== null ? null : noNetworksIn[mode]
        if (noNetwork !== null) skipped(`"${claim.held}", ${names[mode]}`, noNetwork)
        it.skipIf(noNetwork !== null)(claim.held, { meta: { attack: { claim, mode } } }, () => body(server))
      }
    })
  }
}
