/** The containers of a project, as its processes see them. */
export interface ProjectContainers {
  /** The bridge of the host that connects the containers. */
  readonly bridge: string
  readonly named: readonly NamedAddress[]
}

export interface NamedAddress {
  /** The name of the app for the other apps of the project, as `<name>.internal`. */
  readonly name: string
  /** The IPv4 address of the app. */
  readonly address: string
}

/** The suffix of the names by which the apps of a project find each other. */
export const nameSuffix = '.internal'

export const hostsLine = ({ name, address }: NamedAddress): string => `${address} ${name}${nameSuffix}`

/** Lets the processes and the containers of a project reach each other. */
export interface Neighbours {
  /** Sets the containers of a project, in place of its former containers; null when it has no network of containers. */
  set(projectId: string, containers: ProjectContainers | null): Promise<void>
  /** Returns the projects with containers. */
  projects(): readonly string[]
  /** Writes the rules of the host for processes again after another program has removed them. */
  restoreRules(): Promise<void>
  /** Returns the processes of a project with a name. */
  processesOf(projectId: string): readonly NamedAddress[]
  /** Calls the function after each change of the processes of a project. */
  onProcesses(changed: (projectId: string) => void): void
}
