import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { end, untilAnswered } from './pebble.ts'
import { freePort } from './ports.ts'

/** The name server `pebble-challtestsrv`: every name leads to this machine unless a test says otherwise. */
export interface ChallengeDns extends AsyncDisposable {
  readonly port: number
  /** Sets the IPv4 addresses of a name. */
  setAddresses(name: string, addresses: readonly string[]): Promise<void>
}

export async function startChallengeDns(): Promise<ChallengeDns> {
  const [port, management] = [await freePort(), await freePort()]
  const off = ['http01', 'https01', 'tlsalpn01'].flatMap((name) => [`-${name}`, ''])
  const args = ['-dns01', `127.0.0.1:${port}`, '-management', `127.0.0.1:${management}`, '-defaultIPv6', '', ...off]
  const child = spawn('pebble-challtestsrv', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  await once(child, 'spawn')
  const post = async (path: string, body: object) => {
    const url = `http://127.0.0.1:${management}/${path}`
    const { status } = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
    if (status !== 200) throw new Error(`${path} answered with ${status}`)
  }
  await untilAnswered(() => post('clear-a', { host: 'nothing.example.' }))
  return {
    port,
    setAddresses: (name, addresses) => post('add-a', { host: `${name}.`, addresses }),
    [Symbol.asyncDispose]: () => end(child),
  }
}
