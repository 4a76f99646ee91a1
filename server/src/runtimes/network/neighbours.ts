/** The containers of a project, as its processes reach them. */
export interface ProjectContainers {
  /** The host's bridge to which they are joined. */
  readonly bridge: string
  readonly named: readonly NamedAddress[]
}

export interface NamedAddress {
  /** The name by which the other apps of the project find it, as `<name>.internal`. */
  readonly name: string
  /** Its IPv4 address. */
  readonly address: string
}

/** The end of the names by which the apps of a project find each other. */
export const nameSuffix = '.internal'

/** Returns the line of a hosts file for a name. */
export const hostsLine = ({ name, address }: NamedAddress): string => `${address} ${name}${nameSuffix}`

/** Lets the processes and the containers of a project reach each other. */
export interface Neighbours {
  /** Sets the containers of a project, in place of those from before; null when it has no network of containers. */
  set(projectId: string, containers: ProjectContainers | null): Promise<void>
  /** The projects whose containers are set. */
  projects(): readonly string[]
  /** Writes the host's rules for processes anew where something has removed them. */
  restoreRules(): Promise<void>
  /** Returns the processes of a project that have a name. */
  processesOf(projectId: string): readonly NamedAddress[]
  /** Calls a function after each change of the processes of a project. */
  onProcesses(changed: (projectId: string) => void): void
}
