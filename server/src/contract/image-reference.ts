/** A complete reference to an image, by Docker's grammar. */
export interface ImageReference {
  /** The host of the registry with its port, such as `docker.io` or `registry.example:5000`. */
  readonly registry: string
  /** The name in the registry, such as `library/nginx`. */
  readonly path: string
  /** The tag; null when there is only a digest. */
  readonly tag: string | null
  /** A digest such as `sha256:9f86d0…`, which always names the same image; null without a digest. */
  readonly digest: string | null
}

export const longestReference = 512

const longestName = 255
/** The defaults for names without a registry, and for names without a slash. */
const defaultRegistry = 'docker.io'
const defaultFolder = 'library'

const registryPattern = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::\d{1,5})?$/
const partPattern = /^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*$/
const tagPattern = /^\w[\w.-]{0,127}$/
const digestPattern = /^sha256:[0-9a-f]{64}$/
/** An image id is not a valid name. */
const idPattern = /^[0-9a-f]{64}$/

type Problem = { readonly problem: string }

const examples = 'docker.io/library/nginx:1.29 or registry.example/shop@sha256:…'
const refuse = (problem: string): Problem => ({ problem })

/**
 * Reads an image reference by Docker's grammar (github.com/distribution/reference). Names without a registry mean
 * Docker Hub. A reference without tag and digest gets the tag `latest`, as in `docker pull`. Pure; never throws.
 */
export function parseImageReference(text: string): ImageReference | Problem {
  if (text === '') return refuse('must not be empty')
  if (text.length > longestReference) return refuse(`must be at most ${longestReference} characters`)
  if (text.includes('://')) return refuse(`must be the name of an image without https://, such as ${examples}`)
  const [beforeDigest = '', digest = null, ...more] = text.split('@')
  if (more.length > 0 || (digest !== null && !digestPattern.test(digest))) {
    return refuse('must have @sha256: and 64 lower-case hexadecimal digits as its digest')
  }
  const colon = beforeDigest.indexOf(':', beforeDigest.lastIndexOf('/') + 1)
  const name = colon === -1 ? beforeDigest : beforeDigest.slice(0, colon)
  const tag = colon === -1 ? null : beforeDigest.slice(colon + 1)
  if (tag !== null && !tagPattern.test(tag)) {
    return refuse(
      'must have a tag of at most 128 letters, digits, dots, hyphens and underscores, first no dot or hyphen',
    )
  }
  const named = parseName(name)
  if ('problem' in named) return named
  return { ...named, tag: tag ?? (digest === null ? 'latest' : null), digest }
}

function parseName(name: string): Pick<ImageReference, 'registry' | 'path'> | Problem {
  if (/[A-Z]/.test(name)) return refuse('must be in lower case, but for its tag')
  const [first = '', ...rest] = name.split('/')
  const hasRegistry = rest.length > 0 && (first === 'localhost' || /[.:]/.test(first))
  const registry = hasRegistry ? parseRegistry(first) : defaultRegistry
  if (registry === null)
    return refuse(`must begin with the host of a registry and its port, if any, such as ${examples}`)
  const parts = hasRegistry ? rest : [first, ...rest]
  const path = registry === defaultRegistry && parts.length === 1 ? [defaultFolder, ...parts] : parts
  if (!path.every((part) => partPattern.test(part)) || idPattern.test(name)) {
    return refuse(`must be the name of an image, such as ${examples}`)
  }
  const full = { registry, path: path.join('/') }
  return imageName(full).length > longestName ? refuse(`must have a name of at most ${longestName} characters`) : full
}

/** Returns the normalised host of a registry; null for anything else. All hosts of Docker Hub become one host. */
export function parseRegistry(text: string): string | null {
  if (text.length > longestName || !registryPattern.test(text)) return null
  const [host = '', port] = text.split(':')
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return null
  if (port === undefined && host !== 'localhost' && !host.includes('.')) return null
  return ['index.docker.io', 'registry-1.docker.io'].includes(text) ? defaultRegistry : text
}

/** Returns the name of an image without its tag and digest, such as `docker.io/library/nginx`. */
export const imageName = ({ registry, path }: Pick<ImageReference, 'registry' | 'path'>): string =>
  `${registry}/${path}`

/** Returns the full text of a reference. Parsing the text gives the same reference. */
export function formatImageReference({ tag, digest, ...name }: ImageReference): string {
  return `${imageName(name)}${tag === null ? '' : `:${tag}`}${digest === null ? '' : `@${digest}`}`
}
