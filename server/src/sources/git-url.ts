import type { FieldProblem } from '../contract/errors.ts'

export interface GitSource {
  readonly url: string
  readonly protocol: 'https' | 'http' | 'ssh' | 'file'
  /** The host that the outbound rule checks; null for a local repository. */
  readonly host: string | null
  readonly port: number | null
}

const scpForm = /^(?:[A-Za-z0-9_][\w.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*):[^-:\s]\S*$/
const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])$/
const defaultPorts = { https: 443, http: 80, ssh: 22 } as const

/**
 * Parses a git address: `https`, `http`, `ssh`, the scp form, and, if allowed, `file:///absolute/path`. Refuses
 * everything else, including git's helpers (`ext::…`) and texts that look like an option.
 */
export function parseGitUrl(url: string, options: { allowFile: boolean }): GitSource | FieldProblem {
  // Printable ASCII only: no two programs may read the address differently.
  if (!/^[\x21-\x7e]+$/.test(url)) return problem('must be an address without spaces or control characters')
  // Some parsers read a backslash as a slash, others do not.
  if (url.includes('\\')) return problem('must not contain a backslash')
  if (!/^[a-z]+:\/\//i.test(url)) {
    const scp = scpForm.exec(url)
    return scp === null ? problem(accepted(options)) : { url, protocol: 'ssh', host: scp[1] ?? '', port: 22 }
  }
  if (!URL.canParse(url)) return problem(accepted(options))
  const parsed = new URL(url)
  if (parsed.protocol === 'file:') return readFileUrl(url, parsed, options)

  const protocol = parsed.protocol.slice(0, -1)
  if (protocol !== 'https' && protocol !== 'http' && protocol !== 'ssh') return problem(accepted(options))
  if (!hostForm.test(parsed.hostname)) return problem('names no valid host')
  if (parsed.password !== '' || (parsed.username !== '' && protocol !== 'ssh')) {
    return problem('must not carry a user name or password')
  }
  if (!/^[\w.-]*$/.test(parsed.username) || parsed.username.startsWith('-')) return problem('names no valid user')
  if (parsed.pathname === '/' || parsed.pathname === '') return problem('names a host, but no repository')
  if (/^\/(-|%2d)/i.test(parsed.pathname) || parsed.hash !== '') return problem(accepted(options))
  const port = parsed.port === '' ? defaultPorts[protocol] : Number(parsed.port)
  // Normalised, so that git uses exactly the host that was checked.
  return { url: parsed.href, protocol, host: parsed.hostname, port }
}

/** True when two addresses name the same repository. As on the usual hosts, a final `.git` makes no difference. */
export function sameRepository(one: string, other: string): boolean {
  const [first, second] = [one, other].map((url) => {
    const source = parseGitUrl(url, { allowFile: true })
    return 'field' in source ? null : source.url.replace(/\/+$/, '').replace(/\.git$/, '')
  })
  return first != null && first === second
}

/**
 * Returns the ssh address of a repository with an https address, in the form of the usual hosts; null for other
 * addresses.
 */
export function sshUrlOf(url: string): string | null {
  const source = parseGitUrl(url, { allowFile: false })
  if ('field' in source || source.protocol !== 'https' || source.port !== defaultPorts.https) return null
  return `git@${source.host}:${new URL(source.url).pathname.slice(1)}`
}

function readFileUrl(url: string, parsed: URL, options: { allowFile: boolean }): GitSource | FieldProblem {
  if (!options.allowFile) return problem(accepted(options))
  if (parsed.hostname !== '' || !url.startsWith('file:///') || parsed.search !== '' || parsed.hash !== '') {
    return problem('must have the form file:///absolute/path')
  }
  return { url, protocol: 'file', host: null, port: null }
}

/** Applies the rules of `git check-ref-format --branch`. Returns the problem, or undefined. */
export function branchProblem(branch: string): string | undefined {
  const wrong =
    branch === '' ||
    branch === '@' ||
    branch.startsWith('-') ||
    branch.startsWith('/') ||
    branch.endsWith('/') ||
    branch.endsWith('.') ||
    branch.includes('..') ||
    branch.includes('//') ||
    branch.includes('@{') ||
    // Control characters, spaces and characters with a meaning in git.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
    /[\x00-\x20\x7f~^:?*[\\]/.test(branch) ||
    !branch.isWellFormed() ||
    branch.split('/').some((part) => part.startsWith('.') || part.endsWith('.lock'))
  return wrong ? 'must be the name of a branch' : undefined
}

function problem(message: string): FieldProblem {
  return { field: 'git_url', message }
}

function accepted(options: { allowFile: boolean }): string {
  const forms = ['https://host/path', 'http://host/path', 'ssh://user@host/path', 'user@host:path']
  if (options.allowFile) forms.push('file:///absolute/path')
  return `must be one of the forms ${forms.join(', ')}`
}
