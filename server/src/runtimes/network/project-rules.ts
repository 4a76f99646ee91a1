import type { Names } from './addresses.ts'
import { beginning } from './connections.ts'

/** A network that belongs to a project, whose networks reach each other. */
export interface ProjectMember {
  readonly projectId: string
  /** The IPv4 address inside. */
  readonly address: string
  /** The host's interface that leads there. */
  readonly link: string
  /** The bridge of the project's containers, which its networks reach, and which reaches them; null without. */
  readonly bridge: string | null
}

type TableNames = Pick<Names, 'table'>

/**
 * Returns the parts of the host's table that let the networks of a project reach each other: a chain for each project, into
 * which the packets of its interfaces go.
 */
export function projectChains(members: readonly ProjectMember[]): string[] {
  const projects = Map.groupBy(members, ({ projectId }) => checked(projectId))
  const elements = [...projects].flatMap(([projectId, own]) => elementsOf(projectId, own))
  return [
    ...[...projects].flatMap(([projectId, own]) => [
      `set ${projectId} { type ipv4_addr; elements = { ${own.map(({ address }) => address).join(', ')} }; }`,
      `chain ${projectId} {`,
      ...chain(projectId, own[0]?.bridge ?? null),
      '}',
    ]),
    'map projects { type ifname : verdict;',
    ...(elements.length === 0 ? [] : [`elements = { ${elements.join(', ')} }`]),
    '}',
  ]
}

/** Returns the elements that lead what comes from a project's networks and its bridge into its chain. */
function elementsOf(projectId: string, members: readonly Pick<ProjectMember, 'link' | 'bridge'>[]): string[] {
  const interfaces = new Set(members.flatMap(({ link, bridge }) => [link, ...(bridge === null ? [] : [bridge])]))
  return [...interfaces].map((each) => `"${each}" : jump ${projectId}`)
}

/** Sends what comes from the networks and the bridge of a project into the chain of the project. */
export const toProjects = 'iifname vmap @projects'

/** Returns the commands that add a network to its project, which may be there already, and set the project's bridge. */
export function memberRules({ table }: TableNames, member: ProjectMember): string {
  const { projectId, address, bridge } = member
  const at = `inet ${table} ${checked(projectId)}`
  return [
    `add set ${at} { type ipv4_addr; }`,
    `add chain ${at}`,
    `flush chain ${at}`,
    ...chain(projectId, bridge).map((rule) => `add rule ${at} ${rule}`),
    `add element ${at} { ${address} }`,
    `add element inet ${table} projects { ${elementsOf(projectId, [member]).join(', ')} }`,
    '',
  ].join('\n')
}

/** Returns the commands that take the bridge of its containers out of a project. */
export const formerBridgeRules = ({ table }: TableNames, bridge: string): string =>
  `delete element inet ${table} projects { "${bridge}" }\n`

/**
 * Returns the commands that take a network out of its project.
 *
 * @param isLast true for the last one of the project, whose chain goes with it: its bridge is taken out before
 */
export function formerMemberRules(
  { table }: TableNames,
  { projectId, address, link }: Omit<ProjectMember, 'bridge'>,
  isLast: boolean,
): string {
  const at = `inet ${table} ${checked(projectId)}`
  return [
    `delete element inet ${table} projects { "${link}" : jump ${projectId} }`,
    `delete element ${at} { ${address} }`,
    ...(isLast ? [`flush chain ${at}`, `delete chain ${at}`, `delete set ${at}`] : []),
    '',
  ].join('\n')
}

/**
 * New connections to the project's other networks and its containers pass, as many as one may begin to the outside. Those of containers
 * are counted by their own rules.
 */
const chain = (projectId: string, bridge: string | null): string[] => [
  'meta nfproto != ipv4 return',
  `ip daddr != @${projectId} ${bridge === null ? '' : `oifname != "${bridge}" `}return`,
  ...(bridge === null ? [] : [`iifname "${bridge}" accept`]),
  `update @beginning { iifname ${beginning} } reject`,
  'accept',
]

function checked(projectId: string): string {
  if (!/^[a-z][a-z0-9_]*$/.test(projectId)) throw new Error(`${projectId} cannot name a chain`)
  return projectId
}
