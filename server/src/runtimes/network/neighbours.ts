export interface ProjectContainers {
  readonly bridge: string
  readonly named: readonly NamedAddress[]
}

export interface NamedAddress {
  /** The name of the app for the other apps of the project, as `<name>.internal`. */
  readonly name: string
  readonly address: string
}

/** Apps of a project find each other by names with this suffix. */
export const nameSuffix = '.internal'

export const hostsLine = ({ name, address }: NamedAddress): string => `${address} ${name}${nameSuffix}`

/** Lets a project's processes and containers reach each other. */
export interface Neighbours {
  /** Replaces the project's containers; null for no network of containers. */
  set(projectId: string, containers: ProjectContainers | null): Promise<void>
  projects(): readonly string[]
  /** Writes the rules of the host for processes again after another program has removed them. */
  restoreRules(): Promise<void>
  processesOf(projectId: string): readonly NamedAddress[]
  onProcesses(changed: (projectId: string) => void): void
}
