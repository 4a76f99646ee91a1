import type { Names } from './addresses.ts'
import { beginning } from './connections.ts'

/** A network that belongs to a project, whose networks reach each other. */
export interface ProjectMember {
  readonly projectId: string
  /** The IPv4 address inside. */
  readonly address: string
  /** The host's interface that leads there. */
  readonly link: string
}

type TableNames = Pick<Names, 'table'>

/**
 * Returns the parts of the host's table that let the networks of a project reach each other: a chain for each project, into
 * which the packets of its interfaces go.
 */
export function projectChains(members: readonly ProjectMember[]): string[] {
  const projects = Map.groupBy(members, ({ projectId }) => checked(projectId))
  return [
    ...[...projects].flatMap(([projectId, own]) => [
      `set ${projectId} { type ipv4_addr; elements = { ${own.map(({ address }) => address).join(', ')} }; }`,
      `chain ${projectId} {`,
      ...chain(projectId),
      '}',
    ]),
    'map projects { type ifname : verdict;',
    ...(members.length === 0
      ? []
      : [`elements = { ${members.map(({ link, projectId }) => `"${link}" : jump ${projectId}`).join(', ')} }`]),
    '}',
  ]
}

/** Sends what comes from the network of a project into the chain of the project. */
export const toProjects = 'iifname vmap @projects'

/** Returns the commands that add a network to its project, which may be there already. */
export function memberRules({ table }: TableNames, { projectId, address, link }: ProjectMember): string {
  const at = `inet ${table} ${checked(projectId)}`
  return [
    `add set ${at} { type ipv4_addr; }`,
    `add chain ${at}`,
    `flush chain ${at}`,
    ...chain(projectId).map((rule) => `add rule ${at} ${rule}`),
    `add element ${at} { ${address} }`,
    `add element inet ${table} projects { "${link}" : jump ${projectId} }`,
    '',
  ].join('\n')
}

/**
 * Returns the commands that take a network out of its project.
 *
 * @param isLast true for the last one of the project, whose chain goes with it
 */
export function formerMemberRules(
  { table }: TableNames,
  { projectId, address, link }: ProjectMember,
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

/** New connections to the other networks of the project pass, as many as one may begin to the outside. */
const chain = (projectId: string): string[] => [
  `ip daddr != @${projectId} return`,
  `update @beginning { iifname ${beginning} } reject`,
  'accept',
]

function checked(projectId: string): string {
  if (!/^[a-z][a-z0-9_]*$/.test(projectId)) throw new Error(`${projectId} cannot name a chain`)
  return projectId
}
