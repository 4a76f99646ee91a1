/** A value, or its problems. They contain no secret. */
export type Read<T> = { readonly value: T } | { readonly problem: string } | { readonly problems: readonly string[] }

export const missing = 'is missing'

/** Reads the server's address and removes `/v1` and slashes at its end. */
export function readApiUrl(text: string): Read<string> {
  const example = "the server's address, such as https://fairlead.example.com"
  if (text === '') return { problem: `${missing}. Set it to ${example}.` }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:\/\//i.test(text)) {
    return { problem: `must begin with https:// or http://. Set it to ${example}.` }
  }
  if (url.username !== '' || url.password !== '') {
    return { problem: 'must not carry a user name or password. The key belongs in the input `api-key`.' }
  }
  if (url.search !== '' || url.hash !== '') return { problem: `must not have a "?" or "#". Set it to ${example}.` }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '').replace(/\/+$/, '')
  return { value: url.origin + path }
}

/** Reads the key; empty when not given and not needed, because the job may ask for tokens to exchange. */
export function readApiKey(text: string, mayAskForTokens: boolean): Read<string> {
  if (text !== '' || mayAskForTokens) return readToken(text)
  return {
    problem:
      `${missing}. Either give the job the permission \`id-token: write\`, with which it needs no key once the project ` +
      `trusts the repository; or store a key as a secret and pass it: api-key: \${{ secrets.FAIRLEAD_API_KEY }}.`,
  }
}

/** Reads an optional token; empty when not given. */
export function readToken(text: string): Read<string> {
  return text === '' ? { value: '' } : readHeaderWord(text)
}

// Other characters are not allowed in a header.
function readHeaderWord(text: string): Read<string> {
  if (!/^[\x21-\x7e]+$/.test(text))
    return { problem: 'contains spaces, line breaks or other characters that no key has.' }
  return { value: text }
}

export function readProjectId(text: string): Read<string> {
  const how = "Set it to the project's id, which begins with proj_."
  if (text === '') return { problem: `${missing}. ${how}` }
  return /^proj_\w+$/.test(text) ? { value: text } : { problem: `is not the id of a project. ${how}` }
}

export function readText(text: string | undefined): Read<string> {
  return text ? { value: text } : { problem: `${missing}, and this run has no repository. Set it.` }
}

/** Reads a branch, given by its name or its full ref; empty when not given. */
export function readBranch(text: string): Read<string> {
  if (!text.startsWith('refs/')) return { value: text }
  const branch = /^refs\/heads\/(.+)$/.exec(text)?.[1]
  return branch === undefined
    ? { problem: 'is a ref that is not a branch. Set it to the name of a branch, such as main.' }
    : { value: branch }
}

/** Reads a full commit hash; empty when not given. */
export function readCommit(text: string): Read<string> {
  if (text === '' || /^([0-9a-f]{40}|[0-9a-f]{64})$/i.test(text)) return { value: text.toLowerCase() }
  return { problem: 'must be the full hash of a commit: 40 or 64 hexadecimal digits.' }
}

export function readGitUrl(text: string | undefined): Read<string> {
  if (text && URL.canParse(text)) {
    const { protocol, username, password } = new URL(text)
    // Rejected before it can be printed.
    if (password !== '' || (username !== '' && protocol !== 'ssh:')) {
      return { problem: 'must not carry a user name or password. A token belongs in the input `git-token`.' }
    }
  }
  return readText(text)
}

export function readBoolean(text: string): Read<boolean> {
  if (/^true$/i.test(text)) return { value: true }
  return /^false$/i.test(text) ? { value: false } : { problem: 'must be true or false.' }
}

const maximumSeconds = 86_400

export function readTimeout(text: string): Read<number> {
  const seconds = /^\d{1,5}$/.test(text) ? Number(text) : 0
  return seconds >= 1 && seconds <= maximumSeconds
    ? { value: seconds }
    : { problem: `must be a whole number of seconds from 1 to ${maximumSeconds}.` }
}
