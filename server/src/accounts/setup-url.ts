import type { AppsConfig } from '../platform/config.ts'

/**
 * Where a setup link leads. The token stands behind the `#`, which browsers send to nobody: it is in no log of a proxy
 * and in no `Referer`.
 */
export function setupUrl(base: string, token: string): string {
  return `${base.replace(/\/+$/, '')}/setup#${token}`
}

/** The address of the dashboard as far as the configuration tells; a proxy in front of it has another one. */
export function dashboardBase(config: { readonly host: string; readonly apps: AppsConfig }, port: number): string {
  const everywhere = config.host === '0.0.0.0' || config.host === '::'
  const host = config.apps.mode === 'ports' ? config.apps.publicHost : everywhere ? 'localhost' : config.host
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
