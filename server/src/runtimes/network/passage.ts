import type { Names } from './addresses.ts'
import { ignoreMissing, runTool, type Tools } from './tools.ts'

type TableNames = Pick<Names, 'table' | 'interfaces'>

/** A chain of another program's. */
interface Chain {
  readonly family: string
  readonly table: string
  readonly name: string
  readonly hook?: string
}

/**
 * Lets the networks of this server pass chains of other programs that drop what no rule of theirs accepts: Docker's engine and
 * ufw make such ones, and a packet passes only if all chains let it. The rules come last, so that each rule of the operator's
 * comes first; what the networks reach is decided by the server's own table.
 */
export async function openPassage({ nft }: Pick<Tools, 'nft'>, names: TableNames): Promise<void> {
  const open = async (chain: Chain): Promise<void> => {
    if ((await ownRules({ nft }, chain, names)).length > 0) return
    await runTool(nft, ['-f', '-'], passageRules(chain, names))
  }
  for (const chain of dropping(await runTool(nft, ['-j', 'list', 'chains']), names)) {
    await open(chain).catch(ignoreMissing)
  }
}

/** Removes what `openPassage` has added. */
export async function closePassage({ nft }: Pick<Tools, 'nft'>, names: TableNames): Promise<void> {
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

/** Returns the chains of others on the way to and through this machine that drop by default, as `nft -j` prints them. */
function dropping(printed: string, { table }: TableNames): Chain[] {
  const { nftables } = JSON.parse(printed) as { nftables: { chain?: Chain & { policy?: string } }[] }
  return nftables.flatMap(({ chain }) => {
    const isOther = chain?.policy === 'drop' && chain.table !== table
    const isOnTheWay = chain?.hook === 'forward' || chain?.hook === 'input'
    return chain !== undefined && isOther && isOnTheWay && /^(ip|ip6|inet)$/.test(chain.family) ? [chain] : []
  })
}

/** Returns the handles of this server's rules in a chain. */
async function ownRules({ nft }: Pick<Tools, 'nft'>, chain: Chain, { table }: TableNames): Promise<number[]> {
  const printed = await runTool(nft, ['-j', '-a', 'list', 'chain', ...nameOf(chain)])
  const { nftables } = JSON.parse(printed) as { nftables: { rule?: { handle: number; comment?: string } }[] }
  return nftables.flatMap(({ rule }) => (rule?.comment === table ? [rule.handle] : []))
}

/** With counters, as the programs write them that read these chains, too. */
function passageRules(chain: Chain, { table, interfaces }: TableNames): string {
  const add = (match: string) => `add rule ${nameOf(chain).join(' ')} ${match} counter accept comment "${table}"\n`
  // A packet that comes in to this machine has no interface to go out by.
  return add(`iifname "${interfaces}*"`) + (chain.hook === 'forward' ? add(`oifname "${interfaces}*"`) : '')
}
