import type { PublicAddress } from '../gateway/gateway.ts'
import type { AppsConfig } from '../platform/config.ts'

/** A lower-case slug for addresses: letters, digits and single hyphens, at most 40. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '')
  return slug === '' ? 'app' : slug
}

/**
 * The host name of an app. The end of the project's id keeps two projects apart;
 * `attempt` above 1 keeps apart two names of one project that have the same slug.
 */
export function hostnameOf(options: { name: string; projectId: string; domain: string; attempt: number }): string {
  const again = options.attempt > 1 ? `-${options.attempt}` : ''
  return `${slugOf(options.name)}${again}-${options.projectId.slice(-8)}.${options.domain}`
}

export function addressOf(app: { port: number | null; hostname: string | null }): PublicAddress {
  if (app.port !== null) return { port: app.port }
  return { hostname: app.hostname ?? '' }
}

/** The public address of an app, as in a deployment's `url`. */
export function publicUrl(address: PublicAddress, config: AppsConfig): string {
  if ('port' in address) {
    const host = config.mode === 'ports' ? config.publicHost : config.domain
    return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
  }
  if (config.mode === 'ports') return `http://${address.hostname}`
  const usual = config.scheme === 'https' ? 443 : 80
  const port = config.publicPort === usual ? '' : `:${config.publicPort}`
  return `${config.scheme}://${address.hostname}${port}`
}
