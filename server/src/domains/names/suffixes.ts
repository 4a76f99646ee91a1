import { parse } from 'tldts'
import { isOpenSuffix } from './open-suffixes.ts'
import { type NameRefusal, refuse } from './refusal.ts'

/** Names that are no names of the public DNS (RFC 6761 and the registry that it began; `internal` by ICANN, 2024). */
const specialUse: ReadonlySet<string> = new Set([
  'alt',
  'arpa',
  'example',
  'internal',
  'invalid',
  'local',
  'localhost',
  'onion',
  'test',
])

const options = { allowPrivateDomains: true, extractHostname: false, validateHostname: false } as const

/**
 * Returns the part of a name that somebody has registered, such as `example.co.uk`; null for a public suffix itself.
 *
 * @param name without `*.`
 */
export const registrableDomain = (name: string): string | null => parse(name, options).domain

/** Tells if a last label is of no public name. */
export const isSpecialUse = (topLevel: string): boolean => specialUse.has(topLevel)

export const specialUseRefusal = (topLevel: string): NameRefusal =>
  refuse('special_use', `must be a name of the public DNS: those that end in .${topLevel} are not`)

/** Tells if a name is below a suffix of the Public Suffix List under which nobody can have a domain of their own. */
export function suffixRefusal(name: string): NameRefusal | undefined {
  const isWildcard = name.startsWith('*.')
  const base = isWildcard ? name.slice(2) : name
  const topLevel = base.slice(base.lastIndexOf('.') + 1)
  if (isSpecialUse(topLevel)) return specialUseRefusal(topLevel)
  const { domain, isPrivate, publicSuffix } = parse(base, options)
  const suffix = publicSuffix ?? topLevel
  if (isPrivate === true && !isOpenSuffix(suffix)) {
    return refuse('platform_name', `must be a domain of your own: names below ${suffix} belong to another platform`)
  }
  if (domain !== null) return undefined
  return isWildcard
    ? refuse('wildcard_of_suffix', `must be a wildcard of one domain: *.${suffix} would be everybody's names`)
    : refuse(
        'public_suffix',
        `must be a domain below ${suffix}, such as example.${suffix}: under ${suffix} itself others register theirs`,
      )
}
