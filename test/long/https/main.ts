import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Pebble, startPebble } from '../../harness/pebble.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { bootMachine, type Machine, noMachine } from '../../system/service/machine.ts'
import { startZone } from './dns.ts'
import { type MachineNetwork, machineNetwork } from './network.ts'
import { readmeCommands } from './readme-commands.ts'

/*
 * `npm run first:https`: from an empty Debian to an app behind HTTPS, with the README's literal commands. The
 * certificates come from Pebble instead of Let's Encrypt, the records from a name server here. Prints each command with
 * its time, and ends with 1 when a command failed or a page was wrong.
 */

const heading = '### On your own domain, over HTTPS'
const domain = 'example.com'
const greeting = 'Hello'
/** The certificates that this machine trusts. A proxy on the way to the registries may need them. */
const ownAuthorities = '/usr/local/share/ca-certificates'
const trusted = '/etc/ssl/certs/ca-certificates.crt'

interface Step {
  readonly command: string
  readonly seconds: number
}

process.exitCode = await main()

async function main(): Promise<number> {
  const why = await noMachine()
  if (why !== null) {
    console.error(`Not possible here: ${why}`)
    return 1
  }
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const packages = join(directory.path, 'packages')
  await promisify(execFile)(process.execPath, ['scripts/pack.ts', packages])
  const network = cleanup.use(await machineNetwork())
  const zone = cleanup.use(await startZone(domain, { listen: network.host, address: network.machine }))
  const pebble = cleanup.use(
    await startPebble({ host: network.host, httpPort: 80, tlsPort: 443, dnsServer: zone.server }),
  )
  const machine = cleanup.use(
    await bootMachine({
      network: network.path,
      prepare: (root) => prepare(root, { packages, pebble, dns: zone.server }),
    }),
  )
  await machine.run(['update-ca-certificates'])

  const steps: Step[] = []
  for (const command of await readmeCommands(heading)) steps.push(await runStep(machine, command))
  const address = await appAddress(machine)
  const begun = performance.now()
  const [app, dashboard] = [
    await visit(network, pebble, address),
    await visit(network, pebble, `https://fairlead.${domain}/`),
  ]
  const firstVisits = (performance.now() - begun) / 1_000
  const redirect = await redirectOf(network, address)
  print(steps, { address, firstVisits })
  if (!dashboard.includes('<title>Fairlead</title>')) console.log(`The dashboard answered: ${dashboard.slice(0, 500)}`)
  return report({
    'the app answers over HTTPS with a certificate of the authority': app.includes(greeting),
    'the dashboard answers over HTTPS': dashboard.includes('<title>Fairlead</title>'),
    'HTTP leads to HTTPS': redirect === address,
  })
}

/** Adds the owner's initial files to the empty system: the package, the app, and names that can be resolved. */
async function prepare(
  root: string,
  given: { readonly packages: string; readonly pebble: Pebble; readonly dns: string },
): Promise<void> {
  await writeFile(join(root, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n')
  await cp('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
  await cp(ownAuthorities, join(root, ownAuthorities), { recursive: true })
  for (const name of await readdir(given.packages)) {
    if (name.startsWith('fairlead-server-')) await cp(join(given.packages, name), join(root, 'root', name))
  }
  const ca = '/etc/fairlead-test-authority.pem'
  await cp(given.pebble.caFile, join(root, ca))
  // They replace the public ones.
  const settings = {
    FAIRLEAD_ACME_URL: given.pebble.directoryUrl,
    FAIRLEAD_ACME_CA: ca,
    FAIRLEAD_DNS_SERVERS: given.dns,
  }
  const dropIn = join(root, 'etc/systemd/system/fairlead.service.d')
  await mkdir(dropIn, { recursive: true })
  const lines = Object.entries(settings).map(([name, value]) => `Environment=${name}=${value}`)
  await writeFile(join(dropIn, 'test.conf'), `[Service]\n${lines.join('\n')}\n`)
}

/** Runs one line of the README; later lines keep its exports. */
async function runStep(machine: Machine, command: string): Promise<Step> {
  const exported = '/root/.exported'
  const script = `cd /root; touch ${exported}; . ${exported}; set -e; ${command}\nexport -p > ${exported}`
  console.log(`$ ${command}`)
  const begun = performance.now()
  const { code, stdout, stderr } = await machine.run(['bash', '-c', script], {
    DEBIAN_FRONTEND: 'noninteractive',
    NODE_EXTRA_CA_CERTS: trusted,
  })
  if (code !== 0) throw new Error(`it failed (${code}):\n${stdout.slice(-3000)}\n${stderr.slice(-3000)}`)
  return { command, seconds: (performance.now() - begun) / 1_000 }
}

async function appAddress(machine: Machine): Promise<string> {
  const { stdout, stderr } = await machine.run(['bash', '-c', 'cd /root; . /root/.exported; fairlead open hello'])
  const address = /https:\/\/\S+/.exec(stdout)?.[0]
  if (address === undefined) throw new Error(`the app has no address: ${stdout}${stderr}`)
  return new URL(address).href
}

/**
 * Resolves with a page, whose certificate must come from the authority. The first visit of a name waits for its
 * certificate.
 */
async function visit(network: MachineNetwork, pebble: Pebble, address: string): Promise<string> {
  const { hostname, pathname } = new URL(address)
  const ca = await pebble.roots()
  return new Promise((resolve, reject) => {
    const asked = request({
      host: network.machine,
      servername: hostname,
      path: pathname,
      ca,
      headers: { Host: hostname, Accept: 'text/html' },
    })
    asked.on('error', reject)
    asked.on('response', async (response) => resolve(Buffer.concat(await response.toArray()).toString()))
    asked.end()
  })
}

function redirectOf(network: MachineNetwork, address: string): Promise<string | undefined> {
  const { hostname } = new URL(address)
  return new Promise((resolve, reject) => {
    const asked = get({ host: network.machine, path: '/', headers: { Host: hostname } }, (response) => {
      response.resume()
      resolve(response.headers.location)
    })
    asked.on('error', reject)
  })
}

function print(steps: readonly Step[], { address, firstVisits }: { address: string; firstVisits: number }): void {
  const total = steps.reduce((sum, { seconds }) => sum + seconds, firstVisits)
  console.log(`\nFrom an empty Debian to ${address}:\n`)
  for (const { command, seconds } of steps) console.log(`${seconds.toFixed(1).padStart(7)} s  ${command}`)
  console.log(
    `${firstVisits.toFixed(1).padStart(7)} s  the first visits of the app and the dashboard, with their certificates`,
  )
  console.log(`\n${steps.length} commands, ${(total / 60).toFixed(1)} minutes.`)
}

function report(checks: Readonly<Record<string, boolean>>): number {
  for (const [name, isRight] of Object.entries(checks)) console.log(`${isRight ? 'yes' : 'NO '}  ${name}`)
  return Object.values(checks).every((isRight) => isRight) ? 0 : 1
}
