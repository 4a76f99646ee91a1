/** The server runs as root, or as an ordinary user with bubblewrap. */
export const modes = ['root', 'user'] as const
export type Mode = (typeof modes)[number]
export const names: Readonly<Record<Mode, string>> = { root: 'as root', user: 'as an ordinary user with bubblewrap' }

/** Says what is tried and what the outcome is to be. `held` is a sentence of docs/attacks.md. */
export interface Claim {
  /** Names the attack, such as `file-source`. */
  readonly id: string
  /** The topic of the table in docs/attacks.md that it belongs to. */
  readonly topic: Topic
  /** The sentence that is true when the attack fails, such as "A deployment reads no file of the server". */
  readonly held: string
  /** The modes in which it can be tried; both unless given. The table shows `–` for another. */
  readonly modes?: readonly Mode[]
  /** True for what only apps with networks of their own cannot do: it is not tried on a machine that can make none. */
  readonly needsNetworks?: true
  /** The modes in which it is not held, each with the reason; it is not tried there. */
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
