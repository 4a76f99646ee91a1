import type { ChildProcess } from 'node:child_process'
import {
  familyOf,
  killGroup,
  type ProcessIdentity,
  readStat,
  startProcess,
  startTimeOf,
} from '../../../platform/processes.ts'
import type { Subnet } from '../../network/addresses.ts'
import { ToolError } from '../../network/tools.ts'

/** Absolute paths of passt's `pasta`, nftables' `nft`, util-linux's `nsenter` and `setpriv`, and coreutils' `sleep`. */
export interface PastaTools {
  readonly pasta: string
  readonly nft: string
  readonly nsenter: string
  readonly setpriv: string
  readonly sleep: string
  readonly sh: string
}

/** The ports of this machine's loopback that lead to an app; `ipv6` is `null` where pasta has no IPv6. */
export interface ForwardedPorts {
  /** At 127.0.0.1, and the app's own. */
  readonly ipv4: number
  /** At ::1: pasta takes no port twice. */
  readonly ipv6: number | null
}

export interface PastaOptions {
  readonly tools: PastaTools
  readonly subnet: Subnet
  readonly rules: string
  /** False for a network in which nothing but IPv4 exists, so that `localhost` is 127.0.0.1 there. */
  readonly hasIpv6: boolean
  /** `null` for a network that nothing connects to. */
  readonly forwarded: ForwardedPorts | null
  /** The variable by which the holder is found again. */
  readonly mark: { readonly name: string; readonly value: string }
}

/** Pasta says that it is ready after some milliseconds; a machine that takes this long cannot start apps either. */
const timeoutMs = 20_000

/** Sets the rules, tells that the network is there, and then does nothing. Its arguments are its only input. */
const holder = `"$1" -f - || exit
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet || exit
if [ "$2" = ipv4 ]; then echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; fi
echo ready
exec "$3" --pdeathsig KILL "$4" infinity >/dev/null 2>&1`

/**
 * Starts pasta with a network of its own and returns the process that holds it: who enters that one's namespaces of users
 * and networks has all rights over the network. Both processes outlive the server, and neither outlives the other. Rejects
 * with a `ToolError` where this machine allows no such network.
 */
export async function startPasta(options: PastaOptions): Promise<ProcessIdentity> {
  const { tools, rules, hasIpv6, mark } = options
  const inside = [tools.sh, '-c', holder, 'sh', tools.nft, hasIpv6 ? 'both' : 'ipv4', tools.setpriv, tools.sleep]
  const child = startProcess(tools.pasta, [...argumentsOf(options), '--', ...inside], {
    cwd: '/',
    env: { [mark.name]: mark.value },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  await untilReady(child, tools.pasta, rules)
  child.unref()
  const found = child.pid === undefined ? undefined : await childOf(child.pid)
  if (found === undefined) throw new ToolError(`${tools.pasta} ended at once`)
  return found
}

function argumentsOf({ subnet: { host, inside }, hasIpv6, forwarded }: PastaOptions): string[] {
  return [
    ...['--foreground', '--quiet', '--config-net', '--address', inside, '--netmask', '30', '--gateway', host],
    ...(hasIpv6 ? [] : ['--ipv4-only']),
    ...(forwarded === null ? ['-t', 'none'] : ['-t', `127.0.0.1/${forwarded.ipv4}`]),
    ...(forwarded === null || forwarded.ipv6 === null ? [] : ['-t', `::1/${forwarded.ipv6}:${forwarded.ipv4}`]),
    ...['-u', 'none', '-T', 'none', '-U', 'none'],
  ]
}

function untilReady(child: ChildProcess, program: string, rules: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let [told, said] = ['', '']
    const end = () => child.pid !== undefined && killGroup(child.pid)
    const fail = (why: string) => {
      clearTimeout(timer)
      reject(new ToolError(`${program} ${why}: ${said.trim()}`))
    }
    const timer = setTimeout(() => {
      end()
      fail('is not ready')
    }, timeoutMs)
    child.on('error', (error) => fail(error.message))
    // Its child waits for ever, with its output open, where pasta itself could not go on.
    child.on('exit', end)
    child.on('close', (code) => fail(`ended with ${code ?? 'a signal'}`))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).replace(/^Failed to send .* to syslog\n/gm, '').slice(0, 2_000)
    })
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      told += text
      if (told !== 'ready\n') return
      clearTimeout(timer)
      // Once it has ended, its number may be another's.
      child.off('exit', end)
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy()
      resolve()
    })
    child.stdin?.on('error', () => undefined).end(rules)
  })
}

/** Finds the only child of a process. */
async function childOf(parent: number): Promise<ProcessIdentity | undefined> {
  for (const pid of await familyOf(parent)) {
    const startTime = startTimeOf(pid)
    if (readStat(pid)?.parent === parent && startTime !== null) return { pid, startTime }
  }
  return undefined
}
