import type { Command, Option } from 'commander'
import type { ClientConfig } from '../../platform/config/client.ts'

/** The server of this machine, which only the server's own command knows: the command of the package has none. */
export interface LocalServer {
  /** Returns the option that names its data directory. */
  readonly option: () => Option
  /**
   * Finds a server that runs on this machine, of a server that this user runs, and makes and keeps a key of it, unless the kept
   * one is of that server. Resolves to `undefined` when there is none. Of commands that do so at once, one makes the key.
   */
  readonly logIn: (given: {
    readonly dataDir: string | undefined
    readonly hasDataDirectory: boolean
    readonly kept: () => Promise<ClientConfig | undefined>
    readonly keep: (config: ClientConfig) => Promise<unknown>
  }) => Promise<ClientConfig | undefined>
}

/** Adds the option that names a server of this machine, where there can be one. */
export function withLocalOption(command: Command, local: LocalServer | undefined): Command {
  return local === undefined ? command : command.addOption(local.option())
}
