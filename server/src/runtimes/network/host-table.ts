import { writeFile } from 'node:fs/promises'
import type { AddressRange } from '../../platform/config.ts'
import type { Names } from './addresses.ts'
import { type Reach, readResolvers, resolveServices } from './reach.ts'
import { hostRules, type Medium, openedPorts, openedRule, type Policy, type ProjectMember } from './rules.ts'
import { ignoreMissing, runTool, type Tools } from './tools.ts'

type TableNames = Pick<Names, 'table' | 'interfaces' | 'others'>

/**
 * Replaces the host's rules and enables forwarding.
 *
 * @param known.ports published ports, besides the ports in the earlier rules
 * @param known.members the networks that reach each other
 */
export async function setHostTable(
  { nft }: Pick<Tools, 'nft'>,
  names: TableNames,
  policy: Policy,
  medium: Medium,
  known: { readonly ports?: Iterable<number>; readonly members?: readonly ProjectMember[] } = {},
): Promise<void> {
  const opened = new Set([...((await publishedPorts({ nft }, names)) ?? []), ...(known.ports ?? [])])
  await runTool(
    nft,
    ['-f', '-'],
    hostRules(names, policy, { opened: [...opened], members: known.members ?? [] }, medium),
  )
  await openPassage({ nft }, names)
  await writeFile('/proc/sys/net/ipv4/ip_forward', '1')
}

export async function removeHostTable(
  { nft }: Pick<Tools, 'nft'>,
  names: Pick<Names, 'table' | 'interfaces'>,
): Promise<void> {
  await closePassage({ nft }, names)
  await runTool(nft, ['delete', 'table', 'inet', names.table]).catch(ignoreMissing)
}

/**
 * Returns the published ports, also from an earlier server: the gateway keeps them open across servers. Null where the
 * table does not exist.
 */
export async function publishedPorts(
  { nft }: Pick<Tools, 'nft'>,
  { table }: Pick<Names, 'table'>,
): Promise<number[] | null> {
  const printed = await runTool(nft, ['-j', 'list', 'set', 'inet', table, 'apps']).catch(() => null)
  return printed === null ? null : openedPorts(printed)
}

/** Lets apps reach the port of an app that the gateway has opened on this machine. */
export async function publishPort(
  { nft }: Pick<Tools, 'nft'>,
  names: Pick<Names, 'table'>,
  port: number,
): Promise<void> {
  await runTool(nft, ['-f', '-'], openedRule(names, port))
}

/** Resolves the names of services that apps and builds reach. */
export async function policyOf({
  range,
  reach,
}: {
  readonly range: AddressRange
  readonly reach: Reach
}): Promise<Policy> {
  const [resolvers, services, mirrors] = await Promise.all([
    readResolvers(),
    resolveServices(reach.services),
    resolveServices(reach.mirrors),
  ])
  return { range, reach, resolvers, services, mirrors }
}

type PassageNames = Pick<Names, 'table' | 'interfaces'>

interface Chain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook?: string
}

/**
 * Lets the networks of this server through chains of other programs that drop by default: Docker and ufw make such
 * chains, and a packet passes only if all chains accept it. The rules come last, so every rule of the operator comes
 * first. The table of the server still decides what the networks reach.
 */
async function openPassage({ nft }: Pick<Tools, 'nft'>, names: PassageNames): Promise<void> {
  const open = async (chain: Chain): Promise<void> => {
    if ((await ownRules({ nft }, chain, names)).length > 0) return
    await runTool(nft, ['-f', '-'], passageRules(chain, names))
  }
  for (const chain of dropping(await runTool(nft, ['-j', 'list', 'chains']), names)) {
    await open(chain).catch(ignoreMissing)
  }
}

async function closePassage({ nft }: Pick<Tools, 'nft'>, names: PassageNames): Promise<void> {
  const close = async (chain: Chain): Promise<void> => {
    for (const handle of await ownRules({ nft }, chain, names)) {
      await runTool(nft, ['delete', 'rule', ...nameOf(chain), 'handle', String(handle)])
    }
  }
  for (const chain of dropping(await runTool(nft, ['-j', 'list', 'chains']), names)) {
    await close(chain).catch(ignoreMissing)
  }
}

const nameOf = ({ family, table, name }: Chain): string[] => [family, table, name]

/**
 * Returns the foreign chains on the way to and through this machine that drop by default, from the output of `nft -j`.
 */
function dropping(printed: string, { table }: PassageNames): Chain[] {
  const { nftables } = JSON.parse(printed) as { nftables: { chain?: Chain & { policy?: string } }[] }
  return nftables.flatMap(({ chain }) => {
    const isOther = chain?.policy === 'drop' && chain.table !== table
    const isOnTheWay = chain?.hook === 'forward' || chain?.hook === 'input'
    return chain !== undefined && isOther && isOnTheWay && /^(ip|ip6|inet)$/.test(chain.family) ? [chain] : []
  })
}

async function ownRules({ nft }: Pick<Tools, 'nft'>, chain: Chain, { table }: PassageNames): Promise<number[]> {
  const printed = await runTool(nft, ['-j', '-a', 'list', 'chain', ...nameOf(chain)])
  const { nftables } = JSON.parse(printed) as { nftables: { rule?: { handle: number; comment?: string } }[] }
  return nftables.flatMap(({ rule }) => (rule?.comment === table ? [rule.handle] : []))
}

/** The rules have counters, like the rules of the other programs that read these chains. */
function passageRules(chain: Chain, { table, interfaces }: PassageNames): string {
  const add = (match: string) => `add rule ${nameOf(chain).join(' ')} ${match} counter accept comment "${table}"\n`
  // A packet to this machine has no outgoing interface.
  return add(`iifname "${interfaces}*"`) + (chain.hook === 'forward' ? add(`oifname "${interfaces}*"`) : '')
}
