import { findHolder, type PortHolder } from './port-holder.ts'

export interface EdgePorts {
  readonly httpPort: number
  readonly httpsPort: number
}

const settingOf = (port: number, { httpPort }: EdgePorts): string =>
  port === httpPort ? 'FAIRLEAD_EDGE_HTTP_PORT' : 'FAIRLEAD_EDGE_HTTPS_PORT'

/** Returns a message for a port that another program uses, with what to do about it. */
export function portTaken(port: number, ports: EdgePorts, holder: PortHolder | null): string {
  const remedy = `choose another port with ${settingOf(port, ports)}`
  if (holder === null) return `port ${port} is taken by another program: stop that, or ${remedy}`
  const { command, pid } = holder
  // Debian's package starts a service on port 80.
  const stop = command === 'caddy' ? 'systemctl disable --now caddy stops the Caddy of the system' : 'stop it'
  return `port ${port} is taken by ${command} (pid ${pid}): ${stop}, or ${remedy}`
}

/** Returns a message for a port that the user may not listen on, with what to do about it. */
export const portForbidden = (port: number, ports: EdgePorts): string =>
  `this user may not listen on port ${port}: let the service have the right (fairlead service install), run ` +
  `sysctl net.ipv4.ip_unprivileged_port_start=${port}, or choose a port above 1023 with ${settingOf(port, ports)}`

export class PortTakenError extends Error {
  override readonly name = 'PortTakenError'
  readonly port: number

  constructor(port: number) {
    super(`port ${port} is taken`)
    this.port = port
  }
}

/** Explains to operators why the edge could not start or change. */
export async function reasonOf(error: unknown, ports: EdgePorts): Promise<string> {
  if (error instanceof PortTakenError) return portTaken(error.port, ports, await findHolder(error.port))
  const message = error instanceof Error ? error.message : String(error)
  const [, text, reason] = /listen (?:tcp|udp) \S*:(\d+): bind: ([a-z ]+)/.exec(message) ?? []
  const port = Number(text)
  if (reason === 'address already in use') return portTaken(port, ports, await findHolder(port))
  return reason === 'permission denied' ? portForbidden(port, ports) : message
}

/** True when another program uses this port, or any port that Caddy needs. */
export const isTaken = (error: unknown, port?: number): boolean =>
  error instanceof Error &&
  error.message.includes(`${port === undefined ? '' : `:${port}`}: bind: address already in use`)
