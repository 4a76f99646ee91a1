import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

const forwarding = '/proc/sys/net/ipv4/ip_forward'

/**
 * A network for one machine that reaches others through this machine. Its addresses look public and lead nowhere else.
 */
export interface MachineNetwork extends AsyncDisposable {
  /** The path of its namespace. */
  readonly path: string
  /** The address of the machine. */
  readonly machine: string
  /** The address of this machine as seen from the other machine. */
  readonly host: string
}

/** Makes the network; this machine then forwards the other machine's packets under its own address. */
export async function machineNetwork(): Promise<MachineNetwork> {
  await using cleanup = new AsyncDisposableStack()
  const name = `fairlead-e2e-${randomUUID().slice(0, 8)}`
  const [outside, inside] = [`fle${name.slice(-8)}o`, `fle${name.slice(-8)}i`]
  const [host, machine] = ['11.97.0.1', '11.97.0.2']
  await run('ip', ['netns', 'add', name])
  cleanup.defer(async () => {
    await run('ip', ['netns', 'delete', name])
  })
  await run('ip', ['link', 'add', outside, 'type', 'veth', 'peer', 'name', inside, 'netns', name])
  await run('ip', ['address', 'add', `${host}/30`, 'dev', outside])
  await run('ip', ['link', 'set', outside, 'up'])
  for (const args of [
    ['address', 'add', `${machine}/30`, 'dev', inside],
    ['link', 'set', inside, 'up'],
    ['link', 'set', 'lo', 'up'],
    ['route', 'add', 'default', 'via', host],
  ]) {
    await run('ip', ['-n', name, ...args])
  }
  const before = (await readFile(forwarding, 'utf8')).trim()
  await writeFile(forwarding, '1')
  cleanup.defer(() => writeFile(forwarding, before))
  const rules = `table ip ${name} {
  chain post {
    type nat hook postrouting priority srcnat
    ip saddr ${machine} oifname != "${outside}" masquerade
  }
}
`
  await nft(rules)
  cleanup.defer(async () => {
    await run('nft', ['delete', 'table', 'ip', name])
  })
  const owned = cleanup.move()
  return { path: `/run/netns/${name}`, machine, host, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function nft(rules: string): Promise<void> {
  const running = run('nft', ['-f', '-'])
  running.child.stdin?.end(rules)
  await running
}
