import { type Claim, type Mode, modes, topics } from './claim.ts'

/** One attack in one mode; `held` is false when the attack succeeded. */
export interface Outcome {
  readonly claim: Claim
  readonly mode: Mode
  readonly held: boolean
}

const first = '<!-- attacks -->\n'
const last = '<!-- /attacks -->'

/**
 * Returns the table of docs/attacks.md: a row for each claim, a column for each mode, and the reasons below.
 *
 * @throws Error when two claims have the same id
 */
export function securityTable(outcomes: readonly Outcome[]): string {
  const claims = new Map<string, Claim>()
  for (const { claim } of outcomes) {
    if ((claims.get(claim.id) ?? claim).held !== claim.held) throw new Error(`two attacks have the id ${claim.id}`)
    claims.set(claim.id, claim)
  }
  const reasons: string[] = []
  const cell = (claim: Claim, mode: Mode): string => {
    if (claim.modes?.includes(mode) === false) return '–'
    const reason = claim.notHeld?.[mode]
    if (reason === undefined)
      return outcomes.some((one) => one.claim.id === claim.id && one.mode === mode && one.held) ? 'yes' : 'no'
    if (!reasons.includes(reason)) reasons.push(reason)
    return `no (${reasons.indexOf(reason) + 1})`
  }
  const rows = topics.flatMap((topic) =>
    [...claims.values()]
      .filter((claim) => claim.topic === topic)
      .sort((one, other) => one.held.localeCompare(other.held, 'en'))
      .map((claim) => `| ${topic} | ${claim.held} | ${modes.map((mode) => cell(claim, mode)).join(' | ')} |`),
  )
  return [
    '| topic | held | root | ordinary user, bubblewrap |',
    '|---|---|---|---|',
    ...rows,
    ...(reasons.length === 0 ? [] : ['', ...reasons.map((reason, at) => `${at + 1}. ${reason}`)]),
    '',
  ].join('\n')
}

/** Returns the page with the table between its two marks. @throws Error when the page has no marks */
export function withTable(page: string, table: string): string {
  const from = page.indexOf(first)
  const to = page.indexOf(last)
  if (from < 0 || to < from) throw new Error(`docs/attacks.md has no ${first.trim()} … ${last}`)
  return `${page.slice(0, from + first.length)}${table}${page.slice(to)}`
}
