import { writeFile } from 'node:fs/promises'
import type { AddressRange } from '../../platform/config.ts'
import type { Names } from './addresses.ts'
import { closePassage, openPassage } from './passage.ts'
import type { ProjectMember } from './project-rules.ts'
import { type Reach, resolveServices } from './reach.ts'
import { readResolvers } from './resolvers.ts'
import { hostRules, type Medium, openedPorts, openedRule, type Policy } from './rules.ts'
import { ignoreMissing, runTool, type Tools } from './tools.ts'

type TableNames = Pick<Names, 'table' | 'interfaces' | 'others'>

/**
 * Sets the rules of the host, in place of earlier ones, and lets the host forward.
 *
 * @param known.ports that were published, besides those of the earlier rules
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

/** Removes the rules of the host. */
export async function removeHostTable(
  { nft }: Pick<Tools, 'nft'>,
  names: Pick<Names, 'table' | 'interfaces'>,
): Promise<void> {
  await closePassage({ nft }, names)
  await runTool(nft, ['delete', 'table', 'inet', names.table]).catch(ignoreMissing)
}

/**
 * Returns the ports that were published, also by an earlier server: the gateway holds them while servers come and go. Null
 * where the table does not exist.
 */
export async function publishedPorts(
  { nft }: Pick<Tools, 'nft'>,
  { table }: Pick<Names, 'table'>,
): Promise<number[] | null> {
  const printed = await runTool(nft, ['-j', 'list', 'set', 'inet', table, 'apps']).catch(() => null)
  return printed === null ? null : openedPorts(printed)
}

/** Lets apps reach the port of an app, which the gateway has opened on this machine. */
export async function publishPort(
  { nft }: Pick<Tools, 'nft'>,
  names: Pick<Names, 'table'>,
  port: number,
): Promise<void> {
  await runTool(nft, ['-f', '-'], openedRule(names, port))
}

/** Resolves the names in what apps and builds reach. */
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
