/** The server runs as root, or as an ordinary user with bubblewrap. */
export const modes = ['root', 'user'] as const
export type Mode = (typeof modes)[number]
export const names: Readonly<Record<Mode, string>> = { root: 'as root', user: 'as an ordinary user with bubblewrap' }

/** Names an attack and its expected outcome. `held` is a sentence of docs/attacks.md. */
export interface Claim {
  /** Identifies the attack, such as `file-source`. */
  readonly id: string
  /** The topic in the table of docs/attacks.md. */
  readonly topic: Topic
  /** A sentence that is true when the attack fails, such as "A deployment reads no file of the server". */
  readonly held: string
  /** The modes in which the attack can be tried; both by default. The table shows `–` for the other mode. */
  readonly modes?: readonly Mode[]
  /**
   * True when only apps in separate networks resist the attack. It is not tried on a machine that cannot make networks.
   */
  readonly needsNetworks?: true
  /** The modes that do not resist the attack, each with the reason. The attack is not tried there. */
  readonly notHeld?: Partial<Readonly<Record<Mode, string>>>
}

export const topics = [
  'Sessions',
  'Files',
  'Network',
  'Processes',
  'Containers',
  'Databases',
  'Domains',
  'Limits',
  'Recovery',
] as const
export type Topic = (typeof topics)[number]
